package parts

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

// DiskUse is what an entry of a folder takes of the disk with all that is in it, in
// bytes; a file of several names counts once.
func DiskUse(dir, name string) (int64, error) {
	top, err := layers.OpenLayer(dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = top.Close() }()
	u := &use{seen: map[file]bool{}}
	if err := u.entry(top, name, 0); err != nil {
		return 0, fmt.Errorf("measure layer: %w", err)
	}
	return u.bytes, nil
}

// maxDepth bounds folders in each other; each costs a descriptor.
const maxDepth = 256

// file is one, whatever its names are.
type file struct{ dev, inode uint64 }

type use struct {
	bytes int64
	seen  map[file]bool
}

func (u *use) entry(dir *layers.Folder, name string, depth int) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir.Fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stat %s: %w", name, err)
	}
	at := file{uint64(st.Dev), st.Ino}
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
		return &layers.TooMany{Path: name, What: fmt.Sprintf("more than %d folders in each other", maxDepth)}
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
