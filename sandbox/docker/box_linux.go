package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/internal/peercred"
	"cloister/sandbox"
	"cloister/sandbox/docker/engine"
	"cloister/sandbox/docker/inside"
	"cloister/sandbox/onhost"
	"cloister/sandbox/relay"
	"cloister/sandbox/streams"
)

// What the boxes of this driver can besides.
var (
	_ sandbox.PeerDialer = (*box)(nil)
	_ sandbox.Resizer    = (*box)(nil)
)

// standard are the caller's three descriptors.
type standard struct {
	files [3]*os.File
	tty   [3]bool
	heard relay.Heard
}

// takeStandard looks at what the command would be given.
func takeStandard(w sandbox.Wiring) (*standard, error) {
	s := &standard{files: [3]*os.File{w.Stdin, w.Stdout, w.Stderr}, heard: w.Heard}
	for i, f := range s.files {
		got, err := streams.Look(i, f, os.Geteuid() == 0)
		if err != nil {
			return nil, fmt.Errorf("start docker: %w", err)
		}
		s.tty[i] = got.Terminal
	}
	return s, nil
}

// passed are the descriptors that the command itself gets.
func (s *standard) passed() []*os.File {
	var out []*os.File
	for i, f := range s.files {
		if !s.tty[i] {
			out = append(out, f)
		}
	}
	return out
}

// control opens a conversation with the first process that belongs to no
// container, and hands the other end over.
func control(to inside.Line, word inside.Message) (inside.Line, error) {
	none := inside.Line{}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return none, err
	}
	theirs, ours := os.NewFile(uintptr(pair[0]), "first process"), os.NewFile(uintptr(pair[1]), "first process")
	defer theirs.Close()
	defer ours.Close()
	if err := to.Say(word, theirs); err != nil {
		return none, err
	}
	c, err := net.FileConn(ours)
	if err != nil {
		return none, err
	}
	return inside.NewLine(c.(*net.UnixConn)), nil
}

// box is one enclosure, or one more command in it.
type box struct {
	ctx         context.Context // of the values of Start's, for what is removed later
	a           *api
	doors       *doors
	agent, gate string // containers
	user        inside.User
	pid         int // of the first process
	guest       bool
	address     string // among those beside it; empty where there are none
	keeper      inside.Line
	command     inside.Line
	term        *relay.Terminal
	judged      func() error // before the command is let go; nil where the kernel judges nothing
	last        io.Closer    // closed when all of it has ended; nil where there is nothing to close

	mu    sync.Mutex
	ended bool
	lost  error // why the box was ended before its command
	end   sandbox.Status
	err   error
	done  chan struct{}
}

// launch has the command's process try the walls, and lets it go.
func (b *box) launch(c inside.Command, std *standard) error {
	if err := b.command.Say(inside.Message{Command: &c}, std.passed()...); err != nil {
		return fmt.Errorf("start docker: %w", err)
	}
	for ready := false; ; {
		m, err := b.command.Hear()
		switch {
		case err != nil:
			return b.stopped(fmt.Errorf("start docker: the first process ended early: %w", err))
		case m.Failed != nil && m.Failed.Exec:
			missing := m.Failed.Errno == int(unix.ENOENT) || m.Failed.Errno == int(unix.ENOTDIR)
			return b.stopped(&sandbox.ExecError{Command: c.Argv[0], NotFound: missing,
				Err: syscall.Errno(m.Failed.Errno)})
		case m.Failed != nil:
			return b.stopped(fmt.Errorf("start docker: %w", m.Failed))
		case m.Master:
			if err := b.openTerminal(std); err != nil {
				return err
			}
		case m.Ready:
			ready = true
			if b.judged != nil {
				if err := b.judged(); err != nil {
					return b.stopped(err)
				}
			}
			if err := b.command.Say(inside.Message{Go: true}); err != nil {
				return b.stopped(fmt.Errorf("start docker: %w", err))
			}
		case m.Go && ready:
			return nil
		default:
			return b.stopped(errors.New("start docker: the command's process ended before its walls were tried"))
		}
	}
}

func (b *box) openTerminal(std *standard) error {
	files, err := b.command.Take(1)
	if err != nil {
		return fmt.Errorf("start docker: %w", err)
	}
	master, err := unix.FcntlInt(files[0].Fd(), unix.F_DUPFD_CLOEXEC, 3)
	files[0].Close()
	if err != nil {
		return fmt.Errorf("start docker: %w", err)
	}
	if b.term, err = relay.New(master, std.files, std.tty, std.heard); err != nil {
		return fmt.Errorf("start docker: %w", err)
	}
	return nil
}

// stopped gives the terminal back before the error is shown.
func (b *box) stopped(err error) error {
	b.hangUp()
	b.mu.Lock()
	if b.lost != nil {
		err = errors.Join(b.lost, err) // why it was ended meanwhile
	}
	b.mu.Unlock()
	if b.term != nil {
		b.term.Finish()
	}
	return err
}

// begin attends to a command that runs.
func (b *box) begin() {
	go b.listen()
	if b.guest {
		return
	}
	go b.attendGate()
	go b.attendDoor()
}

