//go:build linux

package refused

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// memoryWords is SK_MEMINFO_VARS of linux/sock_diag.h; drops are the last of them.
const memoryWords = 9

// memory is getsockopt(2) of SO_MEMINFO, which is in Linux since 4.12.
func memory(fd uintptr, info *[memoryWords]uint32) error {
	size := uint32(unsafe.Sizeof(*info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO, uintptr(unsafe.Pointer(info)),
		uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
