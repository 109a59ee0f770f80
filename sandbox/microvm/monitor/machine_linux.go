package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/internal/passfd"
	"cloister/sandbox/landlock"
	"cloister/sandbox/microvm/guest"
	"cloister/sandbox/microvm/kernel"
	"cloister/sandbox/microvm/walled"
	"cloister/sandbox/microvm/wire"
	"cloister/sandbox/seccomp"
)

// machine is the two programs that make a guest.
type machine struct {
	o     Order
	gone  chan<- error
	mu    sync.Mutex
	pids  []int
	ended bool
	said  [2]tail // the console, and what the programs say
	heard sync.WaitGroup
}

// tail keeps the last that was written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const kept = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-kept):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(strings.ReplaceAll(string(t.text), "\r", "")), "?")
}

// explain adds what the programs said last.
func (m *machine) explain(err error) error {
	m.end()
	m.heard.Wait()
	for i := range m.said {
		if last := m.said[i].String(); last != "" {
			lines := strings.Split(last, "\n")
			err = fmt.Errorf("%w: %s", err, strings.Join(lines[max(0, len(lines)-4):], "; "))
		}
	}
	return err
}

// serverCaps are what virtiofsd needs to act as the guest's users: within the user namespace of
// the enclosure alone, in which the payload's user is the only one.
const serverCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_SETFCAP | 1<<unix.CAP_MKNOD |
	1<<unix.CAP_SYS_CHROOT

// serve starts the server of the view's files, which waits for QEMU at a socket.
func (m *machine) serve(ctx context.Context, at string) error {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "unix", at)
	if err != nil {
		return err
	}
	defer l.Close()
	u := l.(*net.UnixListener) // it listens on one
	u.SetUnlinkOnClose(false)
	socket, err := u.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	abi, err := landlock.Version()
	if err != nil {
		return fmt.Errorf("ask for Landlock: %w", err)
	}
	filter, err := serverFilter()
	if err != nil {
		return err
	}
	if m.o.off(layerModes) {
		filter = groupsOnly()
	}
	var places []string
	for _, w := range m.o.Writable {
		places = append(places, m.o.View+w)
	}
	rules := landlock.Rules(abi, places)
	if m.o.off(layerServer) {
		rules = nil
	}
	return m.run(walled.Walls{Keep: serverCaps, Landlock: rules, Filter: filter},
		[]string{m.o.Server, "--fd=3", "-f", "-o", "source=" + m.o.View, "-o", "sandbox=chroot", "-o", "cache=auto",
			"-o", "timeout=0", "-o", "announce_submounts", "-o", "no_writeback", "-o", "no_xattr", "-o", "no_flock",
			"-o", "no_posix_lock", "--rlimit-nofile=" + strconv.FormatUint(m.o.Setup.Seen, 10), "--thread-pool-size=0"},
		m.null(), &m.said[1], socket)
}

// mostSeen bounds the files that the server may have open, of which there is one for each that a guest's kernel knows.
const mostSeen = 1 << 20

// seen is how many it may have: the hard limit. The soft one is often 1,024, which a project has on its first look.
func seen() (uint64, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("look at the limit of open files: %w", err)
	}
	return min(l.Max, mostSeen), nil
}

// serverFilter lets no mode have a set-id bit, whatever a guest's kernel asks for: what is made there is a
// file of the host's user. And it answers that a process is in no group beside its own: virtiofsd refuses to
// be in any, and a user namespace that an ordinary user made lets none be left.
func serverFilter() ([]unix.SockFilter, error) {
	return seccomp.Modes(unix.SYS_GETGROUPS, unix.SYS_SETGROUPS)
}

// started is QEMU, as it was started.
type started struct {
	port   *os.File // this side of the guest's port
	memory *os.File // of the guest
	qmp    *qmp     // nil: it boots
}

// Ways of a machine's beginning.
type way int

const (
	boots    way = iota // for a session
	tobeKept            // for a template
	goesOn              // from a template
)

