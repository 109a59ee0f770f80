// Package standin keeps the files that a box is shown in the place of programs about which a person is asked.
//
// The promise: such a file is empty until it is filled, so that nothing comes of executing it (ENOEXEC), and then
// has exactly the content of the digest that was said. It looks like a program all the while, since a shell looks
// first and would ask for nothing. What is inside sees it on a read-only mount, so that this process alone fills it.
// Set-id bits, capabilities and times are not the program's. What dead sessions left is swept.
//
// It asks no person. Most readers want [New] and [Fill].
package standin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/internal/realpath"
)

// Bounds of what one session is shown so, since it takes room on the host's disk.
const (
	MostBytes = 256 << 20 // of one program
	MostFiles = 1000
)

// The modes of a file, and of one that is just being filled, of which the kernel executes nothing.
const (
	whole  = 0o555
	inWork = 0o444
)

// A Set is that of one session.
type Set struct {
	dir   string // the host's; what is shown lies below it
	alive *os.File
	n     int
}

// folder is where sets lie in the folder of Cloister's own data.
func folder(data string) string { return filepath.Join(data, "programs") }

// New makes an empty set in the folder of Cloister's own data.
func New(data string) (*Set, error) {
	if err := os.MkdirAll(folder(data), 0o700); err != nil {
		return nil, fmt.Errorf("show programs: %w", err)
	}
	top, err := realpath.Of(folder(data))
	if err != nil {
		return nil, fmt.Errorf("show programs: %w", err)
	}
	if err := executes(top); err != nil {
		return nil, fmt.Errorf("show programs: %w", err)
	}
	making, err := locked(top, "lock", unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer making.Close()
	s := &Set{}
	if s.dir, err = os.MkdirTemp(top, "session-"); err == nil {
		err = os.Mkdir(s.Shown(), 0o755)
	}
	if err == nil {
		s.alive, err = locked(s.dir, "lock", unix.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("show programs: %w", err), s.Release())
	}
	return s, nil
}

// locked takes the lock of a folder, for as long as the file is open.
func locked(dir, name string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("show programs: %w", err)
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("show programs: lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// Shown is the folder that is shown inside.
func (s *Set) Shown() string { return filepath.Join(s.dir, "shown") }

// Add makes one more file, empty, and gives its name in the folder.
func (s *Set) Add() (string, error) {
	if s.n == MostFiles {
		return "", fmt.Errorf("a session is shown %d programs about which a person is asked, and no more", MostFiles)
	}
	name := strconv.Itoa(s.n)
	f, err := os.OpenFile(filepath.Join(s.Shown(), name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err == nil {
		err = errors.Join(f.Chmod(whole), f.Close())
	}
	if err != nil {
		return "", fmt.Errorf("show programs: %w", err)
	}
	s.n++
	return name, nil
}

// Release removes all of it.
func (s *Set) Release() error {
	if s == nil || s.dir == "" {
		return nil
	}
	err := os.RemoveAll(s.dir)
	if s.alive != nil {
		err = errors.Join(err, s.alive.Close())
	}
	s.dir, s.alive = "", nil
	return err
}

// Sweep removes the sets of sessions that are gone.
func Sweep(data string) error {
	top := folder(data)
	if _, err := os.Stat(top); err != nil {
		return nil // there never was one
	}
	making, err := locked(top, "lock", unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer making.Close()
	list, err := filepath.Glob(filepath.Join(top, "session-*"))
	if err != nil {
		return fmt.Errorf("sweep programs: %w", err)
	}
	var errs []error
	for _, dir := range list {
		alive, err := locked(dir, "lock", unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EACCES) {
			continue // it lives, or is another user's
		}
		if err == nil {
			err = errors.Join(os.RemoveAll(dir), alive.Close())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Filled reports whether a file has its program by now.
func Filled(file string) bool {
	fi, err := os.Lstat(file)
	return err == nil && fi.Mode().Perm() == whole && fi.Size() > 0
}

// Digest is that of a program, as much of it as may be shown.
func Digest(from *os.File) (string, error) { return copied(io.Discard, from) }

func copied(to io.Writer, from *os.File) (string, error) {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(from, MostBytes+1))
	if err == nil && n > MostBytes {
		err = fmt.Errorf("it has more than %d bytes", MostBytes)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), err
}

// Fill gives a file the content of a program, which must have the digest, and lets it be executed. A second time it
// must have been filled with the same.
func Fill(file string, from *os.File, digest string) error {
	one, err := locked(filepath.Dir(filepath.Dir(file)), "filling", unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer one.Close()
	if Filled(file) {
		return same(file, digest)
	}
	// Whoever is forked meanwhile has the file open for writing until it executes, and what is open so is not executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.Chmod(file, inWork|0o200); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	// A lease of whoever is inside would have this wait, as it would a truncation by name.
	to, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		fi, seen := os.Lstat(file)
		if seen == nil && fi.Size() == 0 { // what was left of a filling is not executed
			seen = os.Chmod(file, whole)
		}
		return errors.Join(fmt.Errorf("fill: %w", err), seen)
	}
	got, err := copied(to, from)
	if err == nil && got != digest {
		err = errors.New("it has changed since a person was asked")
	}
	if err != nil {
		if left := to.Truncate(0); left != nil {
			return errors.Join(fmt.Errorf("fill: %w", err), left, to.Close())
		}
	}
	if closed := to.Close(); closed != nil {
		return errors.Join(fmt.Errorf("fill: %w", closed), err)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("fill: %w", err), os.Chmod(file, whole))
	}
	if err := os.Chmod(file, whole); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return nil
}

func same(file, digest string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	defer f.Close()
	if got, err := Digest(f); err != nil || got != digest {
		return errors.Join(errors.New("fill: another content was allowed before"), err)
	}
	return nil
}
