package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"cloister/internal/shellword"
	"cloister/sandbox"
	"cloister/serve/files"
	"cloister/serve/wiring"
	"cloister/session/filerecord"
)

// Command is one command of a sandbox.
type Command struct {
	Cmd  string
	Args []string
	Env  map[string]string
	Dir  string
	Tag  *string
	// Stdin keeps the standard input open; else it is empty.
	Stdin bool
	// Cols and Rows ask for a terminal.
	Cols, Rows uint32
}

// Channel is where output comes from.
type Channel uint8

// The closed set of channels.
const (
	Stdout Channel = iota
	Stderr
	Terminal
)

// Output is a part of what a process wrote.
type Output struct {
	From Channel
	Data []byte
}

// firstPID is above every number that a kernel gives to a process (PID_MAX_LIMIT is
// 4,194,304): no process inside has a handle as its number.
const firstPID = 1 << 23

// Bounds of the commands of one sandbox that run at once, and of their words together,
// which are kept for listings.
const (
	maxProcesses = 512
	maxWords     = 8 << 20
)

// size is how much of a command is kept.
func (c Command) size() int {
	n := len(c.Cmd) + len(c.Dir)
	for _, a := range c.Args {
		n += len(a)
	}
	for name, value := range c.Env {
		n += len(name) + len(value)
	}
	if c.Tag != nil {
		n += len(*c.Tag)
	}
	return n
}

// Process is a command that runs.
type Process struct {
	PID     uint32 // a handle, no process number
	Command Command

	box   sandbox.Box
	mu    sync.Mutex
	stdin *os.File
	term  *os.File
	subs  map[*Subscription]bool

	done   chan struct{}
	status sandbox.Status
	err    error
}

// Subscription receives what a process writes from now on.
type Subscription struct {
	p    *Process
	out  chan Output
	left chan struct{}
	once sync.Once
}

// Output gives what is written; it is closed at the end.
func (u *Subscription) Output() <-chan Output { return u.out }

// Leave ends the subscription.
func (u *Subscription) Leave() {
	u.once.Do(func() { close(u.left) })
	u.p.mu.Lock()
	delete(u.p.subs, u)
	u.p.mu.Unlock()
}

// entry gives what the driver needs, of a sandbox that runs.
func (s *Sandbox) entry() (Live, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record.State != Running || s.live == nil || s.ending {
		return Live{}, &NotRunning{s.record.ID}
	}
	return *s.live, nil
}

// exec runs a command in the sandbox.
func (s *Sandbox) exec(
	ctx context.Context, argv []string, env map[string]string, dir string, w sandbox.Wiring,
) (sandbox.Box, error) {
	live, err := s.entry()
	if err != nil {
		return nil, err
	}
	spec := live.Spec
	spec.Argv = argv
	if dir != "" {
		spec.Dir = sandbox.GuestPath(dir)
	}
	spec.Env = wiring.WithEnv(spec.Env, env)
	return live.Driver.Exec(ctx, live.Handle, spec, w)
}

// program runs the program of serve/files.
func (s *Sandbox) program(ctx context.Context) (*files.Program, error) {
	return s.helper(ctx, "files")
}

// helper runs Cloister's own program in the sandbox, with pipes to both ends.
func (s *Sandbox) helper(ctx context.Context, words ...string) (*files.Program, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close(), outR.Close(), outW.Close())
	}
	argv := append([]string{s.host.Program, "serve", Verb}, words...)
	box, err := s.exec(ctx, argv, nil, "/", sandbox.Wiring{Stdin: inR, Stdout: outW, Stderr: null})
	err = errors.Join(err, inR.Close(), outW.Close(), null.Close())
	if err != nil {
		return nil, errors.Join(err, inW.Close(), outR.Close())
	}
	return &files.Program{In: inW, Out: outR, Close: func() error {
		err := errors.Join(inW.Close(), outR.Close(), box.Close())
		return err
	}}, nil
}

