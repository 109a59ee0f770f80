package image

import (
	"os"

	"golang.org/x/sys/unix"
)

// settle waits until a root's files are on the disk, so that a name never
// leads to half a root after a power loss.
func settle(root string) error {
	f, err := os.Open(root)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