// listen receives how the command ended, and removes what Start made.
func (b *box) listen() {
	status := sandbox.Status{Signal: int(unix.SIGKILL)} // unless its own end was reported
	told := false
	for !told {
		m, err := b.command.Hear()
		if err != nil {
			break
		}
		if m.End != nil {
			ws := unix.WaitStatus(*m.End)
			status, told = sandbox.Status{Code: ws.ExitStatus()}, true
			if ws.Signaled() {
				status = sandbox.Status{Signal: int(ws.Signal())}
			}
		}
	}
	b.mu.Lock()
	closed := b.ended
	b.ended = true
	b.mu.Unlock()
	b.command.Close()
	var errs []error
	if !b.guest {
		b.keeper.Close()
		if !told && !closed && b.lost == nil {
			errs = append(errs, b.fate())
		}
		errs = append(errs, b.removed())
	}
	if b.last != nil {
		errs = append(errs, b.last.Close()) // what was judged is reported, and what was written has arrived
	}
	if b.term != nil {
		b.term.Finish()
	}
	b.mu.Lock()
	b.end, b.err = status, errors.Join(append([]error{b.lost}, errs...)...)
	b.mu.Unlock()
	close(b.done)
}

// fate says why a container ended that no one here ended.
func (b *box) fate() error {
	ctx, cancel := context.WithTimeoutCause(b.ctx, b.a.Soon(), engine.ErrNoAnswer)
	defer cancel()
	if _, err := b.a.Ping(ctx); err != nil {
		return fmt.Errorf("the cloister's container was ended from outside: %w", err)
	}
	return errors.New("the cloister's container was ended from outside: the engine was restarted, or somebody removed it")
}

// removed waits until both containers are gone.
func (b *box) removed() error {
	errs := make(chan error, 2)
	for _, id := range []string{b.agent, b.gate} {
		go func() { errs <- b.a.remove(b.ctx, id) }()
	}
	err := errors.Join(<-errs, <-errs)
	b.a.Close()
	return b.doors.after(err)
}

// after is the end of a session's folder, once its containers are removed, or are
// not: then a sweep has to find them.
func (o *doors) after(err error) error {
	if err == nil {
		return o.close()
	}
	o.leave()
	return fmt.Errorf("%w (what is left carries the label %s; the guardian removes it as soon as it can)", err,
		labelInstance)
}

// attendGate ends the box when a path can no longer be protected.
func (b *box) attendGate() {
	m, err := b.keeper.Hear()
	if err == nil && m.Failed != nil {
		b.lose(m.Failed)
		return
	}
	b.lose(errors.New("the gate's container was ended from outside: nothing keeps the protected paths"))
}

// lose ends the box for a reason, unless it has ended.
func (b *box) lose(why error) {
	b.mu.Lock()
	over := b.ended
	if !over {
		b.lost = errors.Join(b.lost, why)
	}
	b.mu.Unlock()
	if !over {
		b.hangUp()
	}
}

// attendDoor hands those on who want one more command in this box.
func (b *box) attendDoor() {
	for {
		u, err := b.doors.more.AcceptUnix()
		if err != nil {
			return // the box has ended
		}
		go b.join(u)
	}
}

func (b *box) join(u *net.UnixConn) {
	c := inside.NewLine(u)
	defer c.Close()
	if _, err := peercred.Require(u, os.Getuid()); err != nil {
		return
	}
	m, err := c.Hear()
	if err != nil || !m.Join {
		return
	}
	files, err := c.Take(1)
	if err != nil {
		return
	}
	defer closeFiles(files)
	if err := b.command.Say(inside.Message{Join: true}, files...); err != nil {
		return
	}
	// The other end sees an answer, or that there is none.
	_ = c.Say(inside.Message{Hello: &inside.Hello{IDs: fmt.Sprint(b.pid, b.user.UID, b.user.GID)}})
}

// Handle is the first process, which exec has no need of.
func (b *box) Handle() sandbox.Handle { return onhost.Handle(b.pid) }

// Process is the first process.
func (b *box) Process() int { return b.pid }

// Signal passes a signal on.
func (b *box) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal cloister: %v is no signal", sig)
	}
	b.mu.Lock()
	ended := b.ended
	b.mu.Unlock()
	if ended {
		return os.ErrProcessDone
	}
	return b.command.Say(inside.Message{Signal: int(n)})
}

// Resize gives the command's terminal the size of the caller's.
func (b *box) Resize() error {
	if b.term == nil {
		return nil
	}
	return b.term.Resize()
}

// Dial connects to a port that something inside listens on.
func (b *box) Dial(_ context.Context, port uint16) (net.Conn, error) { return b.reach("", port) }

// DialPeer connects to a port at the cloister's own address among those beside it.
func (b *box) DialPeer(_ context.Context, port uint16) (net.Conn, error) {
	if b.address == "" {
		return nil, errors.New("reach the cloister from beside it: it has no address there")
	}
	return b.reach(b.address, port)
}

func (b *box) reach(at string, port uint16) (net.Conn, error) {
	c, err := control(b.command, inside.Message{Dial: port, At: at})
	if err != nil {
		return nil, fmt.Errorf("reach port %d inside: %w", port, err)
	}
	defer c.Close()
	m, err := c.Hear()
	if err == nil && m.Failed != nil {
		err = m.Failed
	}
	if err != nil {
		return nil, fmt.Errorf("reach port %d inside: %w", port, err)
	}
	files, err := c.Take(1)
	if err != nil {
		return nil, fmt.Errorf("reach port %d inside: %w", port, err)
	}
	defer files[0].Close()
	return net.FileConn(files[0])
}

// Wait returns when the command has ended and all of it is gone.
func (b *box) Wait() (sandbox.Status, error) {
	<-b.done
	return b.end, b.err
}

// hangUp tells the first process that no one is there any more: it ends, and all
// inside with it.
func (b *box) hangUp() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	for _, l := range []inside.Line{b.command, b.keeper} {
		l.Close()
	}
}

// Close ends everything at once.
func (b *box) Close() error {
	b.hangUp()
	<-b.done
	return b.err
}
