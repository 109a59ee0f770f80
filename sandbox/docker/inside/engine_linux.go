package inside

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox/plan"
)

// MaskedPaths are what a list of ours masks in the place of the engine's own.
func MaskedPaths() []string {
	return append(plan.Hidden(), "/sys/firmware", "/sys/kernel", "/sys/devices/virtual/powercap")
}

// Namespaces are those that a container has of its own.
func Namespaces() []string { return []string{"net", "ipc", "uts", "pid", "cgroup", "mnt"} }

// OwnNamespaces tells which this process is in.
func OwnNamespaces() (map[string]string, error) {
	out := map[string]string{}
	for _, name := range Namespaces() {
		at, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return nil, fmt.Errorf("look at namespaces: %w", err)
		}
		out[name] = at
	}
	return out, nil
}

// engineLacks tells, from the agent's first process, what of the engine's own part
// is missing before anything of ours is done: later one would hide the other.
func engineLacks() error {
	want := map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapInh": zeroes, "CapPrm": zeroes, "CapEff": zeroes,
		"CapBnd": zeroes, "CapAmb": zeroes}
	if err := statusHolds(want); err != nil {
		return err
	}
	// Our profile answers so; Docker's own one otherwise to the first, Podman's to the
	// second.
	for _, w := range []wall{
		{"io_uring", func() error { return call(unix.SYS_IO_URING_SETUP, 1, 0) }, []unix.Errno{unix.ENOSYS}},
		{"vsock", func() error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM) }, []unix.Errno{unix.EPERM}},
	} {
		if err := w.refused(); err != nil {
			return fmt.Errorf("the seccomp profile: %w", err)
		}
	}
	resources := map[string]int{"core": unix.RLIMIT_CORE, "memlock": unix.RLIMIT_MEMLOCK,
		"rtprio": unix.RLIMIT_RTPRIO, "msgqueue": unix.RLIMIT_MSGQUEUE}
	for _, l := range plan.Limits() {
		var limit unix.Rlimit
		if err := unix.Getrlimit(resources[l.Name], &limit); err != nil {
			return err
		}
		if limit.Max > l.Hard {
			return fmt.Errorf("the limit of %s is %d, not %d", l.Name, limit.Max, l.Hard)
		}
	}
	return nil
}

// probeEngine looks, from where the command will be, at what the engine mounted.
func probeEngine() error {
	for _, name := range MaskedPaths() {
		if err := masked(name); err != nil {
			return err
		}
	}
	for _, name := range plan.ReadOnly() {
		if err := heldReadOnly(name); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	for _, name := range append(plan.Temporary(), "/dev/shm") {
		var st unix.Statfs_t
		if err := unix.Statfs(name, &st); err != nil {
			return fmt.Errorf("look at %s: %w", name, err)
		}
		if st.Type != unix.TMPFS_MAGIC || st.Flags&unix.ST_NOSUID == 0 || st.Flags&unix.ST_NODEV == 0 || st.Blocks == 0 {
			return fmt.Errorf("%s is no memory with a bound, without devices and set-id programs", name)
		}
	}
	return probeDevices()
}

// masked reports whether nothing of a path can be seen: it is not there, an empty
// folder, the null device, or an empty file that is none of the kernel's.
func masked(name string) error {
	var (
		st unix.Stat_t
		fs unix.Statfs_t
	)
	err := unix.Stat(name, &st)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return nil
	}
	if err := errors.Join(err, unix.Statfs(name, &fs)); err != nil {
		return fmt.Errorf("look at %s: %w", name, err)
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0 && fs.Type != unix.PROC_SUPER_MAGIC &&
		fs.Type != unix.SYSFS_MAGIC:
		return nil
	case st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3):
		return nil
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		if entries, err := os.ReadDir(name); err == nil && len(entries) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s is not masked", name)
}

// devices are those that every container has.
const devices = " core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero "

func probeDevices() error {
	entries, err := os.ReadDir("/dev")
	if err != nil {
		return err
	}
	at := slices.IndexFunc(entries, func(e os.DirEntry) bool { return !strings.Contains(devices, " "+e.Name()+" ") })
	if at >= 0 {
		return fmt.Errorf("there is the device /dev/%s, which nobody asked for", entries[at].Name())
	}
	return nil
}
