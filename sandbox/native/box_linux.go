package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/cgroup"
	"cloister/sandbox"
	"cloister/sandbox/apart"
	"cloister/sandbox/onhost"
	"cloister/sandbox/relay"
	"cloister/sandbox/seccomp"
	"cloister/sandbox/watch"
)

// Driver builds enclosures from the kernel's own parts.
type Driver struct {
	instance string
	filter   func() ([]unix.SockFilter, error)
	lent     *Lent // the user that root builds for; nil for a box of its own
}

// New gives the driver of an instance, which the folder of its sockets tells from
// others. It begins to compile the system call filter, the same for every cloister,
// beside whatever its caller does before the first start.
func New(instance string) *Driver {
	filter := func() ([]unix.SockFilter, error) { return seccomp.Filter(true) }
	d := &Driver{instance: instance, filter: sync.OnceValues(filter)}
	go func() { _, _ = d.filter() }() // its error comes again to whoever needs it
	return d
}

// Hold holds what runs in a box still.
func (*Driver) Hold(h sandbox.Handle) (thaw func() error, err error) { return onhost.Hold(h) }

// What this driver and its boxes can besides.
var (
	_ sandbox.WarmStarter = (*Driver)(nil)
	_ sandbox.PeerDriver  = (*Driver)(nil)
	_ sandbox.Separable   = (*Driver)(nil)
	_ sandbox.PeerDialer  = (*box)(nil)
	_ sandbox.Resizer     = (*box)(nil)
	_ sandbox.EarlyEnder  = (*box)(nil)
)

// BuildsPeers says that a cloister has a way to those beside it.
func (*Driver) BuildsPeers() {}

// Apart has each box owned by a process of its own, which Main is: the first process of a
// box shares its owner's memory, and to begin another one makes that memory readable for a
// moment.
func (d *Driver) Apart() sandbox.Driver { return apart.New(d, d.instance) }

// OwnerName is the word by which the program is called for such a process.
const OwnerName = apart.Name

// Main is such a process. args are the instance.
func Main(ctx context.Context, args []string) int {
	if len(args) != 1 {
		return 2
	}
	return apart.Main(ctx, New(args[0]))
}

// Name is "native".
func (*Driver) Name() string { return "native" }

// box is one enclosure, or one process that joined it.
type box struct {
	pid      int
	guest    bool  // in a cloister that another box owns, and its group
	hosted   bool  // a kernel of its own runs the command; the view is a folder
	outlives bool  // its program ends by itself
	lent     *Lent // the user that root built it for, without a user namespace
	group    *cgroup.Group
	address  netip.Addr // among those beside it
	term     *relay.Terminal
	status   *os.File
	life     *os.File

	// judged has the kernel judge files and programs of the command's process on.
	judged func(pid int) (io.Closer, error)

	watch *watch.Watch           // set before the command runs; nil where nothing is reported
	left  func(sandbox.Recorder) // takes it over at the end; nil where the box waits for it

	mu       sync.Mutex
	judge    io.Closer
	over     bool // settle has looked for a judge
	reaped   bool
	fate     unix.WaitStatus // of the first process
	reports  []report
	lost     error // why the box was ended before its command
	keeping  sync.WaitGroup
	unscored func()              // gives this process its own score back: the command has its own
	unkept   func()              // says that no keeper is at work any more
	alone    chan sandbox.Status // the command has ended so, and nothing else lives inside
	heard    chan struct{}       // the child has said its last; nil before attach
	gone     chan struct{}       // the first process has been waited for
	done     chan struct{}       // nothing is left
	end      sandbox.Status
	err      error
}

// openCommand opens a process by which to enter: the command, the one child
// that the first process made. The first process itself cannot be entered by:
// its memory is a copy of the shim's, hidden from every unprivileged process.
func openCommand(init int) (int, error) { return openBy(init, command) }

