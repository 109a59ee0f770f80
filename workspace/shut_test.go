package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"cloister/sandbox"
	"cloister/workspace"
)

// A folder that the payload shut neither keeps the next cloister from starting nor
// is looked into: its owner cannot enter it.
func TestShutFolders(t *testing.T) {
	dir := base(t)
	repo(t, filepath.Join(dir, "p/.git"))
	for rel, mode := range map[string]os.FileMode{"shut/deep/.envrc": 0, "readable/.envrc": 0o644, "open/.envrc": 0o755, "shut2/r/.git/config": 0o600} {
		path := filepath.Join(dir, "p", rel)
		write(t, path, "x")
		top := filepath.Join(dir, "p", filepath.Dir(rel))
		for filepath.Dir(top) != filepath.Join(dir, "p") {
			top = filepath.Dir(top)
		}
		if err := os.Chmod(top, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(top, 0o700) })
	}
	v := plan(t, filepath.Join(dir, "p"), workspace.Options{})
	for rel, want := range map[string]bool{"open/.envrc": true, "shut/deep/.envrc": false, "readable/.envrc": false, "shut2/r/.git/config": false} {
		path := filepath.Join(dir, "p", rel)
		got := slices.ContainsFunc(v.Protect, func(p sandbox.Protect) bool { return string(p.Target) == path })
		if got != want {
			t.Errorf("%s is protected: %v, want %v", rel, got, want)
		}
	}
}
