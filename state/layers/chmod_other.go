//go:build !linux

package layers

import "golang.org/x/sys/unix"

// Chmod gives an entry of an open folder a mode, and never follows a link.
func Chmod(dir int, name string, mode uint32) error {
	return unix.Fchmodat(dir, name, mode, unix.AT_SYMLINK_NOFOLLOW)
}
