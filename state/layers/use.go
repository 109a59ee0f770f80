package layers

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// DiskUse is what an entry of a folder takes of the disk with all that is in it, in
// bytes; a file of several names counts once.
func DiskUse(dir, name string) (int64, error) {
	top, err := OpenLayer(dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = top.Close() }()
	u := &use{seen: map[inodeOf]bool{}}
	if err := u.entry(top, name, 0); err != nil {
		return 0, fmt.Errorf("measure layer: %w", err)
	}
	return u.bytes, nil
}

type use struct {
	bytes int64
	seen  map[inodeOf]bool
}

func (u *use) entry(dir *Folder, name string, depth int) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return dir.error("stat", name, err)
	}
	at := inodeOf{uint64(st.Dev), st.Ino}
	if !u.seen[at] {
		u.bytes += st.Blocks * 512 // stat(2): units of 512 bytes
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if st.Nlink > 1 {
			u.seen[at] = true
		}
		return nil
	}
	if depth > maxDepth {
		return &TooMany{dir.name, fmt.Sprintf("more than %d folders in each other", maxDepth)}
	}
	sub, err := dir.Folder(name)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	names, err := sub.Names()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := u.entry(sub, n, depth+1); err != nil {
			return err
		}
	}
	return nil
}
