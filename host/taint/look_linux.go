package taint

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Look looks at a path; never through a link at its end.
func Look(path string) (Info, error) {
	var s unix.Statx_t
	for {
		err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT,
			unix.STATX_BASIC_STATS|unix.STATX_BTIME, &s)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return Info{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		break
	}
	i := Info{ID: ID{Dev: unix.Mkdev(s.Dev_major, s.Dev_minor), Ino: s.Ino}, UID: s.Uid, GID: s.Gid, Mode: uint32(s.Mode)}
	if s.Mask&unix.STATX_BTIME != 0 {
		i.Born = s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
	}
	return i, nil
}