// openBy opens the process that a look finds by the first one.
func openBy(init int, find func(int) (int, error)) (int, error) {
	pid, err := find(init)
	if err != nil {
		return -1, err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("join cloister: open process %d: %w", pid, err)
	}
	// Its number may have been another's by then: it is the same one's while the look finds it.
	if again, err := find(init); err != nil || again != pid {
		unix.Close(pidfd)
		return -1, errEnded
	}
	return pidfd, nil
}

// errEnded tells that the command of a cloister is no more. What lives there is
// being ended by the kernel.
var errEnded = errors.New("find command: it has ended")

// command is the host's number of the first child of a cloister's first process.
func command(init int) (int, error) {
	n := strconv.Itoa(init)
	text, err := os.ReadFile("/proc/" + n + "/task/" + n + "/children")
	if err != nil {
		return 0, fmt.Errorf("find command: %w", err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0, errEnded
	}
	return pid, nil
}

// GroupOf is the control group of a box's command, which has the session's id in its name; nil where there is none.
func GroupOf(box sandbox.Handle, id string) (*cgroup.Group, error) {
	init, err := onhost.Process(box)
	if err != nil {
		return nil, err
	}
	pid, err := command(init)
	if err != nil {
		return nil, err
	}
	return cgroup.Of(pid, "-"+id)
}

// rootPayloadID is the unprivileged host id of a payload that root starts: one
// of a range that systemd's list of uses leaves free, different for each shim.
func rootPayloadID() int { return 1_900_000_000 + os.Getpid()%4_194_304 }

func accepted(s sandbox.Spec, err error) bool {
	var u *sandbox.Unsupported
	return errors.As(err, &u) && u.Residue != "" && slices.Contains(s.Accepted, u.Residue)
}

// died adds how the first process ended to an error that its end explains.
func (b *box) died(err error) error {
	select {
	case <-b.gone:
	case <-time.After(100 * time.Millisecond):
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fate.Signaled() {
		return fmt.Errorf("%w (the first process was ended by %v)", err, b.fate.Signal())
	}
	return err
}

// reap waits for the first process, and so for everything inside: the
// kernel ends a process namespace before its first process can be waited for.
func (b *box) reap() {
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(b.pid, &ws, 0, nil)
		if err != unix.EINTR {
			break
		}
	}
	b.mu.Lock()
	b.reaped, b.fate = true, ws
	b.mu.Unlock()
	close(b.gone)
}

// settle runs once the first process is gone: it learns how the command ended
// and removes what Start made.
func (b *box) settle() {
	<-b.gone
	b.unscored()
	b.mu.Lock()
	heard := b.heard
	b.mu.Unlock()
	if heard != nil {
		<-heard
	}
	reports := b.drain()
	b.end = sandbox.Status{Signal: int(unix.SIGKILL)} // unless the command's own end was reported
	for _, r := range reports {
		if r.Kind == reportEnd {
			b.end = r.end()
		}
	}
	if b.term != nil {
		b.term.Finish()
	}
	b.mu.Lock()
	b.status.Close()
	b.status = nil
	b.mu.Unlock()
	b.life.Close()
	b.keeping.Wait()
	switch {
	case b.watch != nil && b.left != nil:
		b.left(b.watch)
	case b.watch != nil:
		_ = b.watch.Close() // with the last process its listener has ended, or was given up
	}
	judged := b.endJudge() // it may still say that it was lost
	b.mu.Lock()
	b.err = errors.Join(b.lost, judged)
	b.mu.Unlock()
	if !b.guest && b.group != nil {
		b.err = errors.Join(b.err, b.group.Close())
	}
	close(b.done)
}

// drain takes the reports that are there and gives all that ever came.
func (b *box) drain() []report {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status == nil || b.heard != nil {
		return slices.Clone(b.reports)
	}
	fd := int(b.status.Fd())
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(ready, 0); err != nil || n == 0 || ready[0].Revents&unix.POLLIN == 0 {
			return slices.Clone(b.reports)
		}
		var r report
		if n, err := unix.Read(fd, r.bytes()); err != nil || n != len(r.bytes()) {
			return slices.Clone(b.reports)
		}
		b.reports = append(b.reports, r)
	}
}

