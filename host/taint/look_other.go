//go:build !linux

package taint

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Look looks at a path; never through a link at its end.
func Look(path string) (Info, error) {
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		return Info{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return Info{ID: ID{Dev: uint64(s.Dev), Ino: s.Ino}, UID: s.Uid, GID: s.Gid, Mode: uint32(s.Mode)}, nil
}
