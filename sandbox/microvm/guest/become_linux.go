package guest

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"cloister/sandbox/gate"
	"cloister/sandbox/gate/lay"
)

// newRoot is where the view is mounted before it is the root.
const newRoot = "/root"

// become makes of the booted kernel what the cloister is: its view as the root, its gate, its
// limits.
func (g *guest) become() error {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"insert the engine's modules", g.inserted},
		{"mount the view", g.view},
		{"make devices", g.devices},
		{"bound what commands may take", g.limits},
		{"set the kernel's knobs", knobs},
		{"make the network", g.network},
		{"make way for the engine", g.engine},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return unix.Sethostname([]byte(g.setup.Host))
}

// ViewTag is the name of the view among the file systems that QEMU hands in.
const ViewTag = "view"

// view makes the view the root. Its folders for a kernel's own file systems are there.
func (g *guest) view() error {
	if err := unix.Mount(ViewTag, newRoot, "virtiofs", unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return err
	}
	type mount struct {
		kind, at string
		flags    uintptr
		data     string
	}
	list := []mount{
		// Neither the kernel's threads nor the first process are a command's to see.
		{"proc", "/proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "hidepid=2"},
		{"tmpfs", "/dev", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0755,size=1m"},
	}
	if g.setup.Tmp {
		list = append(list, mount{"tmpfs", "/tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777,size=50%"})
	}
	for _, m := range list {
		if err := unix.Mount(m.kind, newRoot+m.at, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("%s: %w", m.at, err)
		}
	}
	// An initrd's root cannot be exchanged: the view is moved on top of it.
	return errors.Join(os.Chdir(newRoot), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), os.Chdir("/"))
}

// devices makes those that programs may rely on.
func (g *guest) devices() error {
	old := unix.Umask(0)
	defer unix.Umask(old)
	for name, at := range map[string][2]uint32{"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8},
		"urandom": {1, 9}, "tty": {5, 0}} {
		if err := unix.Mknod("/dev/"+name, unix.S_IFCHR|0o666, int(unix.Mkdev(at[0], at[1]))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "ptmx": "pts/ptmx",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "shm": "../tmp"} {
		if err := os.Symlink(to, "/dev/"+name); err != nil {
			return err
		}
	}
	if err := os.Mkdir("/dev/pts", 0o755); err != nil {
		return err
	}
	terminals := "newinstance,ptmxmode=0666,mode=0620,max=" + strconv.Itoa(g.setup.Terminal)
	if err := unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, terminals); err != nil {
		return err
	}
	return unix.Mount("", "/dev", "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NOEXEC, "")
}

func (g *guest) limits() error {
	unix.Umask(0o022)
	for resource, n := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NPROC: g.setup.Pids, unix.RLIMIT_RTPRIO: 0,
		unix.RLIMIT_NICE: 0, unix.RLIMIT_MEMLOCK: 64 << 10, unix.RLIMIT_NOFILE: g.setup.Files} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
	}
	return nil
}

// knobs closes what an ordinary user of this kernel may see of it.
func knobs() error {
	for name, value := range map[string]string{"kernel/dmesg_restrict": "1", "kernel/kptr_restrict": "2",
		"kernel/yama/ptrace_scope": "1", "kernel/unprivileged_bpf_disabled": "1", "user/max_user_namespaces": "0"} {
		err := os.WriteFile("/proc/sys/"+name, []byte(value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// network makes the gate as in every cloister, or loopback alone.
func (g *guest) network() error {
	if !g.setup.Network {
		return lay.Converse(unix.NETLINK_ROUTE, gate.Loopback())
	}
	v6 := gate.HaveIPv6()
	routes, rules := gate.Messages(v6)
	if err := lay.Converse(unix.NETLINK_ROUTE, routes); err != nil {
		return fmt.Errorf("set routes: %w", err)
	}
	if err := lay.Converse(unix.NETLINK_NETFILTER, rules); err != nil {
		return fmt.Errorf("set packet rules: %w", err)
	}
	for _, s := range gate.Sockets(v6) {
		if err := g.open(s); err != nil {
			return fmt.Errorf("open %s socket: %w", s.Name, err)
		}
	}
	if err := refusals(g.s); err != nil {
		return fmt.Errorf("read the log of refused datagrams: %w", err)
	}
	return nil
}
