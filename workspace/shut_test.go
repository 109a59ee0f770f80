package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/sandbox"
	"cloister/workspace"
)

// A folder that the payload shut neither keeps the next cloister from starting nor
// can be opened in there: what is in it is found by nobody, and so covered by nothing.
func TestShutFolders(t *testing.T) {
	dir := base(t)
	repo(t, filepath.Join(dir, "p/.git"))
	modes := map[string]os.FileMode{
		"shut": 0, "readable": 0o644, "entered": 0o311, "open": 0o755, "in/r/.git": 0o600, ".vscode": 0, ".hg": 0o644,
		"a/b/c/d/e/f/g": 0, ".git/modules/lib": 0o300,
	}
	for _, rel := range []string{
		"shut/deep/.envrc", "readable/.envrc", "entered/.envrc", "open/.envrc", "in/r/.git/config", ".vscode/tasks.json", ".hg/hgrc",
		"a/b/c/d/e/f/g/.env", ".git/modules/lib/config", ".git/modules/lib/HEAD",
	} {
		write(t, filepath.Join(dir, "p", rel), "x")
	}
	for rel, mode := range modes {
		path := filepath.Join(dir, "p", rel)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(path, 0o700) })
	}
	v := plan(t, filepath.Join(dir, "p"), workspace.Options{Hide: []string{"*/b/c/d/e/f/g/.env"}})
	for rel, mode := range modes {
		path := filepath.Join(dir, "p", rel)
		closed := slices.ContainsFunc(v.Protect, func(p sandbox.Protect) bool {
			return string(p.Target) == path && p.Empty && !p.File && !p.Yields && !p.Fleeting
		})
		if closed != (mode != 0o755) {
			t.Errorf("%s of mode %o is shown empty: %v", rel, mode, closed)
		}
		below := slices.ContainsFunc(v.Protect, func(p sandbox.Protect) bool { return strings.HasPrefix(string(p.Target), path+"/") })
		if below != (mode == 0o755) {
			t.Errorf("something below %s of mode %o is protected: %v", rel, mode, below)
		}
	}
	overlaid := plan(t, filepath.Join(dir, "p"), workspace.Options{Overlay: true, Hide: []string{"readable/.env*"}})
	if !slices.ContainsFunc(overlaid.Protect, func(p sandbox.Protect) bool { return string(p.Target) == filepath.Join(dir, "p/readable") && p.Empty }) {
		t.Errorf("over an overlay: %+v", overlaid.Protect)
	}
	out := filepath.Join(dir, "shown")
	write(t, filepath.Join(out, "a/shut/x"), "x")
	if err := os.Chmod(filepath.Join(out, "a/shut"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(out, "a/shut"), 0o700) })
	shown := plan(t, filepath.Join(dir, "p"), workspace.Options{Expose: []workspace.Expose{{Path: out, Access: sandbox.ReadWrite}}})
	if !slices.ContainsFunc(shown.Protect, func(p sandbox.Protect) bool { return string(p.Target) == filepath.Join(out, "a/shut") && p.Empty }) {
		t.Errorf("in a folder that is shown: %+v", shown.Protect)
	}
}
