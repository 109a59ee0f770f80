package resolve

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Walk is [filepath.WalkDir] below a folder that is no link, and which opens no folder
// through one that appears meanwhile: such a folder is given with an error.
func Walk(root string, look fs.WalkDirFunc) error {
	fi, err := os.Lstat(root)
	if err != nil {
		err = look(root, nil, err)
	} else {
		err = walk(root, fs.FileInfoToDirEntry(fi), look)
	}
	if err == fs.SkipDir || err == fs.SkipAll { //nolint:errorlint // as filepath.WalkDir has it
		return nil
	}
	return err
}

func walk(path string, e fs.DirEntry, look fs.WalkDirFunc) error {
	if err := look(path, e, nil); err != nil || !e.IsDir() {
		if err == fs.SkipDir && e.IsDir() { //nolint:errorlint // as filepath.WalkDir has it
			return nil
		}
		return err
	}
	list, err := ReadDir(path)
	if err != nil {
		if err = look(path, e, err); err != nil {
			if err == fs.SkipDir { //nolint:errorlint // as filepath.WalkDir has it
				return nil
			}
			return err
		}
	}
	for _, next := range list {
		if err := walk(filepath.Join(path, next.Name()), next, look); err != nil {
			if err == fs.SkipDir { //nolint:errorlint // as filepath.WalkDir has it
				break
			}
			return err
		}
	}
	return nil
}
