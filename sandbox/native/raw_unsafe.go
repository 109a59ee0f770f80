//go:build linux

package native

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func cmsgAt(space []byte) *unix.Cmsghdr { return (*unix.Cmsghdr)(unsafe.Pointer(&space[0])) }

// cmsgInts are the descriptors of a control message, in place.
func cmsgInts(space []byte, n int) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(&space[unix.CmsgLen(0)])), n)
}

// int32At is a number inside a buffer that the kernel fills.
func int32At(b []byte, offset int) *int32 { return (*int32)(unsafe.Pointer(&b[offset])) }

// bytes is the report's memory, as it comes over the pipe.
func (r *report) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))
}
