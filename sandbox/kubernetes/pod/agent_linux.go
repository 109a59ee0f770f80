package pod

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"cloister/sandbox/landlock"
	"cloister/sandbox/seccomp"
)

// runInit is the first process of the agent's container: it reaps, and ends, and with it all
// that is inside, when the gate does.
func runInit() error {
	c, err := net.Dial("unix", Folder+door)
	if err != nil {
		return fmt.Errorf("find the gate: %w", err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			for {
				if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && !errors.Is(err, unix.EINTR) {
					break
				}
			}
		}
	}()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	// Other programs of this user could read or steer this one by ptrace else.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide memory: %w", err)
	}
	gone := make(chan struct{})
	go func() {
		_ = Work(c) // it ends when the gate does, whose end is the end
		close(gone)
	}()
	select {
	case <-gone:
		return errors.New("the gate is gone")
	case <-asked:
		return nil
	}
}

// notFound and notExecuted are statuses as a shell gives them.
const (
	notExecuted = 126
	notFound    = 127
)

// ReadRun reads what the command id is to be from this process's standard input. A terminal repeats what it is sent
// until its modes say otherwise, and the driver sends nothing before that: it is asked to.
func ReadRun(id string) (r Run, err error) {
	if modes, terr := unix.IoctlGetTermios(0, unix.TCGETS); terr == nil {
		quiet := *modes
		quiet.Lflag &^= unix.ECHO | unix.ECHONL
		if err := unix.IoctlSetTermios(0, unix.TCSETS, &quiet); err != nil {
			return r, fmt.Errorf("read what to run: %w", err)
		}
		defer func() { err = errors.Join(err, unix.IoctlSetTermios(0, unix.TCSETS, modes)) }()
		if _, err := io.WriteString(os.Stderr, readyOf(id)); err != nil {
			return r, fmt.Errorf("read what to run: %w", err)
		}
	}
	if r, err = read(os.Stdin); err != nil {
		return r, fmt.Errorf("read what to run: %w", err)
	}
	return r, nil
}

// Execute runs it, and writes its end.
func (r Run) Execute(ctx context.Context) error {
	code, err := r.run(ctx)
	if err != nil {
		return err
	}
	return writeEnd(os.Stderr, r.ID, code)
}

// run runs it, passes signals on to it, and gives its status.
func (r Run) run(ctx context.Context) (int, error) {
	if len(r.Argv) == 0 {
		return 0, errors.New("read what to run: no command")
	}
	// The name is of the pod's network alone. A process inside that takes it loses a command
	// its signals, nothing else.
	signals, err := net.ListenPacket("unixgram", signalsOf(r.ID))
	if err != nil {
		return 0, fmt.Errorf("listen for signals: %w", err)
	}
	defer func() { _ = signals.Close() }() // it was only read
	os.Clearenv()
	for _, e := range r.Env {
		key, value, _ := strings.Cut(e, "=")
		if err := os.Setenv(key, value); err != nil {
			return 0, fmt.Errorf("set %s: %w", key, err)
		}
	}
	if n := uint64(r.Processes); r.Processes > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return 0, fmt.Errorf("bound the processes: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, r.Argv[0], r.Argv[1:]...)
	cmd.Args[0] = r.Argv[0]
	cmd.Dir, cmd.Env = r.Dir, r.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.SysProcAttr.Foreground = term.IsTerminal(0) // its group is the one that is typed to
	if term.IsTerminal(0) && r.Rows > 0 {
		if err := unix.IoctlSetWinsize(0, unix.TIOCSWINSZ, &unix.Winsize{Row: r.Rows, Col: r.Columns}); err != nil {
			return 0, fmt.Errorf("set the terminal's size: %w", err)
		}
	}
	if err := restrict(); err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "execute %s: %v\n", r.Argv[0], err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return notFound, nil
		}
		return notExecuted, nil
	}
	signal.Ignore(syscall.SIGTTOU) // the command's end is written from behind
	go func() {
		buf := make([]byte, 16)
		for {
			n, _, err := signals.ReadFrom(buf)
			if err != nil {
				return
			}
			if sig, err := strconv.Atoi(string(buf[:n])); err == nil {
				_ = cmd.Process.Signal(syscall.Signal(sig)) // an error means that it has ended
			}
		}
	}()
	return ended(cmd.Process.Pid)
}

