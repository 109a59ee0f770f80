package gated

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// kind is what an entry is.
type kind byte

const (
	none kind = iota
	file
	dir
	link
	special
	whiteout // overlayfs: the name was removed
)

// entry is one name as it was looked at. The zero value is the absence of one.
type entry struct {
	kind   kind
	mode   uint32
	ino    uint64
	size   int64
	mtime  int64 // in nanoseconds, as ctime
	ctime  int64 // which no program can set
	target string
}

// beneath opens a path below a folder, and follows no link and no mount on the way.
func beneath(top int, rel string, flags uint64) (int, error) {
	return unix.Openat2(top, rel, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// list opens a folder below another, with the names in it.
func list(top int, rel string) (*os.File, []string, error) {
	fd, err := beneath(top, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), rel)
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, names, nil
}

// absent reports whether an error says that no such path is there.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// entryAt looks at a name of a folder.
func entryAt(at int, name string) (entry, error) {
	var st unix.Stat_t
	err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return entry{}, nil
	}
	if err != nil {
		return entry{}, err
	}
	e := entryOf(&st)
	if e.kind == link {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(at, name, buf)
		if err != nil {
			return entry{}, err
		}
		e.target = string(buf[:n])
	}
	return e, nil
}

func entryOf(st *unix.Stat_t) entry {
	e := entry{
		kind: special, mode: st.Mode & 0o7777, ino: st.Ino, size: st.Size,
		mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.kind = file
	case unix.S_IFLNK:
		e.kind = link
	case unix.S_IFDIR:
		// What is in a folder has entries of its own.
		e = entry{kind: dir, mode: e.mode & 0o777, ino: e.ino}
	case unix.S_IFCHR:
		if st.Rdev == 0 {
			e = entry{kind: whiteout}
		}
	}
	return e
}

// moved is an entry as it is after a rename, which moves its change time on.
func (e entry) moved() entry {
	e.ctime = 0
	return e
}
