package judge

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	p, names, err := policyOf(s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lsm.Policy{Permit: lsm.All, Guarded: true, Rules: []lsm.Rule{
		{Path: "/home/a/p/tools", Forbid: lsm.Exec | lsm.Code},
		{Path: "/src/p/.env", Own: true, Forbid: lsm.All},
		{Path: "/data/home/.ssh", Own: true, Forbid: lsm.Write},
		{Path: "/etc/shadow", Own: true, Forbid: lsm.Read | lsm.List},
	}}, p); diff != "" {
		t.Error(diff)
	}
	for at, want := range map[string]string{"/home/a/p/tools": "tools", "/home/a/p/tools/mounted": "tools", "/src/p/.env": "env", "/src/p": "", "": ""} {
		if got := ruleOf(names, at); got != want {
			t.Errorf("the rule of %q is %q, want %q", at, got, want)
		}
	}
	s.Root.Dir = "/images/1"
	if p, _, _ := policyOf(s); p.Rules[3].Path != "/images/1/etc/shadow" {
		t.Errorf("in an image: %+v", p.Rules[3])
	}
}

// A list takes away what it speaks of, and leaves the box its own.
func TestPolicyOfLists(t *testing.T) {
	s := sandbox.Spec{Permits: sandbox.Permits{Opens: true, Programs: true, List: []sandbox.Permit{
		{Path: "/usr/bin/make", Exec: true}, {Path: "/p/", Dir: true, Read: true, Write: true},
	}}}
	p, _, _ := policyOf(s)
	if p.Permit != lsm.List || p.Mode != lsm.Enforce {
		t.Errorf("what no permit names may be used: %v, mode %v", p.Permit, p.Mode)
	}
	got := map[string]lsm.Rule{}
	for _, r := range p.Rules {
		got[r.Path] = r
	}
	for at, want := range map[string]lsm.Rule{
		"/usr/bin/make": {Path: "/usr/bin/make", Permit: lsm.Read | lsm.List | lsm.Exec | lsm.Code, Maybe: true, File: true},
		"/p":            {Path: "/p", Permit: lsm.Read | lsm.List | lsm.Write, Maybe: true, Straight: true},
		"/usr/lib":      {Path: "/usr/lib", Permit: lsm.Code, Maybe: true, Straight: true},
		// A devcontainer's volume is a link to a folder of the home, where an image has no such folder.
		"/usr/lib32": {Path: "/usr/lib32", Permit: lsm.Code, Maybe: true, Straight: true},
		"/dev":       {Path: "/dev", Permit: lsm.Read | lsm.Write, Maybe: true},
	} {
		if diff := cmp.Diff(want, got[at]); diff != "" {
			t.Errorf("%s: %s", at, diff)
		}
	}
	s = sandbox.Spec{Watched: sandbox.Watched{Programs: true, All: true, Permits: s.Permits}}
	if p, _, _ := policyOf(s); p.Mode != lsm.Record || p.Permit != lsm.List {
		t.Errorf("mode record: %+v", p)
	}
	s.Watched.All = false
	if p, _, _ := policyOf(s); p.Mode != lsm.Shadow {
		t.Errorf("mode shadow: %+v", p)
	}
}

// A pattern is no path, and what the box's own root has is found where the host has it, or left to the view.
func TestPolicyOfPatternsAndRoots(t *testing.T) {
	s := sandbox.Spec{
		Binds:  []sandbox.Bind{{Source: "/src/p", Target: "/p"}},
		Judged: []sandbox.Judged{{Path: "*.key", Glob: true}, {Path: "/p/x", Covered: true}, {Path: "/etc/x", Covered: true}, {Path: "/etc/y"}},
	}
	for root, want := range map[sandbox.HostPath][]string{
		"": {"/src/p/x", "/etc/x", "/etc/y"}, "/merged": {"/src/p/x", "/merged/etc/x", "/etc/y"}, Nowhere: {"/src/p/x", "/etc/y"},
	} {
		s.Root.Dir = root
		p, _, _ := policyOf(s)
		var got []string
		for _, r := range p.Rules {
			got = append(got, r.Path)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("root %q: %s", root, diff)
		}
	}
}

