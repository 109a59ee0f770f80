package resolve

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"cloister/host/taint"
)

// plain takes a path that leads through no link: one call of the kernel's says so.
func (r *Resolver) plain(f *Found) error {
	fd, err := open(f.Path, unix.O_PATH)
	switch {
	case errors.Is(err, unix.ELOOP):
		return errLinks
	case err != nil:
		return &fs.PathError{Op: "lstat", Path: f.Path, Err: err}
	}
	defer unix.Close(fd)
	f.Real = f.Path
	f.Info, err = taint.Look(f.Path)
	return err
}

// Open opens a path for reading, and fails where a link lies on the way: a folder that
// was looked at may have become one meanwhile. It waits for no one.
func Open(path string) (*os.File, error) {
	fd, err := open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenRoot is [os.OpenRoot] of a folder on the way to which lies no link.
func OpenRoot(path string) (*os.Root, error) {
	fd, err := open(path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(fd))
}

func open(path string, flags uint64) (int, error) {
	how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	for {
		// EAGAIN: something was renamed on the way (openat2(2)).
		fd, err := unix.Openat2(unix.AT_FDCWD, path, how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}
