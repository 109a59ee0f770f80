package launch_test

import (
	"strings"
	"testing"

	"cloister/config"
	"cloister/policy"
	"cloister/sandbox/judge"
	"cloister/session/launch"
)

// A start that goes on without the kernel's judge says so in one line, where a statement would have been kept by it.
func TestWithoutTheKernelsJudge(t *testing.T) {
	const text = `@id("x") forbid (principal, action == Action::"FileOpen", resource == File::"/srv/keys");`
	for _, c := range []struct {
		isolation, text string
		accept          []string
		missing         error
	}{
		{"native", text, nil, judge.Available()},
		{"docker", text, nil, judge.AvailableToEngine()},
		{"gvisor", text, nil, nil}, // it never has it
		{"native", text, []string{"residue:policy:x"}, nil},
		{"native", "", nil, nil},
	} {
		f := facts(t, config.Default())
		f.Isolation, f.Cedar = c.isolation, []policy.CedarFile{{Name: "a.cedar", Text: []byte(c.text)}}
		p, err := launch.Resolve(launch.Order{Accept: c.accept}, f)
		if err != nil {
			t.Fatal(err)
		}
		if p.Judge != nil {
			if err := p.Judge.Close(); err != nil {
				t.Error(err)
			}
		}
		var said []string
		for _, n := range p.Notices {
			if strings.Contains(n, "the kernel does not judge this session") {
				said = append(said, n)
			}
		}
		if (len(said) == 1) != (c.missing != nil) || len(said) > 1 {
			t.Errorf("%s, %q: missing: %v, said %q", c.isolation, c.text, c.missing, said)
		}
	}
}
