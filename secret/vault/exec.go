package vault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Command runs programs of the host with that environment, in a process group of
// their own, without a terminal and without input.
func Command(env []string) Runner {
	return func(ctx context.Context, argv []string, most int) ([]byte, error) {
		program, err := lookPath(argv[0], env)
		if err != nil {
			return nil, err
		}
		ctx, enough := context.WithCancel(ctx)
		defer enough()
		out := &capped{most: most, enough: enough}
		c := exec.CommandContext(ctx, program, argv[1:]...)
		c.Args[0] = argv[0]
		c.Env, c.Dir, c.Stdout = env, "/", out
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
		c.WaitDelay = time.Second
		err = c.Run()
		if out.full {
			return out.text, nil // the caller sees that it is too much
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, fmt.Errorf("exit status %d", exit.ExitCode())
		}
		return out.text, err
	}
}

// lookPath finds a program by the PATH of an environment that is not this
// process's.
func lookPath(name string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		if !filepath.IsAbs(name) {
			return "", fmt.Errorf("%s: write the whole path, or the name alone", name)
		}
		return name, nil
	}
	for _, pair := range env {
		list, ok := strings.CutPrefix(pair, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s: not found in PATH", name)
}

// capped keeps so much of what is written; more ends the writer. It is no
// bytes.Buffer, whose ReadFrom would read on without a bound.
type capped struct {
	text   []byte
	most   int
	full   bool
	enough func()
}

var errFull = errors.New("too much")

func (b *capped) Write(p []byte) (int, error) {
	n := min(len(p), b.most-len(b.text))
	b.text = append(b.text, p[:n]...)
	if n < len(p) {
		b.full = true
		b.enough()
		return n, errFull
	}
	return n, nil
}
