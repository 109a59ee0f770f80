package apart

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/internal/passfd"
	"cloister/sandbox"
	"cloister/sandbox/relay"
	"cloister/sandbox/streams"
)

// Driver starts what another driver builds, each box in a process of its own.
type Driver struct {
	Peered
	args []string
}

// Peered is a driver that builds Specs with peers.
type Peered interface {
	sandbox.Driver
	sandbox.PeerDriver
}

// New gives the driver. The process is this program, called with [Name] and args, of which
// its Main makes the same driver again.
func New(d Peered, args ...string) *Driver { return &Driver{d, args} }

// Start has the box built and its command run.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	if len(s.Judged) > 0 || s.InKernel {
		return nil, &sandbox.Unsupported{Guarantee: "files and programs judged by the kernel",
			Reason: "a cloister beside another has no judge of its own"}
	}
	return d.begin(ctx, Order{Spec: s}, w)
}

// Exec has one more command run in a box.
func (d *Driver) Exec(ctx context.Context, h sandbox.Handle, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	return d.begin(ctx, Order{Spec: s, Handle: h}, w)
}

// begin starts the process and waits until the command runs.
func (d *Driver) begin(ctx context.Context, o Order, w sandbox.Wiring) (sandbox.Box, error) {
	b, err := d.process(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("start %s in a process of its own: %w", d.Name(), err)
	}
	return b.begin(ctx, o, w, nil)
}

// Over has a box built by the process at the other end of a connection, which runs as
// another user: it is passed the command's three streams and the files of the order.
func Over(ctx context.Context, c *net.UnixConn, o Order, w sandbox.Wiring, files []*os.File) (sandbox.Box, error) {
	b := newBox(c)
	std := [3]*os.File{w.Stdin, w.Stdout, w.Stderr}
	for i, f := range std {
		s, err := streams.Look(i, f, false) // the process opens a pipe to its user
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		b.tty[i] = s.Terminal
	}
	o.Watched = w.Watched != nil && o.Spec.Watched.Any()
	return b.begin(ctx, o, w, append(std[:], files...))
}

