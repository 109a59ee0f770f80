package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
	"cloister/state/parts"
	"cloister/state/restored"
)

// Garbage is what no workspace needs any more.
type Garbage struct {
	Layers int
	Bytes  int64 // that they take of the disk
	// Busy says that someone changes a workspace right now: nothing was looked at.
	Busy bool
}

// Collect removes layers that no workspace names, and what an interrupted discard left.
// dryRun only looks. While someone changes a workspace it does nothing.
func (s *Store) Collect(dryRun bool) (g Garbage, err error) {
	lock, err := lockFile(filepath.Join(s.dir, lockName), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return Garbage{Busy: true}, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return g, err
	}
	defer func() { _ = lock.Close() }()
	needed, projects, err := s.needed()
	if err != nil {
		return g, err
	}
	if !dryRun {
		if err := restored.Keep(s.dir, projects); err != nil {
			return g, err
		}
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return g, fmt.Errorf("remove layers: %w", err)
	}
	for _, e := range entries {
		at := filepath.Join(s.dir, e.Name())
		switch {
		case !e.IsDir():
		case strings.HasPrefix(e.Name(), "fs"):
			err = errors.Join(err, g.layers(at, needed, dryRun))
		case !dryRun:
			there, lerr := layers.Exists(filepath.Join(at, metaFile))
			if err = errors.Join(err, lerr); lerr == nil && !there {
				err = errors.Join(err, os.RemoveAll(at)) // a discard got no further
			}
		}
	}
	return g, err
}

// needed are the layers that workspaces name, and their projects.
func (s *Store) needed() (out map[string]bool, projects []string, err error) {
	names, err := s.Names()
	if err != nil {
		return nil, nil, err
	}
	out = map[string]bool{}
	for _, name := range names {
		w := &Workspace{store: s}
		err := s.sound(name)
		if err == nil {
			err = w.load(name)
		}
		if err != nil {
			return nil, nil, err // what cannot be read may need them
		}
		for _, id := range w.named() {
			out[id] = true
		}
		projects = append(projects, w.Project)
	}
	return out, projects, nil
}

// layers removes those of one owner that no one needs.
func (g *Garbage) layers(dir string, needed map[string]bool, dryRun bool) error {
	inside, err := os.ReadDir(dir)
	for _, l := range inside {
		if needed[l.Name()] {
			continue
		}
		// One that is too deep to be measured is removed all the same.
		size, uerr := parts.DiskUse(dir, l.Name())
		if !dryRun {
			uerr = layers.RemoveAll(dir, l.Name())
		}
		if uerr != nil {
			err = errors.Join(err, uerr)
			continue
		}
		g.Layers, g.Bytes = g.Layers+1, g.Bytes+size
	}
	return err
}
