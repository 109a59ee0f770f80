package corpus

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr01a() escape.Case {
	return escape.Case{
		ID: "PR-01a", Class: "descriptors of siblings", Attack: "take and compare descriptors of one's own child: the calls are shut even where the kernel would allow them to anybody",
		Source: "HARDENING 5.1 (kcmp, pidfd_getfd)", Layers: []string{"seccomp"},
		Tries: func(escape.Inside) []escape.Try {
			held := errnos(syscall.EPERM, syscall.ENOSYS)
			child := func(name string, do func(pid int) error) escape.Try {
				return escape.Try{Name: name, Held: held, Do: func() error {
					c := exec.Command("sleep", "5")
					if err := c.Start(); err != nil {
						return err
					}
					defer func() {
						_ = c.Process.Kill() // what a tracer holds ends with the tracer
						_ = c.Wait()
					}()
					return do(c.Process.Pid)
				}}
			}
			return []escape.Try{
				child("pidfd_getfd", func(pid int) error {
					fd, err := unix.PidfdOpen(pid, 0)
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					got, err := unix.PidfdGetfd(fd, 0, 0)
					if err == nil {
						unix.Close(got)
					}
					return err
				}),
				child("kcmp", func(pid int) error {
					if _, _, errno := syscall.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(pid), 0, 0, 0, 0); errno != 0 {
						return errno
					}
					return nil
				}),
			}
		},
	}
}
