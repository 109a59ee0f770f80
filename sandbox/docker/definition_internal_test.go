package docker

import (
	"errors"
	"strings"
	"testing"
)

func TestDefinitions(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a file of nobody's", "FROM a\nCOPY x /x\n", "d:2: there are no files beside the definition"},
		{"fetched by the engine", "FROM a\n# no\nADD \\\n https://x.example/ /x\n", "d:3: ADD is done by the engine itself"},
		{"a stage that is none", "FROM a AS one\nCOPY --from=two /x /x\n", "d:2: COPY --from=two is no stage"},
		{"a variable", "ARG x=a\nFROM $x\n", "d:2: FROM must name its image outright"},
		{"another machine", "FROM --platform=linux/s390x a\n", "d:1: FROM --platform=linux/s390x"},
		{"another syntax", "# syntax=x/y\nFROM a\n", "d:1: a build follows no other syntax"},
		{"steps of others", "FROM a\nONBUILD RUN x\n", "d:2: ONBUILD"},
		{"no image", "RUN from /x\n", "d:1: it begins with no image"},
		{"nothing at all", "", "d:1: it begins with no image"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := origins("d", []byte(tt.text))
			if bad, ok := errors.AsType[*BadDefinition](err); !ok || !strings.HasPrefix(err.Error(), tt.want) || len(bad.Hints()) == 0 {
				t.Errorf("%v, want %q and a hint", err, tt.want)
			}
		})
	}
}

// TestTrusting: each stage that has a system under it trusts what this host does.
func TestTrusting(t *testing.T) {
	text := []byte("# one\nFROM debian:12 \\\n # why\n AS first\nRUN x\nFROM first AS second\nFROM scratch AS third\nFROM third\nCOPY --from=first /x /x\nFROM a")
	from, err := origins("d", text)
	if err != nil {
		t.Fatal(err)
	}
	text = begun(text, from[0], "sha256:0")
	const arg = "ARG A=" + trusted + " B=" + trusted + "\n"
	const file = "COPY authorities.crt " + trusted + "\n"
	want := "# one\nFROM sha256:0 \\\n # why\n AS first\n" + file + arg + "RUN x\nFROM first AS second\n" + arg +
		"FROM scratch AS third\nFROM third\nCOPY --from=first /x /x\nFROM a\n" + file + arg
	if got := string(trusting(text, from, []string{"A", "B"})); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
