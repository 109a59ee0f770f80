package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"cloister/internal/ownfile"
)

// lockName is the lock of a workspace, and of the store.
const lockName = "lock"

// Busy is the error for a workspace that another command has locked.
type Busy struct{ Name string }

// Error names the cloister.
func (b *Busy) Error() string {
	return fmt.Sprintf("workspace %s: another command is at work on it", b.Name)
}

// Lock opens a workspace for a change, once no other command has it. Close gives it back.
func (s *Store) Lock(name string) (*Workspace, error) { return s.lock(name, 0) }

// TryLock is Lock for callers that must not wait: the error is Busy.
func (s *Store) TryLock(name string) (*Workspace, error) {
	w, err := s.lock(name, unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &Busy{name}
	}
	return w, err
}

func (s *Store) lock(name string, how int) (*Workspace, error) {
	if !validName(name) {
		return nil, fmt.Errorf("workspace %q: %w", name, ErrNotFound)
	}
	if _, err := os.Lstat(filepath.Join(s.folder(name), metaFile)); err != nil {
		return nil, fmt.Errorf("workspace %s: %w", name, ErrNotFound)
	}
	if err := s.sound(name); err != nil {
		return nil, err
	}
	shared, err := lockFile(filepath.Join(s.dir, lockName), unix.LOCK_SH|how)
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(s.folder(name), lockName), unix.LOCK_EX|how)
	if err != nil {
		return nil, errors.Join(err, shared.Close())
	}
	w := &Workspace{store: s, lock: lock, shared: shared}
	err = w.load(name)
	if err == nil {
		err = w.ownFolder()
	}
	if err == nil {
		err = w.soundLayers()
	}
	if err == nil {
		err = w.recover()
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func lockFile(name string, how int) (*os.File, error) {
	f, err := ownfile.Create(name)
	if err != nil {
		return nil, fmt.Errorf("lock workspace: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock workspace: %w", err), f.Close())
	}
	return f, nil
}
