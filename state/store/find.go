package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"cloister/state/layers"
)

// Has reports whether there is a workspace of that name.
func (s *Store) Has(name string) bool {
	if !validName(name) {
		return false
	}
	_, err := os.Lstat(filepath.Join(s.folder(name), metaFile))
	return err == nil
}

// ProjectOf is the project of a workspace.
func (s *Store) ProjectOf(name string) (string, error) {
	w := &Workspace{store: s}
	if err := w.load(name); err != nil {
		return "", err
	}
	return w.Project, nil
}

// OnlySince takes out of a diff what a checkpoint has alike.
func (w *Workspace) OnlySince(ctx context.Context, checkpoint string, d *Diff) (err error) {
	stack, err := w.Stack(checkpoint)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	then, err := stack.Changes(ctx)
	if err != nil {
		return err
	}
	was := map[string]layers.Change{}
	for _, c := range then {
		was[c.Path] = c
	}
	var out []layers.Change
	for _, c := range d.Changes {
		before, ok := was[c.Path]
		if ok {
			if ok, err = d.Stack.SameNew(c, stack, before); err != nil {
				return err
			}
		}
		if !ok {
			out = append(out, c)
		}
	}
	d.Changes = out
	return nil
}
