package corpus

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr02() escape.Case {
	return escape.Case{
		ID: "PR-02", Class: "memory and fd theft", Attack: "read and write the memory of a process of the host, take its descriptors, compare and advise it",
		Source: "HARDENING 5.1", Layers: []string{"seccomp", "pid namespace"},
		Tries: func(in escape.Inside) []escape.Try {
			buf := mem("        ")
			iov := mem(string(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, uint64(buf)), 8)))
			pid := uintptr(in.PID)
			held := errnos(syscall.EPERM, syscall.ESRCH, syscall.ENOSYS)
			tries := calls(
				call{name: "process_vm_readv", nr: unix.SYS_PROCESS_VM_READV, args: []uintptr{pid, iov, 1, iov, 1, 0}, held: held, open: errnos(syscall.EFAULT)},
				call{name: "process_vm_writev", nr: unix.SYS_PROCESS_VM_WRITEV, args: []uintptr{pid, iov, 1, iov, 1, 0}, held: held, open: errnos(syscall.EFAULT)},
				call{name: "kcmp", nr: unix.SYS_KCMP, args: []uintptr{pid, pid, 0, 0, 0}, held: held},
				call{name: "pidfd_open", nr: unix.SYS_PIDFD_OPEN, args: []uintptr{pid, 0}, held: held},
				call{name: "process_madvise", nr: unix.SYS_PROCESS_MADVISE, args: []uintptr{minusOne, iov, 1, unix.MADV_COLD, 0}, held: held, open: errnos(syscall.EBADF)},
				call{name: "process_mrelease", nr: unix.SYS_PROCESS_MRELEASE, args: []uintptr{minusOne, 0}, held: held, open: errnos(syscall.EBADF)},
				call{name: "move_pages", nr: unix.SYS_MOVE_PAGES, args: []uintptr{pid, 0, 0, 0, 0, 0}, held: held},
				call{name: "migrate_pages", nr: unix.SYS_MIGRATE_PAGES, args: []uintptr{pid, 0, 0, 0}, held: held, open: errnos(syscall.EINVAL)},
				call{name: "prlimit of another", nr: unix.SYS_PRLIMIT64, args: []uintptr{pid, unix.RLIMIT_NOFILE, 0, buf}, held: held, open: errnos(syscall.EFAULT)},
				call{name: "sched_setaffinity of another", nr: unix.SYS_SCHED_GETAFFINITY, args: []uintptr{pid, 8, buf}, held: held, open: errnos(syscall.EINVAL)},
			)
			return append(tries, escape.Try{Name: "pidfd_getfd", Held: held, Do: func() error {
				fd, err := unix.PidfdOpen(in.PID, 0)
				if err != nil && !in.Control {
					fd, err = unix.PidfdOpen(1, 0)
				}
				if err != nil {
					return err
				}
				_, err = unix.PidfdGetfd(fd, 0, 0)
				return err
			}})
		},
	}
}
