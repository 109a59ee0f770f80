package realpath_test

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/internal/realpath"
)

// A link of a root leads to a place of that root, or to what lies on it.
func TestIn(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for at, to := range map[string]string{
		"a/abs": "/a/b", "a/rel": "b", "a/up": "../../../a/b", "a/twice": "/a/rel/../abs", "a/loop": "/a/loop", "a/out": "/etc",
		"a/on": "/mount/x", "a/slash": "/a//b/",
	} {
		if err := os.Symlink(to, filepath.Join(root, at)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"/": "/", "/a/b": "/a/b", "/a/abs/x": "/a/b/x", "/a/rel": "/a/b", "/a/up": "/a/b", "/a/twice/x": "/a/b/x",
		"/a/loop": "/a/loop", "/a/out/x": "/etc/x", "/a/on/../y": "/mount/y", "/none/x": "/none/x", "/a/slash": "/a/b",
	} {
		if got := realpath.In(root, name, func(at string) bool { return at == "/mount/x" }); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
