package realpath_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/internal/realpath"
)

// A link of a root leads to a place of that root, or to what lies on it.
func TestIn(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "a/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "mount"), 0o755); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", 300)
	for at, to := range map[string]string{
		"a/abs": "/a/b", "a/rel": "b", "a/up": "../../../a/b", "a/twice": "/a/rel/../abs", "a/loop": "/a/loop", "a/out": "/etc",
		"a/on": "/mount/x", "a/slash": "/a//b/", "a/there": "back", "a/back": "there", "a/made": "/etc",
		"a/leaves": "/mount/x/../l", "mount/l": "/a/b", "a/round": "/mount/x/../../a/round",
	} {
		if err := os.Symlink(to, filepath.Join(root, at)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"/": "/", "/a/b": "/a/b", "/a/abs/x": "/a/b/x", "/a/rel": "/a/b", "/a/up": "/a/b", "/a/twice/x": "/a/b/x",
		"/a/out/x": "/etc/x", "/a/on/../y": "/mount/y", "/none/x": "/none/x", "/a/slash": "/a/b", "/a/made/x": "/a/made/x",
		"/a/leaves/x": "/a/b/x", "/a/b/none/../x": "/a/b/x", "/a/file/x": "/a/file/x", "/" + long: "/" + long,
	} {
		if got, err := realpath.In(root, name, places); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
	// No path is given that a caller could take for one without links.
	for name, want := range map[string]string{
		"/a/loop": "they lead in circles", "/a/loop/x": "they lead in circles", "/a/there/x": "they lead in circles",
		"/a/round/x": "they lead in circles",
	} {
		if got, err := realpath.In(root, name, places); got != "" || err == nil ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func places(at string) realpath.Place {
	switch at {
	case "/mount/x":
		return realpath.Other
	case "/a/made":
		return realpath.Made
	}
	return realpath.Roots
}
