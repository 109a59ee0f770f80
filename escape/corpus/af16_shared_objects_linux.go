package corpus

import (
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// af16 goes for what the kernel has once for the whole machine.
func af16() escape.Case {
	return escape.Case{
		ID: "AF-16", Class: "contexts of asynchronous I/O", Attack: "take the contexts that the kernel has for the whole machine (fs.aio-max-nr), so that databases of the host do not start",
		Source: "own corpus: io_setup(2)", Layers: []string{"seccomp"},
		Tries: func(escape.Inside) []escape.Try {
			nosys := errnos(syscall.ENOSYS)
			return calls(
				call{name: "io_setup", nr: unix.SYS_IO_SETUP, args: []uintptr{1, mem(string(make([]byte, 8)))}, held: nosys},
				call{name: "io_submit", nr: unix.SYS_IO_SUBMIT, args: []uintptr{0, 0, 0}, held: nosys, open: errnos(syscall.EINVAL)},
				call{name: "io_getevents", nr: unix.SYS_IO_GETEVENTS, args: []uintptr{0, 0, 0, 0, 0}, held: nosys, open: errnos(syscall.EINVAL)},
				call{name: "io_pgetevents", nr: unix.SYS_IO_PGETEVENTS, args: []uintptr{0, 0, 0, 0, 0, 0}, held: nosys, open: errnos(syscall.EINVAL)},
				call{name: "io_cancel", nr: unix.SYS_IO_CANCEL, args: []uintptr{0, mem(string(make([]byte, 64))), 0}, held: nosys, open: errnos(syscall.EINVAL)},
				call{name: "io_destroy", nr: unix.SYS_IO_DESTROY, args: []uintptr{0}, held: nosys, open: errnos(syscall.EINVAL)},
			)
		},
	}
}
