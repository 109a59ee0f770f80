package judge

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/kernel/lsm"
	"cloister/sandbox"
)

func TestPolicyOf(t *testing.T) {
	s := sandbox.Spec{
		Binds: []sandbox.Bind{{Source: "/data/home", Target: "/home/a"}, {Source: "/src/p", Target: "/home/a/p"}, {Source: "/usr", Target: "/usr"}},
		Judged: []sandbox.Judged{
			{Path: "/home/a/p/tools/", Rule: "tools", Exec: true},
			{Path: "/home/a/p/.env", Rule: "env", Covered: true, Read: true, Write: true, Exec: true},
			{Path: "/home/a/.ssh", Rule: "ssh", Covered: true, Write: true},
			{Path: "/etc/shadow", Rule: "shadow", Covered: true, Read: true},
			{Path: "/tmp/x", Rule: "tmp", Covered: true, Read: true}, // the box's own: the view keeps it
		},
	}
	p, names := policyOf(s)
	if diff := cmp.Diff(lsm.Policy{Permit: lsm.All, Rules: []lsm.Rule{
		{Path: "/home/a/p/tools", Forbid: lsm.Exec},
		{Path: "/src/p/.env", Own: true, Forbid: lsm.All},
		{Path: "/data/home/.ssh", Own: true, Forbid: lsm.Write},
		{Path: "/etc/shadow", Own: true, Forbid: lsm.Read},
	}}, p); diff != "" {
		t.Error(diff)
	}
	for at, want := range map[string]string{"/home/a/p/tools": "tools", "/home/a/p/tools/mounted": "tools", "/src/p/.env": "env", "/src/p": "", "": ""} {
		if got := ruleOf(names, at); got != want {
			t.Errorf("the rule of %q is %q, want %q", at, got, want)
		}
	}
	s.Root.Dir = "/images/1"
	if p, _ := policyOf(s); p.Rules[3].Path != "/images/1/etc/shadow" {
		t.Errorf("in an image: %+v", p.Rules[3])
	}
}

// The first of a kind is told at once, the rest is counted, and nothing is lost unseen.
func TestTeller(t *testing.T) {
	var told []sandbox.FileEvent
	r := newTeller(func(e sandbox.FileEvent) { told = append(told, e) })
	for range 5 {
		r.add(sandbox.FileEvent{Op: "open", Path: "/a"})
	}
	r.add(sandbox.FileEvent{Op: "open", Path: "/b"})
	if len(told) != 2 || told[0].More != 0 {
		t.Fatalf("%+v", told)
	}
	r.flush(7)
	if len(told) != 4 || told[2].Path != "/a" || told[2].More != 4 || told[3].More != 7 || told[3].Why == "" {
		t.Fatalf("%+v", told[2:])
	}
	r.flush(0)
	if len(told) != 4 {
		t.Fatalf("told again: %+v", told[4:])
	}
	for i := range kinds + 30 {
		r.add(sandbox.FileEvent{Op: "open", Path: fmt.Sprint(i)})
	}
	r.flush(0)
	if last := told[len(told)-1]; len(told) != 4+kinds+1 || last.More != 30 {
		t.Errorf("%d are told, at the end %+v", len(told), last)
	}
}
