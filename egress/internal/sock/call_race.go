//go:build linux && race

package sock

import (
	"errors"
	"syscall"
)

// The race detector learns from these that what was done before a write comes before
// what is done after the read of it (syscall.ioSync). Of a raw call it learns nothing,
// and reports races that are none.

func read(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), p)
	return n, number(err)
}

func write(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Write(int(fd), p)
	return n, number(err)
}

func number(err error) syscall.Errno {
	errno, _ := errors.AsType[syscall.Errno](err)
	return errno
}
