package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"cloister/kernel/lsm"
)

// guardRows are what a guarded session is refused, whatever its policy says of files.
func guardRows() []row {
	guarded := &lsm.Policy{Permit: lsm.All, Guarded: true}
	var out []row
	for _, name := range guardNames {
		out = append(out, row{name: name, policy: guarded})
	}
	return out
}

// received is the descriptor that waits in the socket 3.
func received() (int, error) {
	buffer := make([]byte, 64)
	_, n, _, _, err := unix.Recvmsg(3, make([]byte, 8), buffer, 0)
	if err != nil {
		return -1, err
	}
	list, err := unix.ParseSocketControlMessage(buffer[:n])
	if err != nil || len(list) == 0 {
		return -1, unix.EACCES // the kernel leaves out what may not be received
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) == 0 {
		return -1, unix.EACCES
	}
	return fds[0], nil
}

func socket(family, kind, protocol int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind, protocol)
		unix.Close(fd)
		return err
	}
}

// asAnother runs as a user of the system without rights, on a thread that ends with the process.
func asAnother(do func() error) func() error {
	return func() error {
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
			return err
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 1000, 1000, 1000); errno != 0 {
			return errno
		}
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		data[0].Effective, data[0].Permitted = 1<<unix.CAP_SETUID, 1<<unix.CAP_SETUID
		if err := unix.Capset(&head, &data[0]); err != nil {
			return err
		}
		return do()
	}
}

func init() {
	maps.Copy(attempts, map[string]func() error{
		"trace another":     func() error { runtime.LockOSThread(); return unix.PtraceSeize(1) },
		"memory of another": func() error { _, err := os.ReadFile("/proc/1/environ"); return err },
		"descriptor of another": func() error {
			pidfd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			fd, err := unix.PidfdGetfd(pidfd, 1, 0)
			unix.Close(fd)
			return err
		},
		"signal another": func() error { return unix.Kill(1, 0) },
		"become root": asAnother(func() error {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 0, 0, 0); errno != 0 {
				return errno
			}
			return nil
		}),
		"a set-id program": func() error {
			if err := errors.Join(os.Chown("/t/bin/busybox", 0, 0), os.Chmod("/t/bin/busybox", os.ModeSetuid|0o755)); err != nil {
				return err
			}
			c := exec.CommandContext(context.Background(), "/t/bin/busybox", "true")
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
			return c.Run()
		},
		"bpf": func() error {
			m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
			if err == nil {
				m.Close()
			}
			return err
		},
		"a module's file": func() error {
			f, err := os.Open("/modules/00-overlay.ko")
			if err != nil {
				return err
			}
			if err := unix.FinitModule(int(f.Fd()), "", 0); !errors.Is(err, unix.EEXIST) { // it is there
				return err
			}
			return nil
		},
		"a module": func() error {
			if err := unix.InitModule([]byte("no module, and long enough to be looked at: as long as the head of a file of the format ELF"), ""); !errors.Is(err, unix.ENOEXEC) {
				return err
			}
			return nil
		},
		"perf": func() error {
			fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK}, 0, -1, -1, 0)
			unix.Close(fd)
			return err
		},
		"a key": func() error {
			_, err := unix.AddKey("user", "x", []byte("y"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		},
		"the kernel's log": func() error { _, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil); return err },
		"the clock": func() error {
			var now unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
				return err
			}
			return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
		},
		"a namespace of users": func() error {
			c := exec.CommandContext(context.Background(), "/bin/busybox", "true")
			c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
			return c.Run()
		},
		"a ring":              func() error { return uringOpen("/t/open/file") },
		"a packet socket":     socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0),
		"a raw socket":        socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"the kernel's events": socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT),
		"connect to a socket": func() error {
			c, err := net.Dial("unix", "/t/secret/socket")
			if err == nil {
				c.Close()
			}
			return err
		},
		"send to a socket": func() error {
			c, err := net.Dial("unixgram", "/t/secret/socket")
			if err == nil {
				_, err = c.Write([]byte("x"))
				c.Close()
			}
			return err
		},
		"on an overlay":            read("/t/mnt/key"),
		"on an overlay, copied up": both(ready, read("/t/mnt/key")),
		"copied up by the session": both(withFile("/t/mnt/key", unix.O_WRONLY|unix.O_APPEND, func(fd int) error {
			_, err := unix.Write(fd, []byte("more"))
			return err
		}), func() error { return os.WriteFile("/t/mnt/new", []byte("x"), 0o644) }, read("/t/mnt/new")),
		"removed from an overlay": func() error { return os.Remove("/t/mnt/key") },
		"a received memfd": func() error {
			fd, err := received()
			if err != nil {
				return err
			}
			return unix.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), []string{"busybox", "echo", "through"}, nil)
		},
	})
}
