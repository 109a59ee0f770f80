package resolve

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ReadDir lists a folder by name, and fails where a link lies on the way.
func ReadDir(path string) ([]fs.DirEntry, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}

// ReadFile reads a regular file of at most so many bytes, and fails where a link lies
// on the way.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("read %s: more than %d bytes", path, most)
	}
	return text, err
}

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
