// Package inside runs further commands in a live cloister, with pipes instead of the
// caller's own streams.
//
// Promise: a command runs as those of cloister exec do, under all restrictions of the
// cloister. [Runner.Run] returns when it has ended or its context has, at most a moment
// later, whatever the command left open or running; at most [MaxCommands] run at once. What it
// left running is recorded until it has ended, or [Runner.Close].
//
// It decides nothing, records by Record alone, finds no session, and gives no command a terminal.
//
// Most readers want [Runner.Run].
package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"cloister/api"
	"cloister/internal/exactjson"
	"cloister/sandbox"
	"cloister/session/filerecord"
)

const (
	// MaxCommands run at once; a further one waits.
	MaxCommands = 16
	// drainFor is how long output is read after the command has ended: a process that it
	// left behind may hold the pipe open for ever.
	drainFor = 300 * time.Millisecond
	// endGrace is how long a command may take to end when it is asked to.
	endGrace = time.Second
)

// Enterer is what of a driver is needed.
type Enterer interface {
	Exec(ctx context.Context, h sandbox.Handle, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error)
}

// A Runner runs commands in one cloister.
type Runner struct {
	driver Enterer
	box    sandbox.Handle
	spec   sandbox.Spec
	slots  chan struct{}
	files  *filerecord.Set // nil records nothing
	ask    func(context.Context, sandbox.FileQuestion) error
}

// New is the runner of the cloister that info describes.
func New(driver Enterer, info api.ExecInfo) (*Runner, error) {
	r := &Runner{driver: driver, box: sandbox.Handle(info.Handle), slots: make(chan struct{}, MaxCommands)}
	if err := exactjson.Unmarshal(info.Exec, &r.spec); err != nil {
		return nil, fmt.Errorf("run commands in %s: read its description: %w", info.Name, err)
	}
	return r, nil
}

// Record has what commands do with files and programs recorded by send, from now on.
func (r *Runner) Record(ctx context.Context, send func(ctx context.Context, list []api.FileEvent) error) {
	r.files = filerecord.NewSet(ctx, send)
}

// Ask has a person asked about files that commands open, by ask.
func (r *Runner) Ask(ask func(context.Context, api.FileQuestion) error) {
	r.ask = func(ctx context.Context, q sandbox.FileQuestion) error { return ask(ctx, api.FileQuestion(q)) }
}

// Close ends the record of what commands left running. No command may run.
func (r *Runner) Close() error {
	if r.files == nil {
		return nil
	}
	missed, why := r.files.Close()
	if missed > 0 {
		return fmt.Errorf("%d events of files and programs were not recorded: %w", missed, why)
	}
	return nil
}

// Dir is where the cloister's own command began: the project.
func (r *Runner) Dir() string { return string(r.spec.Dir) }

