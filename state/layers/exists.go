package layers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Exists reports whether there is a file of a name, of whatever kind. Where that cannot be
// found out there is an error: what is taken for absent is removed, or made again.
func Exists(name string) (bool, error) {
	_, err := os.Lstat(name)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	}
	return false, fmt.Errorf("look for a file: %w", err)
}
