// Package ownfile opens the files that Cloister keeps for itself, between two runs of it.
//
// The promise: what is opened is a regular file of this account's, or root's, by no link at the end
// of its path, and of a bounded size. A backup that was brought back, or another account, may
// have put a link, a pipe, a device or a file of terabytes in the place of one.
//
// It does not judge what a file says, nor where the folder that it lies in is: a person may
// lead that elsewhere by a link.
//
// Most readers want [Read], [Create] and [Folder].
package ownfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Strange says that something else lies where Cloister keeps a file or a folder of its own.
type Strange struct{ Path, Why string }

func (e *Strange) Error() string {
	return fmt.Sprintf("%s is not as Cloister made it: %s", e.Path, e.Why)
}

// Hints are the words of what to do.
func (e *Strange) Hints() []string {
	return []string{"see what put it there (a backup?), and move it away: " + e.Path}
}

// Open opens a file for reading.
func Open(path string) (*os.File, error) { return open(path, os.O_RDONLY, 0) }

// Create opens a file for reading and writing, and makes it where there is none.
func Create(path string) (*os.File, error) { return open(path, os.O_RDWR|os.O_CREATE, 0o600) }

// Read reads a file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	more := &Strange{path, fmt.Sprintf("it has more than %d bytes", most)}
	if info, err := f.Stat(); err != nil || info.Size() > most {
		return nil, cmp.Or(err, error(more))
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1)) // it may have grown since
	if err == nil && int64(len(text)) > most {
		err = more
	}
	return text, err
}

// Write makes a file anew, whatever lay there before, without waiting for a disk.
func Write(path string, text []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

func open(path string, how int, perm fs.FileMode) (*os.File, error) {
	// A pipe would wait for its other end.
	f, err := os.OpenFile(path, how|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if errors.Is(err, syscall.ELOOP) {
		return nil, &Strange{path, "it is a link"}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = mine(path, info, info.Mode().IsRegular())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Folder refuses what is no folder of this account's, or root's. One that is not there is
// fs.ErrNotExist.
func Folder(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return mine(path, info, info.IsDir())
}

// File is Folder for a file, which it does not open.
func File(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return mine(path, info, info.Mode().IsRegular())
}

func mine(path string, info fs.FileInfo, kind bool) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !kind:
		return &Strange{path, "it is a " + kindOf(info.Mode())}
	case ok && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return &Strange{path, fmt.Sprintf("it belongs to the account %d", st.Uid)}
	}
	return nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "link"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m.IsDir():
		return "folder"
	case m.IsRegular():
		return "file"
	}
	return "device or a socket"
}
