package resolve

import (
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// A Stat is what a walk wants to know of a file.
type Stat struct {
	Dev, Ino, Links uint64
	Mode            uint32
	changed         int64 // by a clock that no payload sets
}

// Same reports whether an inode is the same, and was not changed between two looks.
func (s Stat) Same(o Stat) bool { return s.Dev == o.Dev && s.Ino == o.Ino && s.changed == o.changed }

// Changed is when the inode was changed last.
func (s Stat) Changed() time.Time { return time.Unix(0, s.changed) }

func statOf(st *unix.Stat_t) Stat {
	return Stat{uint64(st.Dev), st.Ino, uint64(st.Nlink), uint32(st.Mode), st.Ctim.Nano()} // narrower elsewhere
}

func lstat(path string) (Stat, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return Stat{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return statOf(&st), nil
}
