package corpus

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr08() escape.Case {
	return escape.Case{
		ID: "PR-08", Class: "namespace entry", Attack: "setns to namespaces of the first process, of a process of the host and of oneself",
		Source: "HARDENING 5.1", Layers: []string{"seccomp", "pid namespace"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			enter := func(name, path string) {
				control := escape.ByRoot
				out = append(out, escape.Try{Name: name, Open: errnos(syscall.EINVAL), Control: control, Do: func() error {
					fd, err := unix.Open(path, os.O_RDONLY|unix.O_CLOEXEC, 0)
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					return unix.Setns(fd, 0)
				}})
			}
			pid := itoa(in.PID)
			enter("of a process of the host: net", "/proc/"+pid+"/ns/net")
			enter("of a process of the host: user", "/proc/"+pid+"/ns/user")
			first := "1"
			if in.Control {
				first = pid
			}
			enter("of the first process: mnt", "/proc/"+first+"/ns/mnt")
			enter("of the first process: user", "/proc/"+first+"/ns/user")
			enter("one's own: uts", "/proc/self/ns/uts")
			return append(out, escape.Try{Name: "by a pidfd", Held: errnos(syscall.EPERM, syscall.ESRCH), Open: errnos(syscall.EINVAL), Do: func() error {
				n := in.PID
				fd, err := unix.PidfdOpen(n, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				return unix.Setns(fd, unix.CLONE_NEWUSER)
			}})
		},
	}
}
