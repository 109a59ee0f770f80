package serve

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"cloister/sandbox"
	"cloister/serve/wiring"

	"github.com/creack/pty"
)

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