// A Command is what is to be run. Argv alone is required.
type Command struct {
	Argv []string
	Dir  string   // empty for the project
	Env  []string // in addition to the cloister's own
	// Stdin nil is empty. Stdout and Stderr nil are thrown away; they are written to by
	// one goroutine each, and an error of theirs is passed over.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Run runs one command. When ctx ends first, the command is ended, and the error is the
// context's.
func (r *Runner) Run(ctx context.Context, c Command) (sandbox.Status, error) {
	none := sandbox.Status{}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	spec := r.spec
	spec.Argv, spec.Env = c.Argv, environment(r.spec.Env, c.Env)
	if c.Dir != "" {
		spec.Dir = sandbox.GuestPath(c.Dir)
	}
	p, err := connect(c)
	if err != nil {
		return none, err
	}
	defer p.close()
	w := sandbox.Wiring{Stdin: p.inner[0], Stdout: p.inner[1], Stderr: p.inner[2], Ask: r.ask}
	if r.files != nil {
		seen, err := r.files.Begin()
		if err != nil {
			return none, fmt.Errorf("run a command inside: %w", err)
		}
		seen.Wire(&w)
		defer func() {
			if missed, why := seen.End(); missed > 0 && c.Stderr != nil {
				fmt.Fprintf(c.Stderr, "cloister: %d events of files and programs were not recorded: %v\n", missed, why)
			}
		}()
	}
	box, err := r.driver.Exec(ctx, r.box, spec, w)
	p.handOver()
	if err != nil {
		return none, err
	}
	status, err := wait(ctx, box)
	p.drain(drainFor)
	return status, err
}

// environment is the cloister's own with what a command has in addition.
func environment(own, more []string) []string {
	out := make([]string, 0, len(own)+len(more))
	named := map[string]bool{}
	for _, e := range more {
		key, _, _ := strings.Cut(e, "=")
		named[key] = true
	}
	for _, e := range own {
		if key, _, _ := strings.Cut(e, "="); !named[key] {
			out = append(out, e)
		}
	}
	return append(out, more...)
}

// wait waits for a command, and ends one whose context has ended.
func wait(ctx context.Context, box sandbox.Box) (sandbox.Status, error) {
	type outcome struct {
		status sandbox.Status
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		status, err := box.Wait()
		done <- outcome{status, errors.Join(err, box.Close())}
	}()
	select {
	case o := <-done:
		return o.status, o.err
	case <-ctx.Done():
	}
	_ = box.Signal(syscall.SIGTERM) // an error means that it has ended meanwhile
	select {
	case o := <-done:
		return o.status, context.Cause(ctx)
	case <-time.After(endGrace):
	}
	err := box.Close()
	o := <-done
	return o.status, errors.Join(context.Cause(ctx), err)
}

// pipes are the streams of one command: inner are the command's ends, outer ours.
type pipes struct {
	inner, outer [3]*os.File
	copied       chan struct{}
	copies       int
}

// connect makes the streams, and starts the goroutines that copy.
func connect(c Command) (p *pipes, err error) {
	p = &pipes{copied: make(chan struct{}, 2)}
	defer func() {
		if err != nil {
			p.close()
			err = fmt.Errorf("run a command inside: %w", err)
		}
	}()
	if c.Stdin == nil {
		p.inner[0], err = os.Open(os.DevNull)
	} else {
		p.inner[0], p.outer[0], err = os.Pipe()
	}
	if err != nil {
		return p, err
	}
	for i, to := range []io.Writer{1: c.Stdout, 2: c.Stderr} {
		switch {
		case i == 0:
		case to == nil:
			p.inner[i], err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		default:
			p.outer[i], p.inner[i], err = os.Pipe()
		}
		if err != nil {
			return p, err
		}
	}
	if in := p.outer[0]; in != nil {
		go func() { // ends with the pipe: see close
			_, _ = io.Copy(in, c.Stdin)
			_ = in.Close()
		}()
	}
	for i, to := range []io.Writer{1: c.Stdout, 2: c.Stderr} {
		if from := p.outer[i]; i > 0 && from != nil {
			p.copies++
			go func() {
				_, _ = io.Copy(to, from)
				p.copied <- struct{}{}
			}()
		}
	}
	return p, nil
}

// handOver closes the command's ends here: the command has its own by now.
func (p *pipes) handOver() {
	for i, f := range p.inner {
		if f != nil {
			_ = f.Close()
			p.inner[i] = nil
		}
	}
}

// drain waits for the end of the output, for a while, and then closes it.
func (p *pipes) drain(most time.Duration) {
	limit := time.NewTimer(most)
	defer limit.Stop()
	for p.copies > 0 {
		select {
		case <-p.copied:
			p.copies--
		case <-limit.C:
			p.close()
			return
		}
	}
}

// close closes every end, and waits for the goroutines that copy output.
func (p *pipes) close() {
	p.handOver()
	for _, f := range p.outer {
		if f != nil {
			_ = f.Close() // once more does nothing
		}
	}
	for ; p.copies > 0; p.copies-- {
		<-p.copied
	}
}