// Files gives the sandbox's files.
func (s *Sandbox) Files() (*files.Pool, error) {
	if _, err := s.entry(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pool, nil
}

// Start runs a command. Its first output is the subscription's.
func (s *Sandbox) Start(ctx context.Context, c Command) (*Process, *Subscription, error) {
	if err := checkEnv(c.Env); err != nil {
		return nil, nil, err
	}
	if err := s.room(c); err != nil {
		return nil, nil, err
	}
	if err := s.recorded(ctx, ActCommand, "start", shellword.Line(append([]string{c.Cmd}, c.Args...)...)); err != nil {
		return nil, nil, err
	}
	live, err := s.entry()
	if err != nil {
		return nil, nil, err
	}
	w, own, err := wiring.Of(c.Stdin, c.Cols, c.Rows)
	if err != nil {
		return nil, nil, fmt.Errorf("start process: %w", err)
	}
	env := maps.Clone(s.Record().Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, c.Env)
	seen, err := s.files(ctx, live).Begin()
	if err != nil {
		for _, f := range own.Theirs {
			f.Close()
		}
		own.Close()
		return nil, nil, &Over{err.Error()}
	}
	seen.Wire(&w)
	box, err := s.exec(ctx, append([]string{c.Cmd}, c.Args...), env, c.Dir, w)
	for _, f := range own.Theirs {
		f.Close()
	}
	if err != nil {
		own.Close()
		_, _ = seen.End() // nothing was seen
		return nil, nil, err
	}
	p := &Process{
		Command: c, box: box, stdin: own.Stdin, term: own.Term, subs: map[*Subscription]bool{}, done: make(chan struct{}),
	}
	u := p.Subscribe()
	s.mu.Lock()
	if s.procs == nil { // it ended meanwhile
		s.mu.Unlock()
		own.Close()
		err := box.Close()
		_, _ = seen.End() // what was seen is of a session that is over
		return nil, nil, errors.Join(&NotRunning{s.record.ID}, err)
	}
	s.next++
	p.PID = firstPID + s.next
	s.procs[p.PID] = p
	s.mu.Unlock()
	s.host.wg.Go(func() {
		p.run(own)
		s.missed(seen.End())
		s.mu.Lock()
		delete(s.procs, p.PID)
		s.mu.Unlock()
	})
	return p, u, nil
}

// files records what commands of the sandbox's session do with files and programs.
func (s *Sandbox) files(ctx context.Context, live Live) *filerecord.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = filerecord.NewSet(ctx, live.Files)
	}
	return s.seen
}

// missed says that events of files and programs were not recorded.
func (s *Sandbox) missed(n uint64, why error) {
	if n > 0 {
		s.host.Log.Error("record files and programs of a command", "sandbox", s.record.ID, "missed", n, "error", why)
	}
}

func (s *Sandbox) room(c Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	words := c.size()
	for _, p := range s.procs {
		words += p.Command.size()
	}
	if words > maxWords {
		return &Over{fmt.Sprintf("the commands of the sandbox have more than %d bytes of words", maxWords)}
	}
	if len(s.procs) >= maxProcesses {
		return &Over{fmt.Sprintf("the sandbox runs %d commands, which is the limit", len(s.procs))}
	}
	return nil
}

// drain is how long output is waited for that something else than the command may write.
const drain = 300 * time.Millisecond

// run passes output on until the command has ended.
func (p *Process) run(e wiring.Ends) {
	var readers sync.WaitGroup
	for from, f := range map[Channel]*os.File{Stdout: e.Out, Stderr: e.ErrOut, Terminal: e.Term} {
		if f != nil {
			readers.Go(func() { p.copy(from, f) })
		}
	}
	read := make(chan struct{})
	go func() {
		readers.Wait()
		close(read)
	}()
	p.status, p.err = p.box.Wait()
	if e.Slave != nil {
		e.Slave.Close() // the reader of the other end is done then
	}
	select {
	case <-read:
	case <-time.After(drain):
		for _, f := range []*os.File{e.Out, e.ErrOut, e.Term} {
			if f != nil {
				_ = f.SetReadDeadline(time.Unix(1, 0)) // one that cannot is closed below
			}
		}
	}
	p.mu.Lock()
	stdin := p.stdin
	p.stdin, p.term = nil, nil
	p.mu.Unlock()
	for _, f := range []*os.File{stdin, e.Out, e.ErrOut, e.Term} {
		if f != nil {
			f.Close()
		}
	}
	<-read
	if err := p.box.Close(); p.err == nil {
		p.err = err
	}
	p.mu.Lock()
	close(p.done)
	for u := range p.subs {
		close(u.out)
	}
	p.subs = nil
	p.mu.Unlock()
}