// ended waits until a command has ended, and gives its status. One that has this process trace it stops
// before that, and cmd.Wait would take it for an end.
func ended(pid int) (int, error) {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for the command: %w", err)
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		case status.Exited():
			return status.ExitStatus(), nil
		}
	}
}

// restrict puts the calling goroutine's thread, and what it starts, behind the walls of a command. A runtime's
// filter is of its own age and for every container: containerd 1.6 lets vsock pass, which no network namespace
// holds, io_uring and TIOCSTI. So Cloister's own lies over it, as on other levels.
//
// A Landlock domain lets all files be used, no device be made, and nothing of another domain be traced: that is
// another command of the cloister. Where there is no Landlock the filter refuses all tracing.
func restrict() error {
	runtime.LockOSThread() // it ends with the goroutine
	// A pod has it by the runtime; without it neither domain nor filter is to be had.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("refuse new privileges: %w", err)
	}
	// This process is of the same domain, and its other threads have no filter: nothing may steer them by ptrace.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide memory: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("refuse core files: %w", err)
	}
	abi, err := landlock.Version()
	if err == nil {
		err = landlock.Enter(abi, []string{"/"}, nil)
	}
	filter, ferr := seccomp.Filter(err == nil)
	if ferr != nil {
		return ferr
	}
	return seccomp.Enter(filter)
}

func signalsOf(id string) string { return "@cloister-run-" + id }

// runSignal passes a signal on to a command.
func runSignal(id, number string) error {
	c, err := net.Dial("unixgram", signalsOf(id))
	if err != nil {
		return fmt.Errorf("find the command: %w", err)
	}
	_, err = c.Write([]byte(number))
	return errors.Join(err, c.Close())
}

// runCanary looks at its own container.
func runCanary() (c Canary, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return c, fmt.Errorf("list interfaces: %w", err)
	}
	for _, l := range links {
		if leads(l) {
			c.Interfaces = append(c.Interfaces, l.Attrs().Name)
		}
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return c, err
	}
	var sets []string
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.HasPrefix(name, "Cap") && strings.Trim(value, "0") != "":
			sets = append(sets, name+" "+value)
		case name == "NoNewPrivs":
			c.NoNewPrivs = value == "1"
		case name == "Seccomp":
			c.Seccomp = value == "2"
		}
	}
	slices.Sort(sets)
	c.Capabilities, c.UID = strings.Join(sets, ", "), os.Getuid()
	d := net.Dialer{Timeout: 5 * time.Second}
	if conn, err := d.Dial("unix", Folder+door); err == nil {
		c.Gate = true
		conn.Close()
	}
	if text, err := os.ReadFile(Folder + proof); err == nil {
		c.Proof = string(text)
	}
	c.Kernel = kernel()
	return c, nil
}

// kernel is what the kernel says that it is. Nothing of a payload has run yet.
func kernel() string {
	log := make([]byte, 64<<10)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, log) // refused to others than gVisor's, as a rule
	version, verr := os.ReadFile("/proc/version")
	if err == nil && bytes.Contains(log[:n], []byte("Starting gVisor...")) ||
		verr == nil && bytes.Contains(version, []byte("gvisor")) {
		return KernelGVisor
	}
	guest, err := os.ReadFile("/proc/cmdline")
	mounts, merr := os.ReadFile("/proc/self/mountinfo")
	if err == nil && bytes.Contains(guest, []byte("kata-containers")) || merr == nil && ofKata(string(mounts)) {
		return KernelKata
	}
	return ""
}

// ofKata reports whether one of the mounts is what a guest of Kata shares with its node. Where they
// lie says nothing: a project's folder has any name.
func ofKata(mounts string) bool {
	for line := range strings.Lines(mounts) {
		own, rest, _ := strings.Cut(line, " - ") // in what lies before it a space is written \040
		from, what := strings.Fields(own), strings.Fields(rest)
		if len(from) > 3 && strings.HasPrefix(from[3], "/kata-containers/") || len(what) > 1 && what[1] == "kataShared" {
			return true
		}
	}
	return false
}
