//go:build !linux

package resolve

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// plain leaves every path to the walk: there is no call that says so.
func (r *Resolver) plain(*Found) error { return errLinks }

// Open opens a path for reading, and fails where a link lies on the way, as far as
// looking before can tell.
func Open(path string) (*os.File, error) {
	if err := unlinked(path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// OpenRoot is [os.OpenRoot] of a folder on the way to which lies no link, as far as
// looking before can tell.
func OpenRoot(path string) (*os.Root, error) {
	if err := unlinked(path); err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}

func unlinked(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err == nil && real != filepath.Clean(path) {
		err = &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
	}
	return err
}
