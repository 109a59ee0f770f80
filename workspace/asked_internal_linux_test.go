package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/sandbox"
)

// A person is asked about nothing that a forbid closes by another name, is not asked to write what is protected, and
// not about a name that is no text.
func TestAskedAndForbidden(t *testing.T) {
	v := closingView(t)
	root := string(v.project.Root)
	for _, rel := range []string{"real/key", "real/a.lock", "one.lock", "hook", "x\xff.lock"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, rel)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, rel), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"current": "real", "secret": "one.lock"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	v.Protect = append(v.Protect, sandbox.Protect{Target: sandbox.GuestPath(filepath.Join(root, "hook")), File: true})
	var o Options
	for _, rel := range []string{"real/key", "real/a.lock", "one.lock", "hook", "x\xff.lock"} {
		o.Closed = append(o.Closed, Closed{Path: filepath.Join(root, rel), Read: true, Change: true})
	}
	o.Closed = append(o.Closed, Closed{Path: filepath.Join(root, "secret")},
		Closed{Path: filepath.Join(root, "current"), Dir: true, Write: true})
	if err := v.close(o); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, a := range v.Asked {
		rel, _ := filepath.Rel(root, string(a.Path))
		got[rel] = map[bool]string{true: "read"}[a.Read] + map[bool]string{true: " write"}[a.Write]
	}
	want := map[string]string{"real/key": "read", "real/a.lock": "read", "hook": "read"}
	if len(got) != len(want) || got["real/key"] != "read" || got["real/a.lock"] != "read" || got["hook"] != "read" {
		t.Errorf("asked about %q, want %q", got, want)
	}
}
