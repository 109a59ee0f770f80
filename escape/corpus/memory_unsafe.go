//go:build linux

package corpus

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mem is the address of a copy of a text, NUL behind it. The memory is the
// kernel's and stays: an attempt ends soon.
func mem(text string) uintptr {
	b, err := unix.Mmap(-1, 0, len(text)+4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return 0
	}
	copy(b, text)
	return uintptr(unsafe.Pointer(&b[0]))
}
