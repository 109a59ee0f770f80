package layers

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Chmod gives an entry of an open folder a mode, and never follows a link. The call for
// that, fchmodat2, came with Linux 6.6; before it a descriptor that only names the entry
// does the same by way of /proc.
func Chmod(dir int, name string, mode uint32) error {
	err := unix.Fchmodat(dir, name, mode, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return chmodByName(dir, name, mode)
	}
	return err
}

func chmodByName(dir int, name string, mode uint32) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.EOPNOTSUPP // as fchmodat2 has it
	}
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
}
