package hostexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
)

// Run runs what was prepared, by the helper program that serves Keep: it holds
// the command and everything that the command starts, and ends all of it when
// the command is over, ctx ends, the caller goes away, or this process dies.
func (p *Prepared) Run(ctx context.Context, helper []string, c *Conn) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Deadline, errDeadline)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r := &running{p: p, c: c, end: end}
	return r.run(ctx, helper)
}

var (
	errDeadline = fmt.Errorf("it ran for %s", Deadline)
	errOutput   = fmt.Errorf("it wrote more than %d bytes", MaxOutput)
	errCaller   = errors.New("its caller went away")
)

type running struct {
	p   *Prepared
	c   *Conn
	end context.CancelCauseFunc

	up, down atomic.Int64
}

// job is what the helper is told; its descriptors follow in this order.
type job struct {
	Path   string   `json:"path"`
	Argv   [][]byte `json:"argv"`
	Env    []string `json:"env"`
	Script int      `json:"script"` // the argument that stands for a sealed copy; 0 for none
}

// ended is the helper's last word.
type ended struct {
	Status int    `json:"status"`
	Error  string `json:"error,omitempty"`
}

// The helper's descriptors.
const (
	fdControl = 3 // orders: a job, then signals; its end is the command's end
	fdReport  = 4
	fdDir     = 5
	fdScript  = 6
)

func (r *running) run(ctx context.Context, helper []string) (res Result, err error) {
	var pipes pipes
	defer pipes.close()
	stdin, in := pipes.make()
	out, stdout := pipes.make()
	errs, stderr := pipes.make()
	orders, control := pipes.make()
	report, told := pipes.make()
	if pipes.err != nil {
		return res, fmt.Errorf("run host command: %w", pipes.err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), helper[0], helper[1:]...)
	cmd.Args[0] = "cloister"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.ExtraFiles = []*os.File{orders, told, r.p.dir}
	if r.p.script != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, r.p.script)
	}
	cmd.Env = []string{} // nothing of the guardian's
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return res, fmt.Errorf("run host command: %w", err)
	}
	for _, f := range []*os.File{stdin, stdout, stderr, orders, told} {
		f.Close()
	}
	j := job{Path: r.p.Program, Env: r.p.Env}
	for _, a := range r.p.Argv {
		j.Argv = append(j.Argv, []byte(a))
	}
	if r.p.script != nil {
		j.Script = r.p.at
	}
	o := &orderly{w: control}
	if err := o.send(j); err != nil {
		control.Close()
		return res, errors.Join(fmt.Errorf("run host command: %w", err), cmd.Wait())
	}
	var copies, hear sync.WaitGroup
	fed, full := context.WithCancel(ctx)
	defer full()
	copies.Go(func() { r.copy(stream{r.c, frameStdout}, out) })
	copies.Go(func() { r.copy(stream{r.c, frameStderr}, errs) })
	over := make(chan struct{})
	hear.Go(func() { r.feed(fed, in) })
	hear.Go(func() { r.signal(o, over) })
	unhook := context.AfterFunc(ctx, func() { control.Close() }) // the helper ends everything
	var last ended
	told2 := json.NewDecoder(report).Decode(&last)
	copies.Wait()
	unhook()
	res.Down, res.Status = r.down.Load(), last.Status
	if ctx.Err() != nil {
		res.Ended = context.Cause(ctx).Error()
	}
	control.Close()
	errWait := cmd.Wait()
	close(over)
	full()
	hear.Wait()
	res.Up = r.up.Load()
	switch {
	case last.Error != "":
		return res, &Refused{Reason: last.Error}
	case told2 != nil && res.Ended == "":
		return res, errors.Join(fmt.Errorf("run host command: its helper died: %w", told2), errWait)
	}
	return res, nil
}

// copy passes output on, up to its bound.
func (r *running) copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if r.down.Add(int64(n)) > MaxOutput {
			r.end(errOutput)
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				r.end(errCaller)
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// feed gives the command its input, until one of both has enough.
func (r *running) feed(ctx context.Context, stdin *os.File) {
	defer stdin.Close()
	n, err := io.Copy(stdin, r.c.Stdin(ctx))
	r.up.Add(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		r.end(errCaller)
	}
}

// signal passes on the caller's signals, and notices its end.
func (r *running) signal(o *orderly, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-r.c.done:
			r.end(errCaller)
			return
		case n := <-r.c.signals:
			_ = o.send(int(n)) // a helper that is gone ended the command
		}
	}
}

// orderly writes orders, one JSON value each.
type orderly struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *orderly) send(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err = o.w.Write(append(text, '\n'))
	return err
}

// pipes are made together and closed together.
type pipes struct {
	files []*os.File
	err   error
}

func (p *pipes) make() (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		p.err = err
		return nil, nil
	}
	p.files = append(p.files, r, w)
	return r, w
}

func (p *pipes) close() {
	for _, f := range p.files {
		f.Close() // most are closed already
	}
}
