package explain

import (
	"strings"
	"testing"

	"cloister/api"
	"cloister/policy"
)

// What is advised about a path is one statement about that path, whatever the path is: a person
// pastes it.
func TestAdviceOfHostilePaths(t *testing.T) {
	compile := func(text string) (*policy.Snapshot, error) {
		return policy.Compile(policy.Input{Unlisted: policy.Deny, Cedar: []policy.CedarFile{{Name: "a.cedar", Text: []byte(text)}}})
	}
	s, err := compile(`permit (principal, action == Action::"FileOpenReadOnly", resource in Dir::"/usr");`)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{
		"/srv/a", `/srv/a"); permit (principal, action == Action::"FileOpen", resource in Dir::"/home`, `/srv/a\`, `/srv/\"x`,
		"/srv/a\n// allow", "/srv/\x1b[31m", "/srv/\u202etxt", "/srv/" + strings.Repeat("long", 1000),
	} {
		x, err := file(s, "", &api.ExplainFile{Path: at})
		if err != nil || x.Effect != policy.Deny.String() || len(x.Hints) != 1 {
			t.Errorf("%q: %+v, %v", at, x, err)
			continue
		}
		_, text, _ := strings.Cut(x.Hints[0], ": ")
		advised, err := compile(text)
		if err != nil {
			t.Errorf("%q: the advice %q does not load: %v", at, text, err)
			continue
		}
		if n := len(advised.Statements()); n != 1 {
			t.Errorf("%q: the advice %q has %d statements", at, text, n)
		}
		if x, err := file(advised, "", &api.ExplainFile{Path: at}); err != nil || x.Effect != policy.Allow.String() {
			t.Errorf("%q: the advice %q does not permit it: %+v, %v", at, text, x, err)
		}
		if strings.ContainsAny(text, "\n\x1b\u202e") {
			t.Errorf("%q: the advice %q has what a terminal obeys", at, text)
		}
	}
}
