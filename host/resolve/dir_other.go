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

// An Entry is a name of a folder with its kind.
type Entry struct {
	dir string
	fs.DirEntry
}

// Stat is what there is to know of it.
func (e *Entry) Stat() (Stat, error) { return lstat(e.dir + "/" + e.Name()) }

// Forget has nothing to forget here.
func (*Entry) Forget() {}

// List is ReadDir with what the folder was before; here nothing is spared by it.
func List(path string, _ func(*Entry) bool) (self Stat, entries []Entry, err error) {
	if self, err = lstat(path); err != nil {
		return self, nil, err
	}
	list, err := ReadDir(path)
	for _, e := range list {
		entries = append(entries, Entry{path, e})
	}
	return self, entries, err
}

// Look has nothing to spare here.
func Look(string, []Entry, func(*Entry) bool) error { return nil }

// KeepsTimes knows no file system here.
func KeepsTimes(string) bool { return false }

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
