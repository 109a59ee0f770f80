package worktrees_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/host/resolve"
	"cloister/host/taint"
	"cloister/workspace"
	"cloister/workspace/hostgit"
	"cloister/workspace/worktrees"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Git waits for ever where an agent put a pipe in the place of a file that it
// reads: it is not called then, and the person is told where.
func TestNoGitAtAPipe(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	dir, err := filepath.EvalSymlinks(t.TempDir()) // without symbolic links above it
	if err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(dir, "project")
	write(t, filepath.Join(project, "a"), "text")
	for _, words := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-qm", "first"}} {
		if out, err := exec.CommandContext(ctx, "git", append([]string{"-C", project}, words...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	host := resolve.New(new(taint.Register), os.Getuid())
	waits := func(what, at string, call func() error) {
		t.Helper()
		if err := call(); err != nil {
			t.Fatalf("control: %s: %v", what, err)
		}
		if err := unix.Mkfifo(at, 0o644); err != nil {
			t.Fatal(err)
		}
		var pipe *hostgit.Pipe
		if err := call(); !errors.As(err, &pipe) || pipe.Path != at {
			t.Errorf("%s: %v; want %s", what, err, at)
		}
		if err := unix.Unlink(at); err != nil {
			t.Fatal(err)
		}
	}
	committed := func() error { _, err := workspace.Committed(ctx, host, project, "a"); return err }
	for _, name := range []string{"packed-refs", "shallow", "refs/heads/x", "objects/info/alternates", "objects/pack/pack-x.idx"} {
		waits("committed", filepath.Join(project, ".git", name), committed)
	}
	p, err := workspace.Find(project)
	if err != nil {
		t.Fatal(err)
	}
	trees, err := worktrees.Of(p, host, filepath.Join(dir, "data"), filepath.Join(dir, "locks"))
	if err != nil {
		t.Fatal(err)
	}
	tree, _, err := trees.Open(ctx, "one")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(tree, "sub/new"), "is lost")
	lost := func() error {
		if err := trees.Remove(ctx, "one", false); !errors.As(err, new(*worktrees.Loss)) {
			return errors.Join(errors.New("removed"), err)
		}
		return nil
	}
	write(t, filepath.Join(tree, "linked/.git"), "gitdir: ../elsewhere")
	write(t, filepath.Join(tree, "elsewhere/config"), "[core]\n")
	for _, name := range []string{".gitignore", "sub/.gitignore", "sub/.gitattributes", "elsewhere/HEAD"} {
		waits("remove", filepath.Join(tree, name), lost)
	}
}
