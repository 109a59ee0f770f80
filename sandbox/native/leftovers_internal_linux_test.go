package native

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cloister/internal/cgroup"
	"cloister/internal/needs"
	"cloister/sandbox"
)

// A group has no process for some milliseconds: the sweep of another instance, which
// does not know its session, leaves it alone.
func TestLeftoversOfAnInstance(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Missing(t, "root", errors.New("another user's groups lie beside its own"))
	}
	ours, id := t.TempDir(), filepath.Base(t.TempDir())+"-leftovers"
	name := groupPrefix(ours) + id
	g, err := newGroup(name, sandbox.Limits{Memory: 64 << 20}, false, 0)
	if err != nil {
		needs.Missing(t, "root", err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	left := func() bool {
		for _, pattern := range []string{"/*/", "/"} {
			if found, _ := filepath.Glob(cgroup.Root + pattern + name); len(found) > 0 {
				return true
			}
		}
		return false
	}
	for _, c := range []struct {
		what, instance string
		alive, stays   bool
	}{
		{"another instance's", t.TempDir(), false, true},
		{"a living session's", ours, true, true},
		{"a dead session's", ours, false, false},
	} {
		if err := Leftovers(c.instance, func(found string) bool { return c.alive && found == id }); err != nil || left() != c.stays {
			t.Errorf("%s: it is left: %t, %v", c.what, left(), err)
		}
	}
}
