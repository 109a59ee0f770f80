package inside

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// first is the first process of the agent's container: it starts commands, passes
// signals on to them, reaps, and ends, and with it everything inside, when the
// command has ended or the shim is gone.
type first struct {
	mu       sync.Mutex
	children map[int]chan unix.WaitStatus
	over     chan error
}

func runInit() error {
	var files []*os.File
	for _, ns := range []string{"mnt", "uts", "net"} {
		f, err := os.Open("/proc/self/ns/" + ns)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	l, err := dial(RoleInit, files...)
	if err != nil {
		return err
	}
	for _, f := range files {
		f.Close()
	}
	// This socket belongs to the cloister's network namespace, where it would be
	// seen; the shim gives one that does not.
	m, err := l.Hear()
	if err != nil || !m.Control {
		return fmt.Errorf("hear from the shim: %w", err)
	}
	taken, err := l.Take(1)
	if err != nil {
		return err
	}
	l.Close()
	if l, err = inherited(taken[0]); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide memory: %w", err)
	}
	f := &first{children: map[int]chan unix.WaitStatus{}, over: make(chan error, 1)}
	go f.reap()
	go func() { f.over <- f.serve(l, true) }()
	return <-f.over
}

// reap waits for every process that ends inside.
func (f *first) reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for range ended {
		f.collect()
	}
}

func (f *first) collect() {
	for {
		f.mu.Lock()
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		// A child that took its parent for its tracer (PTRACE_TRACEME) stops, which is
		// not its end. It stays so: only the thread that started it could let it go.
		if child := f.children[pid]; child != nil && !ws.Stopped() {
			child <- ws
			delete(f.children, pid)
		}
		f.mu.Unlock()
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}

// serve runs one command for who is at the other end. Of the first command the
// end of the conversation is the end of the cloister.
func (f *first) serve(l Line, whole bool) error {
	defer l.Close()
	m, err := l.Hear()
	if err != nil || m.Command == nil {
		return errors.Join(err, errors.New("no command came"))
	}
	pid, ended, child, err := f.start(l, *m.Command)
	if err != nil {
		return errors.Join(err, l.Fail(err))
	}
	told := make(chan error, 1)
	go func() { told <- report(l, child, ended) }()
	go f.obey(l, child, pid, whole)
	return <-told
}

// obey does what the other end says until it hangs up; then the command ends.
func (f *first) obey(l, child Line, pid int, whole bool) {
	for {
		m, err := l.Hear()
		switch {
		case err != nil:
			if whole {
				f.over <- nil
			}
			_ = unix.Kill(-pid, unix.SIGKILL) // it may have ended
			return
		case m.Join:
			if files, err := l.Take(1); err == nil {
				if more, err := inherited(files[0]); err == nil {
					go func() { _ = f.serve(more, false) }() // its own end was told why
				}
			}
		case m.Dial > 0:
			if files, err := l.Take(1); err == nil {
				if to, err := inherited(files[0]); err == nil {
					go reach(to, m.At, m.Dial)
				}
			}
		case m.Go:
			_ = child.Say(m) // one that has died is reported
		case m.Signal > 0:
			pass(pid, syscall.Signal(m.Signal))
		}
	}
}

// dialWithin bounds what a listener inside may take to accept.
const dialWithin = 10 * time.Second

// reach connects to a port of the cloister's loopback, or at an address of its own, for its
// owner.
func reach(to Line, at string, port uint16) {
	defer to.Close()
	err := errors.New("nobody listens")
	hosts := []string{"127.0.0.1", "::1"}
	if at != "" {
		hosts = []string{at}
	}
	for _, host := range hosts {
		var c net.Conn
		if c, err = net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(int(port))), dialWithin); err != nil {
			continue
		}
		var f *os.File
		f, err = c.(*net.TCPConn).File()
		c.Close()
		if err == nil {
			_ = to.Say(Message{Dialled: true}, f) // who is gone needs none
			f.Close()
			return
		}
	}
	_ = to.Fail(err)
}

// pass hands a signal over. Of those that a terminal sends, the whole group is
// meant.
func pass(pid int, sig syscall.Signal) {
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT:
		pid = -pid
	default:
	}
	_ = unix.Kill(pid, sig) // one that has ended gets nothing
}

// start starts the process that will be the command.
func (f *first) start(l Line, c Command) (int, chan unix.WaitStatus, Line, error) {
	none := Line{}
	passed := 0
	for _, tty := range c.TTY {
		if !tty {
			passed++
		}
	}
	std, err := l.Take(passed)
	if err != nil {
		return 0, nil, none, err
	}
	defer func() {
		for _, s := range std {
			s.Close()
		}
	}()
	files := make([]uintptr, 0, 4)
	sys := &syscall.SysProcAttr{Setsid: true}
	if passed < 3 {
		slave, err := terminal(l)
		if err != nil {
			return 0, nil, none, err
		}
		defer slave.Close()
		at := 0
		for i, tty := range c.TTY {
			if tty {
				files = append(files, slave.Fd())
				sys.Setctty, sys.Ctty = true, i
				continue
			}
			files = append(files, std[at].Fd())
			at++
		}
	} else {
		for _, s := range std {
			files = append(files, s.Fd())
		}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, none, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "payload"), os.NewFile(uintptr(pair[1]), "payload")
	defer theirs.Close()
	child, err := inherited(ours)
	if err != nil {
		return 0, nil, none, err
	}
	ended := make(chan unix.WaitStatus, 1)
	f.mu.Lock()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{Name, rolePayload},
		&syscall.ProcAttr{Env: payloadEnv(), Files: append(files, theirs.Fd()), Sys: sys})
	if err == nil {
		f.children[pid] = ended
	}
	f.mu.Unlock()
	if err != nil {
		child.Close()
		return 0, nil, none, fmt.Errorf("start the command's process: %w", err)
	}
	return pid, ended, child, child.Say(Message{Command: &c})
}

// terminal opens a terminal of the cloister's own and hands its master out.
func terminal(l Line) (*os.File, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("unlock terminal: %w", err)
	}
	// Not TIOCGPTPEER without flags: the first process leads a session, and would
	// make the terminal its own.
	slave, err := openSlave(master)
	if err != nil {
		return nil, fmt.Errorf("open terminal's inside: %w", err)
	}
	f := os.NewFile(uintptr(slave), "terminal")
	return f, l.Say(Message{Master: true}, master)
}

func openSlave(master *os.File) (int, error) {
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	return unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}

// report passes on what the payload says, and how it ended.
func report(l, child Line, ended <-chan unix.WaitStatus) error {
	for {
		m, err := child.Hear()
		if err != nil {
			break // executed, or dead
		}
		if err := l.Say(m); err != nil {
			return err
		}
	}
	child.Close()
	if err := l.Say(Message{Go: true}); err != nil {
		return err
	}
	status := int(<-ended)
	return l.Say(Message{End: &status})
}
