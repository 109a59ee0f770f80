package vault

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"cloister/host/resolve"
)

// Command runs programs of the host with that environment, in a process group of
// their own, without a terminal and without input.
func Command(env []string, resolver resolve.Now) Runner {
	return func(ctx context.Context, argv []string, most int) ([]byte, error) {
		host, err := resolver()
		if err != nil {
			return nil, err
		}
		env := host.Environment(env) // also for what it starts in its turn
		program, err := host.Program(argv[0], resolve.Lookup(env))
		if err != nil {
			return nil, err
		}
		ctx, enough := context.WithCancel(ctx)
		defer enough()
		out := &capped{most: most, enough: enough}
		c := exec.CommandContext(ctx, program.Path, argv[1:]...)
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
