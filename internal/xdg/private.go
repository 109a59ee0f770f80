package xdg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Private makes dir (and what is missing above it) with mode 0700, or checks
// that the one that is there belongs to uid, is a folder and no symbolic link,
// and is open to no one else. A folder of one's own that was open to others is
// closed; anyone else's is refused, because whoever made it could replace the
// socket in it.
func Private(dir string, uid int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make private folder: %w", err)
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("check private folder: %s is not a folder of its own (a symbolic link or a file)", dir)
	}
	if err != nil {
		return fmt.Errorf("check private folder: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("check private folder: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != uid {
		return fmt.Errorf("check private folder: %s belongs to somebody else", dir)
	}
	if info.Mode().Perm()&0o077 == 0 && info.Mode().Perm()&0o700 == 0o700 {
		return nil
	}
	// Through the descriptor: the name might be another folder by now.
	if err := f.Chmod(fs.FileMode(0o700)); err != nil {
		return fmt.Errorf("close private folder to others: %w", err)
	}
	return nil
}
