package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Update changes a file's text, nil where there is none, as one step: of two that do so at
// once the second reads what the first wrote. Its folder, which is made where it is
// missing, is locked meanwhile. A link stays one, and an error of change leaves all as it
// was.
func Update(path string, perm os.FileMode, change func(text []byte) ([]byte, error)) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer d.Close() // which also unlocks it
	for {
		if err = unix.Flock(int(d.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	// A file system of the network may lock no folder: there the last of two wins.
	if err != nil && !errors.Is(err, unix.EBADF) && !errors.Is(err, unix.ENOLCK) && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("write %s: lock: %w", path, err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text, err = change(text); err != nil {
		return err
	}
	return WriteFile(path, text, perm)
}
