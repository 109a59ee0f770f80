//go:build !linux

package taint

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Info is what a file is, itself and not what a link leads to.
type Info struct {
	ID
	UID, GID uint32
	Mode     uint32 // as stat(2) has it: kind and permissions
}

// Kind is the part of Mode that says what it is: unix.S_IFDIR and its like.
func (i Info) Kind() uint32 { return i.Mode & unix.S_IFMT }

// Look looks at a path; never through a link at its end.
func Look(path string) (Info, error) {
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		return Info{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return Info{ID: ID{Dev: uint64(s.Dev), Ino: s.Ino}, UID: s.Uid, GID: s.Gid, Mode: uint32(s.Mode)}, nil
}
