//go:build linux

package seccomp

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Enter puts the calling thread, and what it executes, behind a filter for good.
func Enter(filter []unix.SockFilter) error {
	p := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	at := uintptr(unsafe.Pointer(&p))
	if _, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, at); e != 0 {
		return fmt.Errorf("enter seccomp: %w", e)
	}
	return nil
}
