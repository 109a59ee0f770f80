package inside

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/landlock"
	"cloister/sandbox/plan"
	"cloister/sandbox/seccomp"
)

// runPayload becomes the command: it restricts itself, tries every wall, waits
// for the word to go, and executes.
func runPayload() error {
	runtime.LockOSThread() // seccomp holds the thread, and the thread executes
	syscall.CloseOnExec(3)
	l, err := inherited(os.NewFile(3, "first process"))
	if err != nil {
		return err
	}
	m, err := l.Hear()
	if err != nil || m.Command == nil {
		return errors.Join(err, errors.New("no command came"))
	}
	if err := become(l, *m.Command); err != nil {
		return errors.Join(l.Fail(err), err)
	}
	return nil
}

func become(l Line, c Command) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide memory: %w", err)
	}
	unix.Umask(0o022)
	if err := os.Chdir(c.Dir); err != nil {
		return fmt.Errorf("go to %s: %w", c.Dir, err)
	}
	if err := restrictSelf(); err != nil {
		return err
	}
	if err := probe(c); err != nil && !off("seccomp", "capabilities", "protect") {
		return fmt.Errorf("probe: %w", err)
	}
	if err := l.Say(Message{Ready: true}); err != nil {
		return err
	}
	if m, err := l.Hear(); err != nil || !m.Go {
		return errors.Join(err, errors.New("the shim gave no word to go"))
	}
	return execute(c)
}

