package stubs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/host/resolve"
)

// An empty file holds the name of a file without a tool that fails on it, but git
// shows it. While one is there, the repository's exclude file has lines that name it
// (gitignore(5)), in a block of each project's own.

// maxExclude bounds an exclude file that is written to.
const maxExclude = 1 << 20

// blockOf is what the names of a journal's project stand in.
func blockOf(journal string) (head, end string) {
	tag := strings.TrimSuffix(filepath.Base(journal), ".stubs")
	return "# cloister " + tag + ": held while a cloister lives here\n", "# cloister " + tag + " ends\n"
}

// hideable are the letters of names that mean themselves in an exclude file.
const hideable = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"

// Hide has git of the host pass over names of a working tree, relative to its top, and
// reports whether it does. It does not where the repository has no plain exclude file
// that this user may write to: the names are held by what git shows in no case then.
func (s *Set) Hide(exclude string, names []string) (bool, error) {
	var text strings.Builder
	head, end := blockOf(s.journal)
	text.WriteString(head)
	for _, name := range names {
		if strings.Trim(name, hideable) != "" {
			return false, nil
		}
		text.WriteString("/" + name + "\n")
	}
	text.WriteString(end)
	f, unlock, err := openExclude(exclude)
	if err != nil {
		return false, nil // none, or not this user's
	}
	defer unlock()
	defer f.Close()
	have, err := io.ReadAll(io.LimitReader(f, maxExclude+1))
	if err != nil || len(have) > maxExclude {
		return false, nil
	}
	if bytes.Contains(have, []byte(head)) {
		return bytes.Contains(have, []byte(text.String())), nil // another session's of the project
	}
	if len(have) > 0 && have[len(have)-1] != '\n' {
		return false, nil // the last line is the person's, and in the making
	}
	j, err := os.OpenFile(s.journal, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return false, fmt.Errorf("hide held names: %w", err)
	}
	_, err = j.WriteString("x " + strings.ReplaceAll(exclude, "\n", "\x00") + "\n")
	if err = errors.Join(err, j.Close()); err != nil {
		return false, fmt.Errorf("hide held names: %w", err)
	}
	if _, err := f.WriteString(text.String()); err != nil {
		return false, nil // a full disk: what was written goes with the block
	}
	return true, nil
}

// openExclude opens an exclude file for one writer at a time.
func openExclude(name string) (f *os.File, unlock func(), err error) {
	dir, err := openParent(filepath.Dir(name))
	if err != nil {
		return nil, nil, err
	}
	unlock = func() { unix.Close(dir) }
	if err := unix.Flock(dir, unix.LOCK_EX); err != nil {
		unlock()
		return nil, nil, err
	}
	fd, err := unix.Openat(dir, filepath.Base(name),
		unix.O_RDWR|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		unlock()
		return nil, nil, err
	}
	f = os.NewFile(uintptr(fd), name)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		unlock()
		return nil, nil, errors.Join(err, fs.ErrInvalid)
	}
	return f, unlock, nil
}

// unhide takes a project's block out of an exclude file again. It was written last, so
// that the file is cut off where it begins; behind it stands what a person added since.
func unhide(journal, exclude string) error {
	f, unlock, err := openExclude(exclude)
	if err != nil {
		return ignoring(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.EROFS, fs.ErrInvalid)
	}
	defer unlock()
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxExclude+1))
	if err != nil || len(text) > maxExclude {
		return err
	}
	head, end := blockOf(journal)
	from := bytes.Index(text, []byte(head))
	if from < 0 {
		return nil
	}
	rest := text[from+len(head):]
	if to := bytes.Index(rest, []byte(end)); to >= 0 {
		rest = rest[to+len(end):]
	} else {
		rest = nil // it was not written to its end
	}
	if err := f.Truncate(int64(from)); err != nil {
		return err
	}
	_, err = f.Write(rest)
	return err
}

// Recover removes what a machine that went down left of a project's sessions, whose
// journal went with it: the block names it. Only who is alone does it.
func (s *Set) Recover(exclude, root string) error {
	if !s.alone {
		return nil
	}
	f, unlock, err := openExclude(exclude)
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxExclude+1))
	f.Close()
	unlock()
	head, end := blockOf(s.journal)
	_, block, found := strings.Cut(string(text), head)
	if err != nil || !found {
		return nil
	}
	block, _, _ = strings.Cut(block, end)
	p, err := resolve.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("remove held names: %w", err)
	}
	defer p.Close()
	for line := range strings.Lines(block) {
		name := strings.TrimSuffix(strings.TrimPrefix(line, "/"), "\n")
		if info, err := p.Lstat(name); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			if err := p.Remove(name); err != nil {
				return fmt.Errorf("remove held names: %w", err)
			}
		}
	}
	return unhide(s.journal, exclude)
}
