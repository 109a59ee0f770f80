//go:build !linux

package rawcall

import "golang.org/x/sys/unix"

// Mkdirat is mkdirat(2).
func Mkdirat(dir int, path string, mode uint32) error { return unix.Mkdirat(dir, path, mode) }

// Mknodat makes none here.
func Mknodat(int, string, uint32, int) error { return unix.ENOTSUP }

// Linkat is linkat(2).
func Linkat(from int, old string, to int, name string) error {
	return unix.Linkat(from, old, to, name, 0)
}

// Renameat moves nothing here.
func Renameat(int, string, int, string) error { return unix.ENOTSUP }

// Unlinkat is unlinkat(2).
func Unlinkat(dir int, path string, flags int) error { return unix.Unlinkat(dir, path, flags) }