// listen takes the reports as they come, from the moment when the command runs.
func (b *box) listen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = make(chan struct{})
	early := b.judge == nil && b.watch == nil // what was judged is reported before the end is
	go func() {
		defer close(b.heard)
		for {
			var r report
			if n, err := b.status.Read(r.bytes()); err != nil || n != len(r.bytes()) {
				return // its end: the child is gone
			}
			b.mu.Lock()
			b.reports = append(b.reports, r)
			b.mu.Unlock()
			if r.Kind == reportEnd && r.Index == 1 && early {
				b.alone <- r.end()
			}
		}
	}()
}

// Alone gives how the command has ended when nothing that was started inside
// lives, a moment before the enclosure is gone. Where something else lives it
// gives nothing.
func (b *box) Alone() <-chan sandbox.Status { return b.alone }

// end is the command's end that a report tells.
func (r report) end() sandbox.Status {
	ws := unix.WaitStatus(r.Value)
	if ws.Signaled() {
		return sandbox.Status{Signal: int(ws.Signal())}
	}
	return sandbox.Status{Code: ws.ExitStatus()}
}

func (b *box) failure() (report, bool) {
	for _, r := range b.drain() {
		if r.Kind != reportEnd {
			return r, true
		}
	}
	return report{}, false
}

// Handle is the first process, by which Exec enters.
func (b *box) Handle() sandbox.Handle { return onhost.Handle(b.pid) }

// Process is the first process.
func (b *box) Process() int { return b.pid }

// Signal passes a signal on: the first process receives it and hands it over.
func (b *box) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal cloister: %v is no signal", sig)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reaped {
		b.giveUp()
		return os.ErrProcessDone
	}
	return unix.Kill(b.pid, n)
}

// Resize gives the command's terminal the size of the caller's.
func (b *box) Resize() error {
	if b.term == nil {
		return nil
	}
	return b.term.Resize()
}

// Wait returns when the command has ended and all of it is gone.
func (b *box) Wait() (sandbox.Status, error) {
	<-b.done
	return b.end, b.err
}

// giveUp ends the wait for what a command that joined left running.
func (b *box) giveUp() {
	if b.guest && b.watch != nil && b.left == nil {
		b.watch.GiveUp()
	}
}

// Close ends everything at once.
func (b *box) Close() error {
	if err := b.kill(); err != nil {
		return err
	}
	b.giveUp()
	<-b.done
	return b.err
}

// beginJudge begins what endJudge ends, unless the box is over already.
func (b *box) beginJudge(pid int) error {
	j, err := b.seen(pid)
	if err != nil {
		return err
	}
	b.mu.Lock()
	over := b.over
	if !over {
		b.judge = j
	}
	b.mu.Unlock()
	if over {
		return errors.Join(errEnded, j.Close())
	}
	return nil
}

// seen has the command's process judged. It shares this process's hidden memory until it becomes the
// command, and an ordinary user may look only at what is not hidden; nothing of a payload's runs yet.
func (b *box) seen(pid int) (_ io.Closer, err error) {
	if os.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("start native: %w", err)
		}
		defer func() { err = errors.Join(err, unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)) }()
	}
	return b.judged(pid)
}

func (b *box) endJudge() error {
	b.mu.Lock()
	j := b.judge
	b.over = true
	b.mu.Unlock()
	if j == nil {
		return nil
	}
	return j.Close()
}

// lose ends the box for a reason.
func (b *box) lose(why error) {
	b.mu.Lock()
	b.lost = errors.Join(b.lost, why)
	b.mu.Unlock()
	_ = b.kill() // it is gone, or the kernel lets its processes open nothing
}

func (b *box) kill() error {
	if !b.outlives {
		b.killJoined()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reaped {
		return nil
	}
	if err := unix.Kill(b.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end cloister: %w", err)
	}
	return nil
}
