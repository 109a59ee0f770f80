package parts

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// known are file systems on which overlays are laid, so that nothing is tried there.
func known() []int64 {
	return []int64{
		unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC,
	}
}

// whiteouts tries what an overlay does to each file that is removed, and the kernel to the
// upper folder of each overlay that it lays: a file is renamed, and a whiteout left at its name.
// NFS, another overlay and most file systems of user space have no such rename.
func whiteouts(dir int, name string) (err error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir, &fs); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", name, err)
	}
	if slices.Contains(known(), fs.Type) {
		return nil
	}
	from := ".whiteout-" + strconv.Itoa(os.Getpid())
	to := from + "-to"
	fd, err := unix.Openat(dir, from, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("look for whiteouts of %s: %w", name, err)
	}
	err = errors.Join(unix.Renameat2(dir, from, dir, to, unix.RENAME_WHITEOUT), unix.Close(fd))
	for _, n := range []string{from, to} {
		if gone := unix.Unlinkat(dir, n, 0); !errors.Is(gone, unix.ENOENT) {
			err = errors.Join(err, gone)
		}
	}
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		return &NoUpper{name, "whiteouts (another overlay, as a container's own disk is, or one over a network)"}
	case err != nil:
		return fmt.Errorf("look for whiteouts of %s: %w", name, err)
	}
	return nil
}
