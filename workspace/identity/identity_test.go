package identity_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"cloister/host/taint"
	"cloister/workspace"
	"cloister/workspace/identity"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func repository(t *testing.T, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	must(t, exec.CommandContext(t.Context(), "git", "init", "--quiet", dir).Run())
}

func TestAProjectIsWhatItWas(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, outer, project string) (start string)
		other  bool
		root   string // of the start, below outer
	}{
		"as it was": {func(_ *testing.T, _, p string) string { return p }, false, "p"},
		"in a folder of it": {func(t *testing.T, _, p string) string {
			must(t, os.MkdirAll(p+"/sub", 0o755))
			return p + "/sub"
		}, false, "p"},
		"its HEAD is gone": {func(t *testing.T, _, p string) string {
			must(t, os.Remove(p+"/.git/HEAD"))
			return p
		}, true, "."},
		"a repository in it": {func(t *testing.T, _, p string) string {
			repository(t, p+"/sub")
			return p + "/sub"
		}, true, "p/sub"},
		"restored": {func(t *testing.T, _, p string) string {
			must(t, os.Rename(p, p+".old"))
			repository(t, p)
			return p
		}, true, "p"},
		"moved": {func(t *testing.T, outer, p string) string {
			must(t, os.Rename(p, outer+"/q"))
			return outer + "/q"
		}, true, "q"},
		"moved, and a start in a folder of it": {func(t *testing.T, outer, p string) string {
			must(t, os.Rename(p, outer+"/q"))
			must(t, os.MkdirAll(outer+"/q/sub", 0o755))
			return outer + "/q/sub"
		}, true, "q"},
		"moved with a repository in it": {func(t *testing.T, outer, p string) string {
			repository(t, p+"/sub")
			must(t, os.Rename(p, outer+"/q"))
			return outer + "/q/sub"
		}, true, "q/sub"},
		"moved without its repository": {func(t *testing.T, outer, p string) string {
			must(t, os.RemoveAll(p+"/.git"))
			must(t, os.Rename(p, outer+"/q"))
			return outer + "/q"
		}, true, "."},
		"its git folder is elsewhere": {func(t *testing.T, outer, p string) string {
			must(t, os.RemoveAll(p+"/.git"))
			must(t, exec.CommandContext(t.Context(), "git", "init", "--quiet", "--separate-git-dir", outer+"/g", p).Run())
			must(t, exec.CommandContext(t.Context(), "git", "-C", p, "config", "core.worktree", p).Run())
			return p
		}, true, "p"},
	} {
		t.Run(name, func(t *testing.T) {
			outer, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			repository(t, outer)
			project := filepath.Join(outer, "p")
			repository(t, project)
			places, err := taint.Read(filepath.Join(outer, "state"))
			must(t, err)
			first, err := workspace.Find(project)
			must(t, err)
			must(t, identity.Check(places, first))
			must(t, places.Enter(taint.Place{Kind: taint.Project, Path: project, Pin: workspace.PinOf(first)}))
			now, err := workspace.Find(tt.change(t, outer, project))
			must(t, err)
			if string(now.Root) != filepath.Join(outer, tt.root) {
				t.Fatalf("git has the root %s", now.Root)
			}
			var other *identity.Otherwise
			if err := identity.Check(places, now); errors.As(err, &other) != tt.other || !tt.other && err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}
