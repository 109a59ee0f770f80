// Package durable replaces small files so that a crash leaves the old or the
// new text, never a mixture.
//
// The promise: when [WriteFile] returns nil the new text survives a power
// loss; when it returns an error the old text is untouched and no temporary
// file stays behind. It replaces files and links, never a device, a pipe or a
// socket: a setting that leads to /dev/null must not cost root the device.
//
// [WriteFile] does not lock: two writers of one file see the last rename win. Whoever
// writes what they read takes [Update], or [Edit] for JSON that has a lock of its own.
package durable

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces path by text with permission perm: a temporary file in
// the same folder, fsync, rename, fsync of the folder.
func WriteFile(path string, text []byte, perm os.FileMode) error {
	dir := filepath.Dir(path)
	if fi, err := os.Lstat(path); err == nil && !fi.Mode().IsRegular() && fi.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("write %s: it is no file", path)
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := fill(f, text, perm); err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return SyncDir(dir)
}

func fill(f *os.File, text []byte, perm os.FileMode) error {
	_, err := f.Write(text)
	if err == nil {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = f.Sync()
	}
	// Some file systems report a full disk only here.
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// SyncDir makes the names in dir durable: created, renamed, removed.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}
