package corpus

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr04() escape.Case {
	return escape.Case{
		ID: "PR-04", Class: "terminal injection", Attack: "TIOCSTI, TIOCLINUX and TIOCSETD on a terminal, also with high bits in the 64-bit request",
		Source: "CVE-2017-5226, CVE-2019-10063, CVE-2023-28100", Layers: []string{"seccomp", "own terminal"},
		Tries: func(escape.Inside) []escape.Try {
			tty := -1
			open := func() (int, error) {
				if tty >= 0 {
					return tty, nil
				}
				_, _ = unix.Setsid()
				m, err := unix.Open("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
				if err != nil {
					return -1, err
				}
				if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
					return -1, err
				}
				n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
				if err != nil {
					return -1, err
				}
				tty, err = unix.Open("/dev/pts/"+itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
				if err != nil {
					return -1, err
				}
				_, _, _ = syscall.Syscall(unix.SYS_IOCTL, uintptr(tty), unix.TIOCSCTTY, 0)
				return tty, nil
			}
			byte1 := mem("x")
			var out []escape.Try
			for _, r := range []struct {
				name    string
				request uintptr
			}{
				{"TIOCSTI", unix.TIOCSTI}, {"TIOCSTI with high bits", unix.TIOCSTI | 0xdead<<32}, {"TIOCSTI with all high bits", unix.TIOCSTI | 0xffffffff<<32},
				{"TIOCLINUX", unix.TIOCLINUX}, {"TIOCLINUX with high bits", unix.TIOCLINUX | 1<<40}, {"TIOCSETD", unix.TIOCSETD},
			} {
				t := escape.Try{Name: r.name, Held: errnos(syscall.EPERM), Open: errnos(syscall.EIO, syscall.ENOTTY, syscall.EINVAL, syscall.EBUSY), Do: func() error {
					fd, err := open()
					if err != nil {
						return err
					}
					if _, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), r.request, byte1); errno != 0 {
						return errno
					}
					return nil
				}}
				out = append(out, t)
			}
			return out
		},
	}
}
