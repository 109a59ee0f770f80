package realpath

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Of is path without symbolic links. path is absolute.
func Of(path string) (string, error) {
	fd, err := open(path)
	if err != nil {
		return "", &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	defer unix.Close(fd)
	buf := make([]byte, 1024)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
	if err != nil || n == len(buf) || buf[0] != '/' || strings.HasSuffix(string(buf[:n]), " (deleted)") {
		return filepath.EvalSymlinks(path)
	}
	return string(buf[:n]), nil
}

func open(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
