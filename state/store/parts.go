package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"cloister/state/layers"
)

// A layer has a part for each folder that an overlay lies over.
type part string

const (
	project part = "up"
	home    part = "home" // the private one
	repo    part = "git"  // of a linked worktree: the repository that it belongs to
)

func parts() []part { return []part{project, home, repo} }

func (s *Store) part(id string, p part) string { return filepath.Join(s.fs, id, string(p)) }

// Mount is what a driver lays over the project, the private home and the repository.
type Mount struct {
	Store string // the folder that all others lie in
	Project,
	Home,
	Git Overlay
}

// Overlay is one of them: folders relative to the Mount's Store.
type Overlay struct {
	Upper string
	Work  string
	Lower []string // the newest first
}

func (w *Workspace) mount() Mount {
	of := func(p part) Overlay {
		// The kernel's work folder lies beside the upper, on the same file system.
		o := Overlay{Upper: filepath.Join(w.Upper, string(p)), Work: filepath.Join(w.Upper, workOf(p))}
		for _, id := range w.Layers {
			if exists(w.store.part(id, p)) {
				o.Lower = append(o.Lower, filepath.Join(id, string(p)))
			}
		}
		return o
	}
	return Mount{Store: w.store.fs, Project: of(project), Home: of(home), Git: of(repo)}
}

func workOf(p part) string {
	if p == project {
		return "work"
	}
	return string(p) + "-work"
}

// makeUpper makes the folders that a session writes to.
func (s *Store) makeUpper(id string) error {
	at := filepath.Join(s.fs, id)
	dirs := []string{s.fs, at}
	for _, p := range parts() {
		dirs = append(dirs, filepath.Join(at, string(p)), filepath.Join(at, workOf(p)))
	}
	for _, dir := range dirs {
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil && s.uid >= 0 {
			err = os.Lchown(dir, s.uid, s.gid)
		}
		if err != nil {
			return fmt.Errorf("make workspace: %w", err)
		}
	}
	return nil
}

// copyUpper makes a layer of what a running cloister has written so far.
func (w *Workspace) copyUpper(ctx context.Context, id string, freeze Freeze) (err error) {
	if err := w.store.makeUpper(id); err != nil {
		return err
	}
	if freeze != nil {
		thaw, herr := w.hold(freeze)
		if herr != nil {
			return fmt.Errorf("checkpoint: hold the cloister still: %w", herr)
		}
		defer func() { err = errors.Join(err, thaw()) }()
	}
	for _, p := range parts() {
		from := w.store.part(w.Upper, p)
		if !exists(from) {
			continue
		}
		if err := layers.Copy(ctx, from, w.store.part(id, p)); err != nil {
			return err
		}
	}
	return nil
}

// upperIsEmpty reports whether nothing was written since the newest layer.
func (w *Workspace) upperIsEmpty(of ...part) (bool, error) {
	for _, p := range of {
		entries, err := os.ReadDir(w.store.part(w.Upper, p))
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

// Empty reports whether the workspace holds no change of the project or its repository
// and no named checkpoint; nor, for an agent, of its home, where its conversation is.
func (w *Workspace) Empty(agent bool) (bool, error) {
	if len(w.Layers) > 0 || slices.ContainsFunc(w.Checkpoints, func(c Checkpoint) bool { return !c.Auto }) {
		return false, nil
	}
	if agent {
		return w.upperIsEmpty(parts()...)
	}
	return w.upperIsEmpty(project, repo)
}

// sum looks through all parts of a layer.
func (s *Store) sum(id string) (all layers.Sum, err error) {
	h := sha256.New()
	for _, p := range parts() {
		if p != project && !exists(s.part(id, p)) {
			continue
		}
		one, err := layers.Summary(s.part(id, p))
		if err != nil {
			return layers.Sum{}, err
		}
		fmt.Fprintf(h, "%s %s\n", p, one.Digest)
		all.Bytes, all.Entries = all.Bytes+one.Bytes, all.Entries+one.Entries
	}
	all.Digest = hex.EncodeToString(h.Sum(nil))
	return all, nil
}

// Look looks through what the session has written since the newest layer.
func (u *Use) Look() (layers.Sum, error) { return u.store.sum(u.upper) }
