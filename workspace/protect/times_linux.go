package protect

import "golang.org/x/sys/unix"

// keepsTimes knows the file systems of this kernel's own.
func keepsTimes(st *unix.Statfs_t) bool {
	switch int64(st.Type) { // narrower elsewhere
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.OVERLAYFS_SUPER_MAGIC:
		return true
	}
	return false
}