// start starts QEMU.
func (m *machine) start(how way) (s started, err error) {
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	var others []*os.File
	defer func() {
		for _, f := range others {
			f.Close()
		}
	}()
	socket := func(name string) (*os.File, error) {
		pair, err := passfd.Pair(unix.SOCK_STREAM)
		if err != nil {
			return nil, err
		}
		others = append(others, os.NewFile(uintptr(pair[1]), name))
		err = unix.SetNonblock(pair[0], true)
		return os.NewFile(uintptr(pair[0]), name), err
	}
	if s.port, err = socket("port"); err != nil {
		return s, err
	}
	if s.memory, err = newMemory(m.o.Memory); err != nil {
		return s, err
	}
	passed := []*os.File{others[0], s.memory}
	if how != boots {
		f, err := socket("qmp")
		if err != nil {
			return s, err
		}
		defer f.Close() // the connection has a descriptor of its own
		c, err := net.FileConn(f)
		if err != nil {
			return s, err
		}
		s.qmp = newQMP(c.(*net.UnixConn)) // a pair of unix sockets
		passed = append(passed, others[1])
	}
	filter, err := seccomp.Filter(true)
	if err != nil {
		return s, err
	}
	abi, err := landlock.Version()
	if err != nil {
		return s, fmt.Errorf("ask for Landlock: %w", err)
	}
	walls := walled.Walls{Landlock: m.rules(abi), Filter: filter}
	return s, m.run(walls, m.o.words(how), m.null(), &m.said[0], passed...)
}

func (s started) close() {
	for _, f := range []*os.File{s.port, s.memory} {
		if f != nil {
			f.Close()
		}
	}
	if s.qmp != nil {
		_ = s.qmp.to.Close()
	}
}

// newMemory is a guest's memory, of which nothing is taken yet. Its pages count as the enclosure's, where it is filled.
func newMemory(mib int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make the guest's memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	if err := f.Truncate(mib << 20); err != nil {
		f.Close()
		return nil, fmt.Errorf("make the guest's memory: %w", err)
	}
	return f, nil
}

// rules are the files that QEMU may use: the system's, to read, its kernel, and its devices.
// The view is not among them.
func (m *machine) rules(abi int) []landlock.Rule {
	all := landlock.Handled(abi)
	const file = unix.LANDLOCK_ACCESS_FS_READ_FILE
	reads := uint64(file | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE)
	uses := uint64(file|unix.LANDLOCK_ACCESS_FS_WRITE_FILE|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV) & all
	rules := []landlock.Rule{
		{Path: KernelPath, Rights: file}, {Path: InitrdPath, Rights: file},
		{Path: "/dev/null", Rights: uses}, {Path: "/dev/urandom", Rights: uses},
		{Path: "/proc", Rights: reads &^ unix.LANDLOCK_ACCESS_FS_EXECUTE},
	}
	for _, dir := range SystemFolders() {
		if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
			rules = append(rules, landlock.Rule{Path: dir, Rights: reads})
		}
	}
	if m.o.KVM {
		rules = append(rules, landlock.Rule{Path: "/dev/kvm", Rights: uses})
	}
	return rules
}

// SystemFolders are the host's folders that QEMU and the server find their libraries in.
func SystemFolders() []string { return []string{"/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin"} }

// Words are how QEMU is called for what is kept as a template: machines of which they are the same may begin as copies
// of one.
func (o Order) Words() []string { return o.words(tobeKept) }

