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

// ChangedSince keeps of the changes those that a checkpoint does not have alike.
func (w *Workspace) ChangedSince(ctx context.Context, checkpoint string,
	list []layers.Change) ([]layers.Change, error) {
	stack, err := w.Stack(checkpoint)
	if err != nil {
		return nil, err
	}
	then, err := stack.Changes(ctx)
	if err := errors.Join(err, stack.Close()); err != nil {
		return nil, err
	}
	was := map[string]layers.Change{}
	for _, c := range then {
		was[c.Path] = c
	}
	var out []layers.Change
	for _, c := range list {
		before, ok := was[c.Path]
		same := ok && before.Op == c.Op && before.New.Kind == c.New.Kind && before.New.Mode == c.New.Mode &&
			before.New.Size == c.New.Size && before.New.Target == c.New.Target && before.New.Stamp.Mtime == c.New.Stamp.Mtime
		if !same {
			out = append(out, c)
		}
	}
	return out, nil
}
