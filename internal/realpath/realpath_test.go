package realpath_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/internal/realpath"
)

func TestOf(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(dir, strings.Repeat("d", 200), strings.Repeat("e", 200), strings.Repeat("f", 200), strings.Repeat("g", 200), strings.Repeat("h", 200))
	for _, d := range []string{filepath.Join(dir, "a", "b"), filepath.Join(dir, "gone (deleted)"), long} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"rel": "a/b", "abs": filepath.Join(dir, "a"), "two": "rel", "loop": "loop", "far": long} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".", "a/b", "rel", "abs/b", "two", "gone (deleted)", "far", "absent", "loop", "rel/absent"} {
		path := filepath.Join(dir, name)
		want, wantErr := filepath.EvalSymlinks(path)
		got, err := realpath.Of(path)
		if got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, err, want, wantErr)
		}
	}
	if _, err := realpath.Of(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

func TestInside(t *testing.T) {
	for path, want := range map[string]bool{"/a": true, "/a/b": true, "/ab": false, "/": false, "/b/a": false} {
		if realpath.Inside(path, "/a") != want || !realpath.Inside(path, "/") {
			t.Errorf("%s: in /a %v, want %v", path, !want, want)
		}
	}
}
