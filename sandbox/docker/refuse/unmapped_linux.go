package refuse

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// Unmapped refuses a folder or file whose owner cannot be mapped by a user namespace, by a mount
// of it that is nowhere attached. Who may not make one is refused nothing: the gate tries it again.
func Unmapped(path string, space *os.File) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copy the mount of %s: %w", path, err)
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(space.Fd())})
	err = errors.Join(err, unix.Close(fd))
	if errors.Is(err, unix.EINVAL) {
		return &sandbox.Unsupported{
			Guarantee: "file ownership",
			Reason:    path + ": the file system under it has no id-mapped mounts",
			Fix: "move it to ext4, xfs, btrfs or tmpfs (Linux 5.12 and later have them there), " +
				"or run cloister as an ordinary user",
		}
	}
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("map the owner of %s: %w", path, err)
	}
	return nil
}
