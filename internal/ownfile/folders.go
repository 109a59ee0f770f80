package ownfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// OnlyFiles refuses a folder that holds anything but files.
func OnlyFiles(dir string) error {
	if err := Folder(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			return &Strange{Path: filepath.Join(dir, e.Name()), Why: "it is no file"}
		}
	}
	return nil
}

// FolderOrNone refuses what is no folder, whoever's it is. It passes what is not there.
func FolderOrNone(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return &Strange{Path: path, Why: "it is no folder"}
	}
	return nil
}
