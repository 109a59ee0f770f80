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

// byDefault leaves no core file: the signal's own effect writes this process's memory, secrets that were typed
// among it, into the folder that it is in, where a cloister of the project reads it. Less than a page is no core
// file, and 1 gives none to a program that the host pipes them to either (core(5)).
func byDefault() error {
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return err
	}
	core.Cur = min(core.Max, 1)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return err
	}
	var plain action
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGQUIT), uintptr(unsafe.Pointer(&plain)), 0,
		unsafe.Sizeof(plain.mask), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