// A covered path of an image is the image's object, wherever its links lead on the host.
func TestLinksOfAnImage(t *testing.T) {
	root := t.TempDir()
	for at, to := range map[string]string{"awk": "/alternatives", "alternatives": "/gawk", "held": "/p/held"} {
		if err := os.Symlink(to, filepath.Join(root, at)); err != nil {
			t.Fatal(err)
		}
	}
	s := sandbox.Spec{Root: sandbox.Root{Dir: sandbox.HostPath(root)}, Binds: []sandbox.Bind{{Source: "/src/p", Target: "/p"}}}
	for name, want := range map[string]string{"/awk": root + "/gawk", "/held": "/src/p/held", "/gawk": root + "/gawk"} {
		if got, err := below(s, name); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", name, got, err, want)
		}
	}
	// A rule of a path that leads in circles is not passed over: nothing would keep it.
	if err := os.Symlink("circle", filepath.Join(root, "circle")); err != nil {
		t.Fatal(err)
	}
	s.Judged = []sandbox.Judged{{Path: "/circle/x", Covered: true, Read: true, Rule: "round"}}
	if p, _, err := policyOf(s); err == nil || !strings.Contains(err.Error(), "the rule round: follow the links of /circle/x: they lead in circles") {
		t.Errorf("judged by %+v, %v", p.Rules, err)
	}
}

// What the kernel tells is said in the words of the recorder; the box's own files and libraries are left out.
func TestUses(t *testing.T) {
	for _, c := range []struct {
		e    lsm.Event
		want string
		told bool
	}{
		{lsm.Event{Op: lsm.Opened, Need: lsm.Read, Path: "/p/x"}, "open", true},
		{lsm.Event{Op: lsm.Opened, Need: lsm.Read | lsm.Write, Path: "/p/x"}, "write", true},
		{lsm.Event{Op: lsm.Opened, Need: lsm.List, Folder: true, Path: "/p"}, "list", true},
		{lsm.Event{Op: lsm.Renamed, Path: "/p/x"}, "make", true},
		{lsm.Event{Op: lsm.Mapped, Path: "/usr/lib/libc.so"}, "map", false},
		{lsm.Event{Op: lsm.Mapped, Path: "/p/x.node"}, "map", true},
		{lsm.Event{Op: lsm.Opened, Path: "/dev/null"}, "open", false},
		{lsm.Event{Op: lsm.Created, Path: "/layers/x", Unseen: true}, "make", false},
		{lsm.Event{Op: lsm.Scripted, Path: "/p/x.sh"}, "execute", true},
	} {
		if got := use(c.e); got != c.want {
			t.Errorf("%+v is %q, want %q", c.e, got, c.want)
		}
		if told := learned(c.e); told != c.told {
			t.Errorf("%+v is told: %v", c.e, told)
		}
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

// A spec that keeps statements is never let pass for what is reported beside it.
func TestPolicyOfKeepsWhatIsKept(t *testing.T) {
	for _, w := range []sandbox.Watched{{Programs: true}, {Programs: true, All: true}, {All: true, Kept: true}} {
		for name, s := range map[string]sandbox.Spec{
			"a forbid": {Watched: w, Judged: []sandbox.Judged{{Path: "/p/x", Rule: "r", Read: true}}},
			"a list":   {Watched: w, Permits: sandbox.Permits{Opens: true}},
		} {
			if p, _, _ := policyOf(s); p.Mode != lsm.Enforce || len(p.Rules) == 0 {
				t.Errorf("%s, %+v: mode %v, %d rules", name, w, p.Mode, len(p.Rules))
			}
		}
	}
}
