//go:build linux

package sigquit

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is struct sigaction of amd64 and arm64 as the kernel has it (rt_sigaction(2)). Zero is SIG_DFL.
type action struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

func byDefault() error {
	var plain action
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGQUIT), uintptr(unsafe.Pointer(&plain)), 0,
		unsafe.Sizeof(plain.mask), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
