//go:build linux

package rawcall

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mkdirat is mkdirat(2).
func Mkdirat(dir int, path string, mode uint32) error {
	return call(unix.SYS_MKDIRAT, dir, path, uintptr(mode), 0)
}

// Mknodat is mknodat(2).
func Mknodat(dir int, path string, mode uint32, dev int) error {
	return call(unix.SYS_MKNODAT, dir, path, uintptr(mode), uintptr(dev))
}

// Linkat is linkat(2), of two names in one folder each.
func Linkat(from int, old string, to int, name string) error {
	return move(unix.SYS_LINKAT, from, old, to, name, 0)
}

// Renameat is renameat2(2) that replaces nothing.
func Renameat(from int, old string, to int, name string) error {
	return move(unix.SYS_RENAMEAT2, from, old, to, name, unix.RENAME_NOREPLACE)
}

func move(nr uintptr, from int, old string, to int, name string, flags uintptr) error {
	source, err := syscall.BytePtrFromString(old)
	if err != nil {
		return err
	}
	target, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	for {
		_, _, errno := syscall.RawSyscall6(nr, uintptr(from), uintptr(unsafe.Pointer(source)), uintptr(to),
			uintptr(unsafe.Pointer(target)), flags, 0)
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
			continue
		}
		return errno
	}
}

// Unlinkat is unlinkat(2).
func Unlinkat(dir int, path string, flags int) error {
	return call(unix.SYS_UNLINKAT, dir, path, uintptr(flags), 0)
}

func call(nr uintptr, dir int, path string, a, b uintptr) error {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	for {
		_, _, errno := syscall.RawSyscall6(nr, uintptr(dir), uintptr(unsafe.Pointer(name)), a, b, 0, 0)
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
			continue
		}
		return errno
	}
}
