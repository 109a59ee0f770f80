package workspace_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/workspace"
	"cloister/workspace/protect"
)

// What a project around says of files holds by its own paths, and neither list takes
// back what the other names.
func TestOuterRules(t *testing.T) {
	dir := base(t)
	p := filepath.Join(dir, "out/sub/p")
	for _, rel := range []string{"a.key", "b.key", "deep/a.key", "plain", "top", "kept", "mine.pem"} {
		write(t, filepath.Join(p, rel), "x")
	}
	shown := func(v *workspace.View, rel string) (hidden, held bool) {
		for _, c := range v.Protect {
			if string(c.Target) == filepath.Join(p, rel) {
				return c.Empty, !c.Empty && !c.Pin
			}
		}
		return false, false
	}
	for _, c := range []struct {
		name                string
		own, hide, protects []string
		hidden, held        []string
	}{
		{"control: none", nil, nil, nil, nil, nil},
		{"anywhere", nil, []string{"*.key"}, []string{"kept"}, []string{"a.key", "b.key", "deep/a.key"}, []string{"kept"}},
		{"by path", nil, []string{"sub/p/a.key", "top/plain"}, []string{"sub/*/kept"}, []string{"a.key"}, []string{"kept"}},
		{"from the top of the one around", nil, []string{"./top", "p/plain"}, nil, nil, nil},
		{"its own exception", nil, []string{"*.key", "!sub/p/b.key"}, nil, []string{"a.key", "deep/a.key"}, nil},
		{"an exception inside", []string{"!a.key"}, []string{"*.key"}, nil, []string{"a.key", "b.key", "deep/a.key"}, nil},
		{"an exception around", []string{"*.pem"}, []string{"*.key", "!*.pem"}, nil, []string{"a.key", "b.key", "deep/a.key", "mine.pem"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := plan(t, p, workspace.Options{Hide: c.own, Outer: []protect.Outer{{Root: filepath.Join(dir, "out"), Under: "sub/p", Hide: c.hide, Protect: c.protects}}})
			for _, rel := range []string{"a.key", "b.key", "deep/a.key", "plain", "top", "kept", "mine.pem"} {
				hidden, held := shown(v, rel)
				if hidden != slices.Contains(c.hidden, rel) || held != slices.Contains(c.held, rel) {
					t.Errorf("%s: hidden %v, held %v", rel, hidden, held)
				}
			}
		})
	}
	found, err := workspace.Find(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"sub", "p", "sub/p", "sub/**", "**/p/"} {
		o := workspace.Options{Data: filepath.Join(dir, "data"), Locks: filepath.Join(dir, "locks"), Outer: []protect.Outer{{Root: filepath.Join(dir, "out"), Under: "sub/p", Hide: []string{text}}}}
		_, err := planOf(t, found, o)
		if whole, is := errors.AsType[*protect.Whole](err); !is || whole.Pattern != text || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
