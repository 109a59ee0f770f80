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
	"time"

	"cloister/internal/exactjson"
	"cloister/secret"
)

// Run runs what was prepared, by the helper program that serves Keep: it holds
// the command and everything that the command starts, and ends all of it when
// the command is over, ctx ends, the caller goes away, or this process dies.
func (p *Prepared) Run(ctx context.Context, way Way, c *Conn) (Result, error) {
	if most := way.Limits.Time; most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, most, fmt.Errorf("it ran for %s, as long as a host command may", most))
		defer cancel()
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r := &running{p: p, c: c, way: way, end: end}
	return r.run(ctx)
}

var (
	errOutput = fmt.Errorf("it wrote more than %d bytes", MaxOutput)
	errCaller = errors.New("its caller went away")
)

const (
	// countEvery is how often processor time is looked at.
	countEvery = 250 * time.Millisecond
	// helperEnds is how long a helper may take to end everything: one that stands
	// still, or is gone, is not waited for.
	helperEnds = 5 * time.Second
)

type running struct {
	p   *Prepared
	c   *Conn
	way Way
	end context.CancelCauseFunc

	up, down, redacted atomic.Int64
}

// job is what the helper is given; its descriptors follow in this order.
type job struct {
	Path   string   `json:"path"`
	Argv   [][]byte `json:"argv"`
	Env    []string `json:"env"`
	Script int      `json:"script"` // the argument that stands for a sealed copy; 0 for none
	CPU    int64    `json:"cpu"`    // seconds of the processors for each process; 0 for any
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

func (r *running) run(ctx context.Context) (res Result, err error) {
	var pipes pipes
	defer pipes.close()
	stdin, in := pipes.make()
	out, stdout := pipes.make()
	errs, stderr := pipes.make()
	orders, control := pipes.make()
	report, answers := pipes.make()
	if pipes.err != nil {
		return res, fmt.Errorf("run host command: %w", pipes.err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.way.Helper[0], r.way.Helper[1:]...)
	cmd.Args[0] = "cloister"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.ExtraFiles = []*os.File{orders, answers, r.p.dir}
	if r.p.script != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, r.p.script)
	}
	cmd.Env = []string{} // nothing of the guardian's
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return res, fmt.Errorf("run host command: %w", err)
	}
	for _, f := range []*os.File{stdin, stdout, stderr, orders, answers} {
		f.Close()
	}
	o := &orderly{w: control}
	if err := r.order(o, cmd.Process.Pid); err != nil {
		control.Close() // without orders the helper starts nothing, and ends
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
	hear.Go(func() { r.count(over) })
	hear.Go(func() {
		select {
		case <-over:
			return
		case <-ctx.Done():
		}
		control.Close() // the helper ends everything
		select {
		case <-over:
		case <-time.After(helperEnds):
			r.force(cmd.Process)
			out.Close()
			errs.Close()
		}
	})
	var last ended
	told2 := json.NewDecoder(report).Decode(&last)
	if told2 != nil {
		// A helper that is gone ends nothing, and what lives on may hold the streams.
		r.force(cmd.Process)
		out.Close()
		errs.Close()
	}
	copies.Wait()
	res.Down, res.Status, res.Redacted = r.down.Load(), last.Status, r.redacted.Load()
	if ctx.Err() != nil {
		res.Ended = context.Cause(ctx).Error()
	}
	control.Close()
	errWait := cmd.Wait()
	close(over)
	full()
	hear.Wait()
	res.Up = r.up.Load()
	if g := r.way.Group; g != nil && res.Ended == "" && g.OutOfMemory() {
		res.Ended = fmt.Sprintf("it used more than %d bytes of memory", r.way.Limits.Memory)
	}
	switch {
	case last.Error != "":
		return res, &Refused{Reason: last.Error}
	case told2 != nil && res.Ended == "":
		return res, errors.Join(fmt.Errorf("run host command: its helper died: %w", told2), errWait)
	}
	return res, nil
}

// order brings the helper into the group, then tells it what to run.
func (r *running) order(o *orderly, pid int) error {
	if g := r.way.Group; g != nil {
		if err := g.Add(pid); err != nil {
			return err
		}
	}
	j := job{Path: r.p.Program, Env: r.p.Env, CPU: int64((r.way.Limits.CPU + time.Second - 1) / time.Second)}
	for _, a := range r.p.Argv {
		j.Argv = append(j.Argv, []byte(a))
	}
	if r.p.script != nil {
		j.Script = r.p.at
	}
	return o.send(j)
}

// count ends a command whose processes used too much of the processors together.
func (r *running) count(over <-chan struct{}) {
	most := r.way.Limits.CPU
	if r.way.Group == nil || most <= 0 {
		return
	}
	every := time.NewTicker(countEvery)
	defer every.Stop()
	for {
		select {
		case <-over:
			return
		case <-every.C:
		}
		used, err := r.way.Group.CPU()
		if err != nil || used > most {
			r.end(errors.Join(fmt.Errorf("it used the processors for more than %s", most), err))
			return
		}
	}
}

// force ends everything without the helper's help: by the group or, where there is
// none, by what is below a helper that only stands still.
func (r *running) force(helper *os.Process) {
	if g := r.way.Group; g != nil && g.Kill() == nil {
		return
	}
	for range 100 {
		list := childrenOf(helper.Pid)
		if len(list) == 0 {
			break
		}
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGKILL) // its parent has not waited for it
		}
	}
	_ = helper.Kill() // it may be gone
}

// machineMemory is how many bytes this machine has.
func machineMemory() (int64, error) {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("look at the machine's memory: %w", err)
	}
	return int64(info.Totalram) * int64(info.Unit), nil
}

// copy passes output on, up to its bound and without the credentials that are known.
func (r *running) copy(to io.Writer, from io.Reader) {
	var scrub *secret.Scrub
	if r.way.Redact != nil {
		scrub = r.way.Redact.Stream()
		defer func() { r.redacted.Add(int64(scrub.Count)) }()
	}
	buf := make([]byte, 32<<10)
	var clean []byte
	for {
		n, err := from.Read(buf)
		if r.down.Add(int64(n)) > MaxOutput {
			r.end(errOutput)
			return
		}
		out := buf[:n]
		if scrub != nil {
			if clean = scrub.Write(clean[:0], out); err != nil {
				clean = scrub.Flush(clean)
			}
			out = clean
		}
		if len(out) > 0 {
			if _, err := to.Write(out); err != nil {
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
	text, err := exactjson.Marshal(v)
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
