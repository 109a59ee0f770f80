package parts

import "golang.org/x/sys/unix"

// topOfHierarchy is FS_TOPDIR_FL of <linux/fs.h> (chattr +T).
const topOfHierarchy = 0x0002_0000

// spread has ext4 begin each folder of dir in a part of the disk of its own.
//
// Before ext4 takes a free inode it looks at every one beside it that was removed in the
// last minutes (recently_deleted in fs/ext4/ialloc.c), and sessions remove many. A layer of
// 200 files in 220 folders took 220 ms of a processor that way, and takes 14 ms apart.
//
// It is a hint on where to write: a file system that has no such flag refuses it, and
// nothing is different then.
func spread(dir string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err == nil && flags&topOfHierarchy == 0 {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|topOfHierarchy)) // a hint
	}
}
