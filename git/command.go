package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// command is one git in the depot, in a session of its own, with everything that
// it starts ended when ctx is.
func (d *Depot) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	words := []string{"--no-pager"}
	if len(args) > 0 && args[0] != "init" {
		words = append(words, "--git-dir="+d.dir)
	}
	for _, setting := range quiet {
		words = append(words, "-c", setting)
	}
	if d.kept != "" {
		words = append(words, "-c", d.kept)
	}
	c := exec.CommandContext(ctx, d.path, append(words, args...)...)
	c.Env, c.Dir = env, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	return c
}

// plain is the environment of a git that reads no configuration of anyone and
// speaks with no one.
func plain(more []string) []string {
	return append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_ALLOW_PROTOCOL=",
	}, more...)
}

// limits bound one git that reads objects which came from inside, by what it may
// allocate, write into one file, and use the processors for.
type limits struct{ memory, file, seconds uint64 }

func ofObjects() limits {
	return limits{memory: 2 << 30, file: maxPack + maxPack/2, seconds: 20 * 60}
}

// mostSaid bounds what one git may say.
const mostSaid = 16 << 20

// local runs a git that only looks at the depot.
func (d *Depot) local(ctx context.Context, in io.Reader, args ...string) (string, error) {
	return d.look(ctx, nil, in, args...)
}

func (d *Depot) look(ctx context.Context, more []string, in io.Reader, args ...string) (string, error) {
	return checked(d.command(ctx, plain(more), args...), in, func(c *exec.Cmd) error { return held(c, ofObjects()) })
}

// held runs a git within limits.
func held(c *exec.Cmd, l limits) error {
	if err := c.Start(); err != nil {
		return err
	}
	if err := l.hold(c.Process.Pid); err != nil {
		return errors.Join(err, c.Cancel(), c.Wait())
	}
	return c.Wait()
}

var errSaid = errors.New("git says more than can be looked at")

// run gives what a git said: all of it, or an error.
func run(c *exec.Cmd) (string, error) { return checked(c, nil, (*exec.Cmd).Run) }

func checked(c *exec.Cmd, in io.Reader, run func(*exec.Cmd) error) (string, error) {
	var out, said capped
	c.Stdin, c.Stdout, c.Stderr = in, &out, &said
	if err := run(c); err != nil {
		return out.String(), &Failed{said: said.String(), err: err}
	}
	if out.over {
		return "", errSaid
	}
	return out.String(), nil
}

// capped is a buffer that forgets everything once it was too much. It embeds
// none: that one's ReadFrom would go by Write.
type capped struct {
	text bytes.Buffer
	over bool
}

func (c *capped) Write(p []byte) (int, error) {
	if c.over = c.over || c.text.Len()+len(p) > mostSaid; c.over {
		c.text = bytes.Buffer{}
	} else {
		c.text.Write(p)
	}
	return len(p), nil
}

func (c *capped) String() string { return c.text.String() }

// Failed is a git that failed, with what it said.
type Failed struct {
	said string
	err  error
}

// Error is the line of git's that matters: the first that is called an error,
// or the last one.
func (f *Failed) Error() string {
	lines := strings.Split(strings.TrimSpace(f.said), "\n")
	for _, line := range lines {
		for _, word := range []string{"fatal: ", "error: "} {
			if rest, ok := strings.CutPrefix(line, word); ok {
				return "git: " + rest
			}
		}
	}
	if last := lines[len(lines)-1]; last != "" {
		return "git: " + last
	}
	return "git: " + f.err.Error()
}

func (f *Failed) Unwrap() error { return f.err }

// feed runs c with in as its input, within limits if there are some. It returns
// when c is over, although in is not: the rest of it is no one's.
func feed(c *exec.Cmd, in io.Reader, l *limits) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	c.Stdin = r
	if err := c.Start(); err != nil {
		w.Close()
		return err
	}
	if l != nil {
		if err := l.hold(c.Process.Pid); err != nil {
			w.Close()
			return errors.Join(err, c.Cancel(), c.Wait())
		}
	}
	go func() {
		// It ends with the connection, which its owner closes; a write ends when
		// no one reads the pipe any more.
		_, _ = io.Copy(w, in)
		w.Close()
	}()
	return c.Wait()
}