// restrictSelf puts up the walls of the plan that the engine has not.
func restrictSelf() error {
	for _, one := range plan.New(plan.Facts{Base: plan.OnEngine}).Walls(sandbox.Spec{}) {
		var err error
		switch s := one.(type) {
		case plan.Limit: // the engine's, of which the first process has told
		case plan.Drop:
			// The engine has dropped the capabilities, and the probe looks whether it has.
			if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				err = fmt.Errorf("set no_new_privs: %w", err)
			}
		case plan.Landlock:
			err = closeDoors(s.Writable)
		case plan.Calls:
			if !off("seccomp") {
				err = enterFilter()
			}
		default:
			err = fmt.Errorf("%T: no wall of a container", s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func enterFilter() error {
	_, noLandlock := landlock.Version()
	filter, err := seccomp.Filter(noLandlock == nil)
	if err != nil {
		return err
	}
	if err := enter(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
		return fmt.Errorf("enter seccomp: %w", err)
	}
	return nil
}

// execute tries the files that the command's name may mean. Only a failure
// returns. A folder of PATH that lacks the file is no error; one that may not be
// executed is, unless a later one can be.
func execute(c Command) error {
	argv, env := c.Argv, c.Env
	worst := unix.ENOENT
	for _, file := range plan.Candidates(argv[0], env) {
		err := syscall.Exec(file, argv, env)
		e, ok := errors.AsType[syscall.Errno](err)
		if !ok {
			return err
		}
		if e != unix.ENOENT && e != unix.ENOTDIR && worst == unix.ENOENT {
			worst = e
		}
	}
	return &Failure{Text: "execute " + argv[0] + ": " + worst.Error(), Exec: true, Errno: int(worst)}
}

// A wall is a call that must be refused, with one of these answers.
type wall struct {
	name string
	try  func() error
	want []unix.Errno
}

// probe tries the walls from where the command will be.
func probe(c Command) error {
	if err := probePrivileges(c); err != nil {
		return err
	}
	list := []wall{
		{"mounting", func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") }, []unix.Errno{unix.EPERM}},
		{"new namespaces", func() error { return unix.Unshare(unix.CLONE_NEWUSER) }, []unix.Errno{unix.EPERM}},
		{"io_uring", func() error { return call(unix.SYS_IO_URING_SETUP, 1, 0) }, []unix.Errno{unix.ENOSYS}},
		{"vsock", func() error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM) }, []unix.Errno{unix.EAFNOSUPPORT}},
		{"the kernel's cryptography", func() error {
			return socket(unix.AF_ALG, unix.SOCK_SEQPACKET)
		}, []unix.Errno{unix.EAFNOSUPPORT}},
		{"packet sockets", func() error { return socket(unix.AF_PACKET, unix.SOCK_RAW) }, []unix.Errno{unix.EAFNOSUPPORT}},
		{"writing kernel knobs", func() error {
			return openFile("/proc/sys/kernel/core_pattern", unix.O_WRONLY)
		}, []unix.Errno{unix.EROFS, unix.EACCES, unix.ENOENT}},
		{"the kernel's memory", func() error {
			return readFile("/proc/kcore")
		}, []unix.Errno{unix.EACCES, unix.EPERM, unix.ENOENT, unix.ENODATA}},
		{"cgroups", func() error { return openFile("/sys/fs/cgroup", unix.O_PATH) }, []unix.Errno{unix.ENOENT}},
		{"the engine", func() error {
			return openFile("/run/docker.sock", unix.O_PATH)
		}, []unix.Errno{unix.ENOENT, unix.EACCES, unix.ENOTDIR}},
		{"the way to the shim", func() error { return connect(Door) },
			[]unix.Errno{unix.ENOENT, unix.EACCES, unix.ECONNREFUSED}},
	}
	for _, name := range c.Denied {
		list = append(list, wall{name, func() error {
			return openFile(name, unix.O_PATH)
		}, []unix.Errno{unix.ENOENT, unix.EACCES, unix.ENOTDIR}})
	}
	for _, w := range list {
		if err := w.refused(); err != nil {
			return err
		}
	}
	for _, name := range append([]string{"/", "/proc/sys", path.Dir(Program)}, c.Held...) {
		if err := heldReadOnly(name); err != nil {
			return err
		}
	}
	for _, name := range c.Hidden {
		if err := heldReadOnly(name); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	for _, name := range c.Over {
		var st unix.Statfs_t
		if err := unix.Statfs(name, &st); err != nil {
			return fmt.Errorf("look at %s: %w", name, err)
		}
		if st.Type != unix.OVERLAYFS_SUPER_MAGIC {
			return fmt.Errorf("%s is no overlay", name)
		}
	}
	if err := probeEngine(); err != nil {
		return err
	}
	return probeNetwork(c.Network)
}

func (w wall) refused() error {
	err := w.try()
	for _, e := range w.want {
		if errors.Is(err, e) {
			return nil
		}
	}
	if err == nil {
		return fmt.Errorf("%s is not refused", w.name)
	}
	return fmt.Errorf("%s: %w, which is not the refusal that was built", w.name, err)
}

func call(nr, a, b uintptr) error {
	if _, _, e := unix.RawSyscall(nr, a, b, 0); e != 0 {
		return e
	}
	return nil
}

func socket(family, typ int) error {
	fd, err := unix.Socket(family, typ, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func connect(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}

func openFile(name string, flags int) error {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// readFile reads a byte; an empty file answers ENODATA.
func readFile(name string) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, make([]byte, 1))
	if err == nil && n == 0 {
		return unix.ENODATA
	}
	return err
}

// heldReadOnly looks at the mount itself: a link is not followed, and a pipe or
// socket may be written whatever the mount says.
func heldReadOnly(name string) error {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return fmt.Errorf("look at %s: %w", name, err)
	}
	if st.Flags&unix.ST_RDONLY == 0 {
		return fmt.Errorf("%s is not read-only", name)
	}
	return nil
}

func probePrivileges(c Command) error {
	id := func(n int) string { s := strconv.Itoa(n); return s + "\t" + s + "\t" + s + "\t" + s }
	err := statusHolds(map[string]string{
		"NoNewPrivs": "1", "Seccomp": "2", "CapInh": zeroes, "CapPrm": zeroes, "CapEff": zeroes, "CapBnd": zeroes,
		"CapAmb": zeroes,
		"Uid":    id(c.User.UID), "Gid": id(c.User.GID),
	})
	if err != nil {
		return err
	}
	if c.User.UID == 0 {
		return errors.New("the command would be root")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil || limit.Max != 0 {
		return errors.Join(err, fmt.Errorf("core files of %d bytes are allowed", limit.Max))
	}
	return nil
}

// statusHolds compares what the kernel tells of this thread. It empties want.
func statusHolds(want map[string]string) error {
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return err
	}
	for row := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(row, ":")
		if must, ok := want[name]; ok && strings.TrimSpace(value) != must {
			return fmt.Errorf("%s is %s, not %s", name, strings.TrimSpace(value), must)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		return fmt.Errorf("the kernel does not tell %d of the privileges", len(want))
	}
	return nil
}

const zeroes = "0000000000000000"

// probeAddr is an address that only the gate's routes make reachable.
var probeAddr = netip.AddrFrom4([4]byte{192, 0, 2, 1})

func probeNetwork(gated bool) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if gated {
		// Where every address is local, any can be bound to.
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: probeAddr.As4()}); err != nil {
			return fmt.Errorf("not every address is the gate's: %w", err)
		}
		return nil
	}
	return wall{"a way out", func() error {
		return unix.Connect(fd, &unix.SockaddrInet4{Addr: probeAddr.As4(), Port: 9})
	}, []unix.Errno{unix.ENETUNREACH, unix.EHOSTUNREACH}}.refused()
}