// Hold has a box held still by the process at the other end of a connection.
func Hold(c *net.UnixConn, o Order) (thaw func() error, err error) {
	l := line{passfd.New(c, nil, mostLine)}
	o.Hold = true
	if err := l.order(o, nil); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	m, err := l.hear()
	if err == nil {
		err = m.Failed.err()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return func() error {
		err := l.say(message{Close: true})
		if err == nil {
			m, err = l.hear()
		}
		if err == nil && m.Ended != nil {
			err = m.Ended.Failed.err()
		}
		return errors.Join(err, c.Close())
	}, nil
}

func newBox(c *net.UnixConn) *box {
	return &box{ended: func() error { return nil }, line: line{passfd.New(c, nil, mostLine)},
		dials: map[uint64]chan answer{}, alone: make(chan sandbox.Status, 1), done: make(chan struct{})}
}

// begin sends the order and waits until the command runs.
func (b *box) begin(ctx context.Context, o Order, w sandbox.Wiring, files []*os.File) (sandbox.Box, error) {
	stop := context.AfterFunc(ctx, func() { _ = b.line.c.Close() }) // ends the process
	err := b.line.order(o, files)
	if answer := b.built(ctx, w); err == nil || !errors.Is(answer, errEarly) {
		err = answer // a process that takes no order gives its reason
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = b.line.c.Close() // err says more
		b.line.c.Discard()
		if b.term != nil {
			b.term.Finish()
		}
		_ = b.ended() // as above
		if why := context.Cause(ctx); why != nil {
			return nil, why
		}
		return nil, err
	}
	b.watched = w.Watched
	go b.attend()
	return b, nil
}

// process starts the process that is to own a box, with the streams of its command.
func (d *Driver) process(ctx context.Context, w sandbox.Wiring) (*box, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	own, other := os.NewFile(uintptr(pair[0]), "owner"), os.NewFile(uintptr(pair[1]), "owner")
	defer own.Close() // the connection has a descriptor of its own
	defer other.Close()
	c, err := net.FileConn(own)
	if err != nil {
		return nil, err
	}
	// The box outlives the call: its life is the line's.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/proc/self/exe", append([]string{Name}, d.args...)...)
	cmd.Args[0], cmd.Dir, cmd.Env = "cloister", "/", []string{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = w.Stdin, w.Stdout, w.Stderr
	cmd.ExtraFiles = []*os.File{other}
	// A signal of the terminal is for the caller, who passes on what is to be passed on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	b := newBox(c.(*net.UnixConn))
	b.ended = cmd.Wait
	return b, nil
}

// built takes the sockets of a box in the making, and returns when its command runs.
func (b *box) built(ctx context.Context, w sandbox.Wiring) error {
	var refused error // by the taker of the gate
	for {
		m, err := b.line.hear()
		if err != nil {
			return fmt.Errorf("%w: %w", errEarly, err)
		}
		switch {
		case m.Failed != nil && refused != nil:
			return refused
		case m.Failed != nil:
			return m.Failed.err()
		case m.Peers > 0:
			files, err := b.line.c.Take(m.Peers)
			if err != nil {
				return err
			}
			w.Peers(files)
		case m.Gate > 0:
			files, err := b.line.c.Take(m.Gate)
			if err != nil {
				return err
			}
			answer := &failure{}
			if refused = w.Arm(ctx, sandbox.GateOf(files)); refused != nil {
				answer = failed(refused)
			}
			if err := b.line.say(message{Armed: answer}); err != nil {
				return err
			}
		case m.Terminal:
			if err := b.connect(w); err != nil {
				return err
			}
		case m.Event != nil && w.Watched != nil:
			w.Watched(*m.Event)
		case m.Runs != nil:
			b.runs = *m.Runs
			return nil
		}
	}
}

var errEarly = errors.New("the process that was to own the cloister ended early")

// connect joins the caller's terminal with the command's.
func (b *box) connect(w sandbox.Wiring) error {
	files, err := b.line.c.Take(1)
	if err != nil {
		return err
	}
	defer files[0].Close()
	master, err := unix.FcntlInt(files[0].Fd(), unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return fmt.Errorf("take the terminal: %w", err)
	}
	b.term, err = relay.New(master, [3]*os.File{w.Stdin, w.Stdout, w.Stderr}, b.tty, w.Heard)
	return err
}

// box is one that another process owns.
type box struct {
	ended func() error // waits for the process, where it is a child
	line  line
	runs  runs
	tty   [3]bool // which of the command's streams are terminals
	term  *relay.Terminal

	watched func(sandbox.FileEvent)
	alone   chan sandbox.Status

	mu    sync.Mutex
	last  uint64
	dials map[uint64]chan answer // those that wait; nil when the box is over

	done   chan struct{}
	status sandbox.Status
	err    error
}

// answer is what came of a dial.
type answer struct {
	file *os.File
	err  error
}

var (
	_ sandbox.PeerDialer = (*box)(nil)
	_ sandbox.Hosted     = (*box)(nil)
	_ sandbox.Resizer    = (*box)(nil)
	_ sandbox.EarlyEnder = (*box)(nil)
)

// attend reads what the process says until it is gone.
func (b *box) attend() {
	defer close(b.done)
	b.status = sandbox.Status{Signal: int(unix.SIGKILL)} // unless it reports its end
	b.err = errors.New("the process that owned the cloister is gone")
	for {
		m, err := b.line.hear()
		if err != nil {
			break
		}
		switch {
		case m.Dialed != nil:
			b.dialed(*m.Dialed)
		case m.Event != nil && b.watched != nil:
			b.watched(*m.Event)
		case m.Alone != nil:
			b.alone <- *m.Alone
		case m.Ended != nil:
			b.status, b.err = m.Ended.Status, m.Ended.Failed.err()
		}
	}
	b.line.c.Discard()
	_ = b.line.c.Close() // it was read to its end
	if b.term != nil {
		b.term.Finish()
	}
	_ = b.ended() // it has reported its end, or err is there
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, waits := range b.dials {
		waits <- answer{err: os.ErrProcessDone}
	}
	b.dials = nil
}

// dialed gives an answer to whoever waits for it.
func (b *box) dialed(d dialed) {
	a := answer{err: d.Failed.err()}
	if a.err == nil {
		files, err := b.line.c.Take(1)
		if a.err = err; err == nil {
			a.file = files[0]
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if waits, ok := b.dials[d.Number]; ok {
		delete(b.dials, d.Number)
		waits <- a
	} else if a.file != nil {
		a.file.Close()
	}
}

// Handle is the box's name for the driver that built it.
func (b *box) Handle() sandbox.Handle { return b.runs.Handle }

// Process is the first process of the box.
func (b *box) Process() int { return b.runs.Process }

// Resize gives the command's terminal the size of the caller's.
func (b *box) Resize() error {
	if b.term == nil {
		return nil
	}
	return b.term.Resize()
}

// Alone gives how the command has ended when nothing else lives inside.
func (b *box) Alone() <-chan sandbox.Status { return b.alone }

// Signal passes a signal on to the command.
func (b *box) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal cloister: %v is no signal", sig)
	}
	if err := b.line.say(message{Signal: int(n)}); err != nil {
		return os.ErrProcessDone
	}
	return nil
}

// Wait returns when the command has ended and nothing of the box is left.
func (b *box) Wait() (sandbox.Status, error) {
	<-b.done
	return b.status, b.err
}

// Close ends everything inside at once.
func (b *box) Close() error {
	_ = b.line.say(message{Close: true}) // an error means that it is gone
	<-b.done
	return b.err
}

// Dial connects to a port that something inside listens on.
func (b *box) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	return b.dial(ctx, dial{Port: port})
}

// DialPeer connects to a port at the box's own address.
func (b *box) DialPeer(ctx context.Context, port uint16) (net.Conn, error) {
	return b.dial(ctx, dial{Port: port, Peer: true})
}

func (b *box) dial(ctx context.Context, d dial) (net.Conn, error) {
	waits := make(chan answer, 1)
	b.mu.Lock()
	if b.dials == nil {
		b.mu.Unlock()
		return nil, os.ErrProcessDone
	}
	b.last++
	d.Number = b.last
	b.dials[d.Number] = waits
	b.mu.Unlock()
	err := b.line.say(message{Dial: &d})
	if err != nil {
		err = os.ErrProcessDone
	} else {
		select {
		case a := <-waits:
			return a.conn()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	b.mu.Lock()
	delete(b.dials, d.Number)
	b.mu.Unlock()
	select {
	case a := <-waits: // it came meanwhile
		return a.conn()
	default:
		return nil, err
	}
}

func (a answer) conn() (net.Conn, error) {
	if a.err != nil {
		return nil, a.err
	}
	defer a.file.Close() // the connection has a descriptor of its own
	return net.FileConn(a.file)
}