func (p *Process) copy(from Channel, f *os.File) {
	for {
		buf := make([]byte, 32<<10)
		n, err := f.Read(buf)
		if n > 0 {
			p.publish(Output{from, buf[:n]})
		}
		if err != nil {
			return // EOF, the terminal's hang-up or the deadline
		}
	}
}

// publish gives output to all who subscribed. One that does not take it holds the command
// until it leaves, which its connection's deadline brings about.
func (p *Process) publish(o Output) {
	p.mu.Lock()
	list := make([]*Subscription, 0, len(p.subs))
	for u := range p.subs {
		list = append(list, u)
	}
	p.mu.Unlock()
	for _, u := range list {
		select {
		case u.out <- o:
		case <-u.left:
		}
	}
}

// Subscribe receives what the process writes from now on.
func (p *Process) Subscribe() *Subscription {
	u := &Subscription{p: p, out: make(chan Output, 16), left: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.subs == nil {
		close(u.out)
		return u
	}
	p.subs[u] = true
	return u
}

// Status gives how the process has ended; only after its output is closed.
func (p *Process) Status() (sandbox.Status, error) {
	<-p.done
	return p.status, p.err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// end kills the process with all that it holds here.
func (p *Process) end() { _ = p.box.Signal(syscall.SIGKILL) } // an error means that it has ended

// Signal passes a signal on.
func (p *Process) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return ErrNoProcess
	default:
	}
	return p.box.Signal(sig)
}

// ErrNoProcess is the error of a handle that names no process.
var ErrNoProcess = errors.New("process not found")

// ErrNoInput is the error of input for a process whose standard input is closed.
var ErrNoInput = errors.New("stdin not enabled or closed")

// typeWithin bounds how long a process may leave its input unread.
const typeWithin = 30 * time.Second

// Write gives a process input.
func (p *Process) Write(data []byte) error {
	p.mu.Lock()
	f := p.stdin
	if p.term != nil {
		f = p.term
	}
	p.mu.Unlock()
	if f == nil {
		return ErrNoInput
	}
	_ = f.SetWriteDeadline(time.Now().Add(typeWithin)) // a terminal may have none
	_, err := f.Write(data)
	return err
}

// CloseInput ends a process's standard input.
func (p *Process) CloseInput() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term != nil {
		return &BadRequest{What: "cannot close the input of a terminal: send Ctrl-D"}
	}
	if p.stdin == nil {
		return ErrNoInput
	}
	err := p.stdin.Close()
	p.stdin = nil
	return err
}

// Resize gives a process's terminal another size.
func (p *Process) Resize(cols, rows uint32) error {
	p.mu.Lock()
	term := p.term
	p.mu.Unlock()
	if term == nil {
		return &BadRequest{What: "the process has no terminal"}
	}
	if err := pty.Setsize(term, wiring.Size(cols, rows)); err != nil {
		return fmt.Errorf("resize: %w", err)
	}
	if r, ok := p.box.(sandbox.Resizer); ok {
		return r.Resize()
	}
	return nil
}

// Processes gives what runs by a request.
func (s *Sandbox) Processes() ([]*Process, error) {
	if _, err := s.entry(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Process
	for _, p := range s.procs {
		out = append(out, p)
	}
	return out, nil
}

// Process finds a process by its handle, or by its tag.
func (s *Sandbox) Process(pid uint32, tag string) (*Process, error) {
	list, err := s.Processes()
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if tag == "" && p.PID == pid || tag != "" && p.Command.Tag != nil && *p.Command.Tag == tag {
			return p, nil
		}
	}
	return nil, ErrNoProcess
}
