package hostgit_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"cloister/host/resolve"
	"cloister/host/taint"
	"cloister/workspace/gitdir"
	"cloister/workspace/hostgit"
)

// TestSourcesUnanswered: what git did not say in time is asked for again, and is not kept as an answer.
func TestSourcesUnanswered(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	host := resolve.New(new(taint.Register), os.Getuid())
	repo := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", repo).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	at := hostgit.Folders{Common: filepath.Join(repo, ".git"), Dir: filepath.Join(repo, ".git"), Tree: repo}
	env := []string{"HOME=" + t.TempDir(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0=tracked"}
	knows := func(ctx context.Context, data string) bool {
		return slices.ContainsFunc(hostgit.Sources(ctx, host, data, at, env).Entries, func(e gitdir.Entry) bool {
			return e.Key == "hookspath" && e.Value == "tracked"
		})
	}
	if !knows(t.Context(), t.TempDir()) {
		t.Fatal("control: git does not say what its variables have")
	}
	data := t.TempDir()
	late, stop := context.WithCancel(t.Context())
	stop()
	if knows(late, data) {
		t.Fatal("control: git answered in no time")
	}
	if !knows(t.Context(), data) {
		t.Error("git is not asked again")
	}
}
