package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/internal/freeze"
	"cloister/internal/ownfile"
	"cloister/state/layers"
)

// heldFile lies in a workspace's folder for as long as its cloister is held still, so that
// it goes on where the process that holds it is killed.
const heldFile = "held-still"

// copyUpper makes a layer of what a running cloister has written so far.
func (w *Workspace) copyUpper(ctx context.Context, id string, freeze Freeze) error {
	return w.store.in().Copy(ctx, w.Upper, id, func() (func() error, error) {
		if freeze == nil {
			return func() error { return nil }, nil
		}
		thaw, err := w.hold(freeze)
		if err != nil {
			err = fmt.Errorf("checkpoint: hold the cloister still: %w", err)
		}
		return thaw, err
	})
}

// hold holds a running cloister still, and notes it before.
func (w *Workspace) hold(still Freeze) (thaw func() error, err error) {
	note := filepath.Join(w.store.folder(w.Name), heldFile)
	if err := ownfile.Write(note, nil); err != nil {
		return nil, err
	}
	let, err := still()
	if err != nil {
		return nil, errors.Join(err, os.Remove(note))
	}
	return func() error {
		err := let()
		if err != nil && !errors.Is(err, freeze.ErrRan) {
			return err // the note stays, and the session tries again
		}
		return errors.Join(err, os.Remove(note))
	}, nil
}

// HeldStill reports whether someone holds the cloister still, or was killed meanwhile. Where
// that cannot be found out it may be, and GoOn tells why.
func (u *Use) HeldStill() bool {
	held, err := layers.Exists(filepath.Join(u.store.folder(u.Name), heldFile))
	return held || err != nil
}

// GoOn lets a cloister go on that someone held still who was killed. Whoever holds it
// still has the workspace locked, so that this waits for them.
func (w *Workspace) GoOn(still Freeze) error {
	err := os.Remove(filepath.Join(w.store.folder(w.Name), heldFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		var thaw func() error
		if thaw, err = w.hold(still); err == nil {
			err = thaw()
		}
	}
	if errors.Is(err, freeze.ErrRan) {
		return nil // it goes on, as it shall
	}
	if err != nil {
		return fmt.Errorf("let %s go on: %w", w.Name, err)
	}
	return nil
}
