package standin

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// executes refuses a folder in which the kernel executes nothing.
func executes(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	if fs.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s lies on a file system on which nothing is executed", dir)
	}
	return nil
}
