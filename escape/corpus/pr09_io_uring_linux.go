package corpus

import (
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr09() escape.Case {
	return escape.Case{
		ID: "PR-09", Class: "io_uring", Attack: "set up, enter and register a ring: a second table of system calls that no filter sees",
		Source: "moby #46762, containers/common #1264", Layers: []string{"seccomp"},
		Tries: func(escape.Inside) []escape.Try {
			nosys := errnos(syscall.ENOSYS)
			return calls(
				call{name: "io_uring_setup", nr: unix.SYS_IO_URING_SETUP, args: []uintptr{1, mem(string(make([]byte, 120)))}, held: nosys},
				call{name: "io_uring_enter", nr: unix.SYS_IO_URING_ENTER, args: []uintptr{minusOne, 0, 0, 0, 0, 0}, held: nosys, open: errnos(syscall.EBADF)},
				call{name: "io_uring_register", nr: unix.SYS_IO_URING_REGISTER, args: []uintptr{minusOne, 0, 0, 0}, held: nosys, open: errnos(syscall.EBADF, syscall.EINVAL)},
			)
		},
	}
}
