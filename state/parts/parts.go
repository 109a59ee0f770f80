// Package parts keeps layers that have a part for each folder which an overlay lies over:
// the project, the private home, and the repository that a linked worktree belongs to.
//
// It knows folders by the names of layers alone: which layers there are, and which workspaces need
// them, its caller knows.
//
// The call most readers want is [Folder.Copy].
package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/state/layers"
)

// Part is what of a layer lies over one folder.
type Part string

// The parts of a layer.
const (
	Project Part = "up"
	Home    Part = "home" // the private one
	Repo    Part = "git"  // of a linked worktree: the repository that it belongs to
)

// All are the parts of a layer.
func All() []Part { return []Part{Project, Home, Repo} }

// Work is the name of the folder in which the kernel works for a part. It lies beside it,
// on the same file system.
func (p Part) Work() string {
	if p == Project {
		return "work"
	}
	return string(p) + "-work"
}

// Folder is a folder of layers, all of one owner.
type Folder struct {
	Dir string
	// UID and GID own what is made; -1 leaves it to this process's user.
	UID, GID int
}

// At is where a part of a layer lies.
func (f Folder) At(id string, p Part) string { return filepath.Join(f.Dir, id, string(p)) }

// Make makes the folders that a session writes to.
func (f Folder) Make(id string) error {
	if err := f.makeOne(f.Dir); err != nil {
		return err
	}
	spread(f.Dir)
	at := filepath.Join(f.Dir, id)
	dirs := []string{at}
	for _, p := range All() {
		dirs = append(dirs, filepath.Join(at, string(p)), filepath.Join(at, p.Work()))
	}
	for _, dir := range dirs {
		if err := f.makeOne(dir); err != nil {
			return err
		}
	}
	return nil
}

func (f Folder) makeOne(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil && f.UID >= 0 {
		err = os.Lchown(dir, f.UID, f.GID)
	}
	if err != nil {
		return fmt.Errorf("make workspace: %w", err)
	}
	return nil
}

// Copy makes a layer of what is in another. Whoever writes to that one is held still while
// it is read, and goes on while the new one is written.
func (f Folder) Copy(ctx context.Context, from, to string, hold func() (thaw func() error, err error)) error {
	if err := f.Make(to); err != nil {
		return err
	}
	thaw, err := hold()
	if err != nil {
		return err
	}
	list, err := f.take(ctx, from, to)
	if err := errors.Join(err, thaw()); err != nil {
		return err
	}
	for _, t := range list {
		if err := t.Write(ctx); err != nil {
			return err
		}
	}
	return nil
}

// take reads all parts of a layer.
func (f Folder) take(ctx context.Context, from, to string) (out []*layers.Taken, err error) {
	for _, p := range All() {
		at := f.At(from, p)
		there, err := layers.Exists(at)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		t, err := layers.Take(ctx, at, f.At(to, p))
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// Empty reports whether some parts of a layer hold nothing.
func (f Folder) Empty(id string, of ...Part) (bool, error) {
	for _, p := range of {
		entries, err := os.ReadDir(f.At(id, p))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, fs.ErrPermission) {
			return false, nil // a payload closed it: that is a change
		}
		if err != nil || len(entries) > 0 {
			return false, err
		}
	}
	return true, nil
}

// Sum looks through all parts of a layer.
func (f Folder) Sum(id string) (all layers.Sum, err error) {
	h := sha256.New()
	for _, p := range All() {
		if p != Project {
			there, err := layers.Exists(f.At(id, p))
			if err != nil {
				return layers.Sum{}, err
			}
			if !there {
				continue
			}
		}
		one, err := layers.Summary(f.At(id, p))
		if err != nil {
			return layers.Sum{}, err
		}
		fmt.Fprintf(h, "%s %s\n", p, one.Digest)
		all.Bytes, all.Entries = all.Bytes+one.Bytes, all.Entries+one.Entries
	}
	all.Digest = hex.EncodeToString(h.Sum(nil))
	return all, nil
}

// DigestOf is the digest of a list of layers, whose own digests sums has.
func DigestOf(list []string, sums map[string]string) string {
	h := sha256.New()
	for _, id := range list {
		fmt.Fprintf(h, "%s %s\n", id, sums[id])
	}
	return hex.EncodeToString(h.Sum(nil))
}
