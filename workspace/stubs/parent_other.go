//go:build !linux

package stubs

import "golang.org/x/sys/unix"

// openParent opens the folder of a stub's path.
func openParent(dir string) (int, error) {
	return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// unshut opens nothing here.
func unshut(string) (again func()) { return func() {} }
