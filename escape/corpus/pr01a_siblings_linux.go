package corpus

import (
	"encoding/binary"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr01a() escape.Case {
	return escape.Case{
		ID: "PR-01a", Class: "ptrace of siblings", Attack: "trace, read, write and take descriptors of one's own child: the calls are shut even where the kernel would allow them to anybody",
		Source: "HARDENING 5.1 (ptrace, process_vm_*, pidfd_getfd)", Layers: []string{"seccomp"},
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
			vm := func(nr uintptr) func(pid int) error {
				return func(pid int) error {
					// One byte at an address that is nobody's: the kernel looks for the right first.
					buf := mem("        ")
					local := mem(string(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, uint64(buf)), 1)))
					remote := mem(string(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 1), 1)))
					_, _, errno := syscall.Syscall6(nr, uintptr(pid), local, 1, remote, 1, 0)
					if errno == 0 || errno == syscall.EFAULT {
						return nil
					}
					return errno
				}
			}
			return []escape.Try{
				child("PTRACE_SEIZE", func(pid int) error {
					lockThread()
					if _, _, errno := syscall.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0); errno != 0 {
						return errno
					}
					return nil
				}),
				child("process_vm_readv", vm(unix.SYS_PROCESS_VM_READV)),
				child("process_vm_writev", vm(unix.SYS_PROCESS_VM_WRITEV)),
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
