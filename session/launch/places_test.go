package launch_test

import (
	"path/filepath"
	"slices"
	"testing"

	"cloister/internal/xdg"
	"cloister/session/launch"
	"cloister/workspace/worktrees"
)

func TestPlacesOfItsOwn(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := xdg.Dirs{Config: top + "/config", State: top + "/state", Data: top + "/data", Runtime: top + "/run"}
	all := []string{d.Config, d.State, d.Data, d.Runtime}
	if got := launch.KeepOut(d); !slices.Equal(got, all) {
		t.Errorf("kept out are %q", got)
	}
	if got := launch.StateAround(d, "/home/me/project"); !slices.Equal(got, all) {
		t.Errorf("around a project of the person's lie %q", got)
	}
	// A worktree that Cloister made lies in the folder of data, beside the private homes.
	tree := filepath.Join(worktrees.Dir(d.Data), "project", "branch")
	if got, want := launch.StateAround(d, tree), []string{d.Config, d.State, d.Runtime, d.Data + "/homes"}; !slices.Equal(got, want) {
		t.Errorf("around a worktree lie %q, want %q", got, want)
	}
}
