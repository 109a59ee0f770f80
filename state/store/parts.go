package store

import (
	"errors"
	"path/filepath"
	"slices"

	"cloister/state/layers"
	"cloister/state/parts"
)

// in is the folder of the layers.
func (s *Store) in() parts.Folder { return parts.Folder{Dir: s.fs, UID: s.uid, GID: s.gid} }

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

func (w *Workspace) mount() (m Mount, err error) {
	of := func(p parts.Part) Overlay {
		o := Overlay{Upper: filepath.Join(w.Upper, string(p)), Work: filepath.Join(w.Upper, p.Work())}
		for _, id := range w.Layers {
			there, lerr := layers.Exists(w.store.in().At(id, p))
			if err = errors.Join(err, lerr); there {
				o.Lower = append(o.Lower, filepath.Join(id, string(p)))
			}
		}
		return o
	}
	m = Mount{Store: w.store.fs, Project: of(parts.Project), Home: of(parts.Home), Git: of(parts.Repo)}
	return m, err
}

// Empty reports whether the workspace holds no change of the project or its repository
// and no named checkpoint; nor, for an agent, of its home, where its conversation is.
func (w *Workspace) Empty(agent bool) (bool, error) {
	if len(w.Layers) > 0 || slices.ContainsFunc(w.Checkpoints, func(c Checkpoint) bool { return !c.Auto }) {
		return false, nil
	}
	if agent {
		return w.store.in().Empty(w.Upper, parts.All()...)
	}
	return w.store.in().Empty(w.Upper, parts.Project, parts.Repo)
}

// Look looks through what the session has written since the newest layer.
func (u *Use) Look() (layers.Sum, error) { return u.store.in().Sum(u.upper) }

// Unsaved is what was written that the checkpoint which the workspace stands on does not
// have; nothing where it has all of it.
func (w *Workspace) Unsaved() (layers.Sum, error) {
	sum, err := w.store.in().Sum(w.Upper)
	if err != nil || w.Head == "" {
		return sum, err
	}
	c, err := w.Checkpoint(w.Head)
	if errors.Is(err, ErrNotFound) { // it was let go
		return sum, nil
	}
	if err != nil {
		return sum, err
	}
	beside := append([]string{c.ID}, w.Layers...) // a copy of the upper
	if slices.Equal(c.Layers, beside) && w.Sums[c.ID] == sum.Digest ||
		slices.Equal(c.Layers, w.Layers) && sum.Entries == 0 {
		return layers.Sum{}, nil
	}
	return sum, nil
}
