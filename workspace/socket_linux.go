package workspace

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// makeSocket makes a socket that nobody listens on.
func (s stub) makeSocket(r *os.Root) error {
	dir, err := r.Open(filepath.Dir(s.rel))
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.Mknodat(int(dir.Fd()), filepath.Base(s.rel), unix.S_IFSOCK|0o444, 0)
}
