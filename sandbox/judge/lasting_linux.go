package judge

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// passing are file systems whose server may give an old name a new inode, which would be without its label.
var passing = map[int64]string{
	unix.FUSE_SUPER_MAGIC: "FUSE", unix.NFS_SUPER_MAGIC: "NFS", unix.V9FS_MAGIC: "9p", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "SMB", unix.CEPH_SUPER_MAGIC: "Ceph", unix.AFS_FS_MAGIC: "AFS",
}

// Lasting refuses a rule that the kernel alone would keep, of an object whose inode does not stay. Paths are as
// process pid sees them.
func Lasting(pid int, s sandbox.Spec) error { return lasting(pid, s, passing) }

func lasting(pid int, s sandbox.Spec, passing map[int64]string) error {
	top, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("judge files: look at those of process %d: %w", pid, err)
	}
	defer unix.Close(top)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for _, j := range s.Judged {
		if j.Covered {
			continue
		}
		fd, err := unix.Openat2(top, string(j.Path), &how)
		if err != nil {
			continue // what the kernel cannot judge for that is refused by its judge
		}
		var st unix.Statfs_t
		err = unix.Fstatfs(fd, &st)
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("judge files: look at %s: %w", j.Path, err)
		}
		if kind := passing[int64(st.Type)]; kind != "" {
			return &sandbox.Unsupported{
				Guarantee: "the rule " + j.Rule,
				Reason:    fmt.Sprintf("%s lies on %s, whose files do not keep their inodes", j.Path, kind),
				Fix:       "have it lie on a file system of this machine, or take the statement out",
			}
		}
	}
	return nil
}