// words are how QEMU is called. There is no network device, and nothing that this does not name. The one device that a
// machine has and its template has not is in a slot that both have; the other devices have the same places in both.
func (o Order) words(how way) []string {
	accel, cpu := fmt.Sprintf("tcg,thread=multi,tb-size=%d", o.Code), "max"
	kernel := "console=ttyS0 quiet loglevel=3 panic=-1 rdinit=" + kernel.Program +
		" 8250.nr_uarts=1 i8042.noaux i8042.nokbd random.trust_cpu=on audit=0 lsm=landlock,yama"
	if o.KVM {
		accel, cpu = "kvm", "host"
	} else {
		// What keeps a guest's commands from each other by other means costs an emulated
		// processor most, which has nothing of what it is against. The kernel ends where ten ticks
		// of the timer do not come in time, as on a busy host; KVM's guests do not count them either.
		kernel += " mitigations=off no_timer_check"
	}
	memory := strconv.FormatInt(o.Memory, 10) + "M"
	words := slices.Concat([]string{o.QEMU},
		strings.Fields("-name cloister -nodefaults -no-user-config -no-reboot -display none -monitor none -parallel none"),
		[]string{"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"},
		[]string{"-machine", "q35,memory-backend=mem,usb=off,hpet=off,vmport=off,smbus=off,sata=off"},
		[]string{"-accel", accel, "-cpu", cpu, "-smp", strconv.Itoa(o.CPUs), "-m", memory},
		[]string{"-object", "memory-backend-file,id=mem,share=on,mem-path=/proc/self/fd/4,size=" + memory},
		[]string{"-kernel", KernelPath, "-initrd", InitrdPath, "-append", kernel},
		strings.Fields("-chardev stdio,id=console,signal=off -serial chardev:console -device virtio-rng-pci,addr=3"),
		strings.Fields("-device virtio-serial-pci,max_ports=2,addr=4 -chardev socket,id=port,fd=3"),
		[]string{"-device", "virtserialport,chardev=port,name=" + wire.Port},
		strings.Fields("-device pcie-root-port,id=slot0,chassis=1,addr=5"),
	)
	if how != boots {
		words = append(words, strings.Fields("-chardev socket,id=qmp,fd=5 -mon chardev=qmp,mode=control")...)
	}
	if how == goesOn {
		words = append(words, "-incoming", "defer")
	}
	if how != tobeKept {
		words = append(words, "-chardev", "socket,id=files,path="+filepath.Join(o.State, files))
	}
	if how == boots {
		words = append(words, "-device", "vhost-user-fs-pci,bus=slot0,chardev=files,tag="+guest.ViewTag+",queue-size=512")
	}
	return words
}

// plug gives a machine that goes on the device of its view, which could not be kept.
func (q *qmp) plug() error {
	return q.do("device_add", map[string]any{"driver": "vhost-user-fs-pci", "bus": "slot0", "chardev": "files",
		"tag": guest.ViewTag, "queue-size": 512})
}

func (m *machine) null() *os.File {
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		panic(err) // the stage has one
	}
	return f
}

// run starts a program whose end is the box's, with descriptors from 3 on.
func (m *machine) run(w walled.Walls, words []string, in *os.File, said io.Writer, passed ...*os.File) error {
	defer in.Close()
	out, to, err := os.Pipe()
	if err != nil {
		return err
	}
	var pid int
	err = walled.Start(w, walled.Program{Files: words[:1], Argv: words, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/",
		Std: append([]*os.File{in, to, to}, passed...), Terminal: -1}, nil, func(n int) { pid = n })
	to.Close()
	if err != nil {
		out.Close()
		return err
	}
	m.mu.Lock()
	m.pids = append(m.pids, pid)
	m.mu.Unlock()
	m.heard.Go(func() {
		_, _ = io.Copy(said, out) // until it ends
		out.Close()
	})
	go func() {
		var ws syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &ws, 0, nil); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		how := fmt.Sprintf("status %d", ws.ExitStatus())
		if ws.Signaled() {
			how = ws.Signal().String()
		}
		m.gone <- m.explainEnd(fmt.Errorf("%s ended: %s", words[0], how), said)
	}()
	return nil
}

// explainEnd adds a program's own last words to its end.
func (m *machine) explainEnd(err error, said io.Writer) error {
	if t, ok := said.(*tail); ok && t.String() != "" {
		lines := strings.Split(t.String(), "\n")
		return fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return err
}

// end ends both programs.
func (m *machine) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.ended = true
	for _, pid := range m.pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // the enclosure ends the rest with this process
	}
}
