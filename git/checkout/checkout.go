// Package checkout is what runs inside a cloister whose workspace is git's: it clones the project from the guardian,
// runs the command in the clone, and brings back what was committed.
//
// The promise: what comes back is a branch of the session's own name, by the guardian's own door, which checks it; what
// was not committed comes as a commit on a branch beside it. It runs as the payload does and is trusted with nothing: a
// payload can do all of it itself, or end it.
//
// Most readers want [Main].
package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"cloister/git"
)

// Name is what the program is called inside.
const Name = "git-checkout-project"

// Words are the command that runs argv in a clone: of the session of a name, from a branch of the project.
func Words(folder, name, base string, argv []string) []string {
	return append([]string{folder + "/" + Name, name, base}, argv...)
}

// Statuses as a shell has them.
const (
	failed      = 1
	wrongWords  = 64
	notExecuted = 126
	notFound    = 127
	signalled   = 128
)

// clone is the working tree inside.
type clone struct {
	dir, git string
	env      []string
	branch   string // of the session
	base     string // what the project had checked out
}

// Main is the program: NAME BASE COMMAND... Its result is an exit status.
func Main(ctx context.Context, args, env []string) int {
	say := func(err error) { fmt.Fprintf(os.Stderr, "cloister: %v\n", err) }
	if len(args) < 3 {
		fmt.Fprintf(os.Stderr, "usage: %s NAME BASE COMMAND... (cloister run --workspace git calls it)\n", Name)
		return wrongWords
	}
	path, err := exec.LookPath("git")
	if err != nil {
		say(errors.New("there is no git inside: --workspace git needs it in the image"))
		return notFound
	}
	at := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, "HOME=/") })
	if at < 0 {
		say(errors.New("there is no home inside"))
		return failed
	}
	dir := filepath.Join(strings.TrimPrefix(env[at], "HOME="), "work", args[0])
	c := clone{dir: dir, env: env, git: path, branch: git.ProjectBranch(args[0]), base: args[1]}
	if err := c.come(ctx); err != nil {
		say(fmt.Errorf("clone the project: %w", err))
		return failed
	}
	code := c.run(ctx, args[2:])
	if err := c.bring(ctx); err != nil {
		say(fmt.Errorf("bring back what was committed: %w", err))
		code = max(code, failed)
	}
	return code
}

// do runs git in the clone, without its hooks.
func (c clone) do(ctx context.Context, env []string, words ...string) (string, error) {
	var said strings.Builder
	cmd := exec.CommandContext(ctx, c.git, append([]string{"-C", c.dir, "-c", "core.hooksPath=/dev/null"}, words...)...)
	cmd.Env, cmd.Stderr = append(slices.Clip(c.env), env...), &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", words[0], err, strings.Join(strings.Fields(said.String()), " "))
	}
	return strings.TrimSpace(string(out)), nil
}

// come makes the clone, or goes on with the one of a session of this name before.
func (c clone) come(ctx context.Context) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	steps := [][]string{{"init", "--quiet", "--template="}, {"config", "push.autoSetupRemote", "true"}}
	if _, err := os.Stat(filepath.Join(c.dir, ".git")); err == nil {
		steps = nil
	}
	steps = append(steps, []string{"config", "remote.origin.url", "cloister::" + git.ProjectURL},
		[]string{"config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"},
		[]string{"fetch", "--quiet", "--prune", "origin"})
	for _, words := range steps {
		if _, err := c.do(ctx, nil, words...); err != nil {
			return err
		}
	}
	if _, err := c.do(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD"); err == nil {
		return nil // the clone of before, as it was left
	}
	from := "origin/" + c.branch // of a session before, whose home is gone
	if _, err := c.do(ctx, nil, "rev-parse", "--verify", "--quiet", from); err != nil {
		from = "origin/" + c.base
	}
	_, err := c.do(ctx, nil, "checkout", "--quiet", "--no-track", "-b", c.branch, from)
	return err
}

// run runs the command in the clone, passes signals on, and gives its status.
func (c clone) run(ctx context.Context, argv []string) int {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = c.dir, append(slices.Clip(c.env), "PWD="+c.dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "execute %s: %v\n", argv[0], err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return notFound
		}
		return notExecuted
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-signals:
				_ = cmd.Process.Signal(sig) // an error means that it has ended
			case <-ended:
				return
			}
		}
	}()
	_ = cmd.Wait() // the state says it
	close(ended)
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return signalled + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// bring pushes what the clone has beyond the project.
func (c clone) bring(ctx context.Context) error {
	type one struct{ from, to string }
	var all []one
	if beyond, err := c.do(ctx, nil, "rev-list", "--max-count=1", "HEAD", "--not", "--remotes=origin"); err != nil {
		return err
	} else if beyond != "" {
		all = append(all, one{"HEAD", c.branch})
	}
	left, failed := c.left(ctx) // what was committed comes back all the same
	if left != "" {
		all = append(all, one{left, c.branch + git.Uncommitted})
	}
	for _, b := range all {
		err := c.push(ctx, b.from, b.to)
		if err != nil && b.from == "HEAD" { // such as while a person has the branch checked out
			fmt.Fprintf(os.Stderr, "cloister: %s does not take the commits: %v\n", b.to, err)
			b.to = c.branch + git.Kept
			err = c.push(ctx, b.from, b.to)
		}
		if failed = errors.Join(failed, err); err == nil {
			fmt.Fprintf(os.Stderr, "cloister: in the project for review: git log HEAD..%s\n", b.to)
		}
	}
	return failed
}

func (c clone) push(ctx context.Context, from, to string) error {
	_, err := c.do(ctx, nil, "push", "--quiet", "--no-verify", "origin", "+"+from+":refs/heads/"+to)
	return err
}

// left is a commit of what was not committed; empty for nothing.
func (c clone) left(ctx context.Context) (string, error) {
	if changed, err := c.do(ctx, nil, "status", "--porcelain"); err != nil || changed == "" {
		return "", err
	}
	own := []string{"GIT_INDEX_FILE=" + filepath.Join(c.dir, ".git", "index.cloister")} // theirs stays as it is
	for _, words := range [][]string{{"read-tree", "HEAD"}, {"add", "--all"}} {
		if _, err := c.do(ctx, own, words...); err != nil {
			return "", err
		}
	}
	tree, err := c.do(ctx, own, "write-tree")
	if err != nil {
		return "", err
	}
	for _, who := range []string{"AUTHOR", "COMMITTER"} { // who is inside may have no name
		own = append(own, "GIT_"+who+"_NAME=Cloister", "GIT_"+who+"_EMAIL=cloister@localhost")
	}
	return c.do(ctx, own, "commit-tree", "-p", "HEAD", "-m", "What was not committed in "+c.branch, tree)
}
