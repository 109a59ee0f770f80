package launch

import (
	"strings"
	"testing"

	"cloister/config"
	"cloister/policy"
	"cloister/policy/filerule"
)

// A statement that is kept does not speak for one of the same name that nothing keeps: no policy has two, and what
// compiles them is another room.
func TestNamesThatAreTheSame(t *testing.T) {
	list := []policy.Statement{
		{Rule: "x", Hold: policy.InView, Closed: []policy.ClosedPath{{Path: "/etc/hosts"}}},
		{Rule: "x", Hold: policy.InView, Closed: []policy.ClosedPath{{Path: "/etc/passwd", Ask: filerule.Asks{Read: true}}}},
	}
	p := &Plan{}
	p.keep(Order{}, Facts{Isolation: "docker", Config: &config.Config{}}, list)
	if len(p.Closed) != 0 {
		t.Errorf("said to be kept: %q", p.Closed)
	}
}

// One word accepts one statement.
func TestWordsThatAreTheSame(t *testing.T) {
	const text = `@ask permit (principal, action == Action::"FileOpen", resource in Dir::"/srv");`
	file := func(name, text string) policy.CedarFile { return policy.CedarFile{Name: name, Text: []byte(text)} }
	o := Order{Verb: "run", Accept: []string{"residue:policy:p.cedar#1"}}
	err := o.checkStatements([]policy.CedarFile{file("/a/p.cedar", text), file("/b/p.cedar", text)})
	if err == nil || !strings.Contains(err.Error(), "is the word of two statements, at /a/p.cedar:1:1 and at /b/p.cedar:1:1") {
		t.Errorf("got %v", err)
	}
	for _, other := range []string{`@id("other") ` + text, text + text[:0]} {
		if err := o.checkStatements([]policy.CedarFile{file("/a/p.cedar", text), file("/b/q.cedar", other)}); err != nil {
			t.Error(err)
		}
	}
}
