package hostgit

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// signature is what the file system says of a file that it would not say after a change.
func signature(file string) string {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %d %d %d", st.Dev, st.Ino, st.Size, st.Ctim.Nano())
}
