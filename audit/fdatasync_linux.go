package audit

import (
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync(2) leaves out the times of the file, which no one needs after a
// power loss: half the disk writes of fsync(2) on ext4.
func fdatasync(f *os.File) error {
	return unix.Fdatasync(int(f.Fd()))
}
