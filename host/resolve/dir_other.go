//go:build !linux

package resolve

import (
	"fmt"
	"io"
	"io/fs"
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

// ReadDirStat is ReadDir that also looks at those entries which are wanted; here nothing is
// spared by it.
func ReadDirStat(path string, _ func(fs.DirEntry) bool) ([]fs.DirEntry, error) { return ReadDir(path) }

// Lstat is what there is to know of an entry of a folder.
func Lstat(dir string, e fs.DirEntry) (Stat, error) { return lstat(dir + "/" + e.Name()) }

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
