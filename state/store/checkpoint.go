package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"cloister/internal/durable"
	"cloister/state/bases"
	"cloister/state/layers"
	"cloister/state/parts"
	"cloister/state/unchanged"
)

// Freeze holds the processes of a running cloister still until thaw is called.
type Freeze func() (thaw func() error, err error)

// Save makes a checkpoint. Of a stopped cloister the upper becomes a layer, and the next
// session gets a new one; that of a running one is copied while freeze holds it still.
func (w *Workspace) Save(ctx context.Context, message string, auto bool, freeze Freeze) (Checkpoint, error) {
	return w.keep(ctx, Checkpoint{Message: message, Auto: auto}, freeze, w.Conversation, false)
}

// SaveBeside makes an automatic checkpoint that leaves the upper what it is: that of a
// stopped cloister is copied too, so that no layer comes between it and the project.
// next is the conversation that goes on from there, "" where that is not known.
func (w *Workspace) SaveBeside(ctx context.Context, message, next string, freeze Freeze) (Checkpoint, error) {
	return w.keep(ctx, Checkpoint{Message: message, Auto: true}, freeze, cmp.Or(next, w.Conversation), true)
}

func (w *Workspace) keep(
	ctx context.Context, c Checkpoint, freeze Freeze, next string, beside bool,
) (_ Checkpoint, err error) {
	was := w.meta
	defer func() {
		if err != nil {
			w.meta = was
		}
	}()
	c.ID, c.Time, c.Parent, c.Conversation = newID(), time.Now().UTC(), w.Head, w.Conversation
	held, err := w.stopped()
	var running *Running
	if beside && err == nil {
		defer func() { _ = held.Close() }()
		freeze, err = nil, &Running{w.Name} // it is locked, and read as if it ran
	}
	switch {
	case errors.As(err, &running):
		c.Layers = append([]string{c.ID}, w.Layers...)
		if err := w.roomForCopy("checkpoint"); err != nil {
			was = w.meta // less what was thinned
			return Checkpoint{}, err
		}
		was = w.meta
		if err := w.copyUpper(ctx, c.ID, freeze); err != nil {
			return Checkpoint{}, errors.Join(err, layers.RemoveAll(w.store.fs, c.ID)) // a full disk has use for it
		}
	case err != nil:
		return Checkpoint{}, err
	default:
		defer func() { _ = held.Close() }()
		empty, err := w.store.in().Empty(w.Upper, parts.All()...)
		if err != nil {
			return Checkpoint{}, fmt.Errorf("checkpoint: %w", err)
		}
		if !empty {
			// One write of the description turns the upper into a layer: nothing moves.
			c.ID = w.Upper
			w.Layers, w.Upper = append([]string{c.ID}, w.Layers...), newID()
		}
		c.Layers = slices.Clone(w.Layers)
	}
	sums, err := w.seal(&c)
	if err != nil {
		return Checkpoint{}, err
	}
	if w.Remembers != nil {
		if c.Memory, err = w.Remembers(c.ID); err != nil {
			return Checkpoint{}, err
		}
	}
	if w.Sealed != nil {
		if err := w.Sealed(c); err != nil {
			return Checkpoint{}, err
		}
	}
	w.Sums, w.Checkpoints, w.Head, w.Conversation = sums, append(w.Checkpoints, c), c.ID, next
	w.thin(c.Time)
	return c, w.save()
}

// seal describes a checkpoint: the digest of its layers, and what it added. It gives the
// digests of all layers that are known now.
func (w *Workspace) seal(c *Checkpoint) (sums map[string]string, err error) {
	if sums = maps.Clone(w.Sums); sums == nil {
		sums = map[string]string{}
	}
	for _, id := range c.Layers {
		if sums[id] != "" && id != c.ID {
			continue
		}
		sum, err := w.store.in().Sum(id)
		if err != nil {
			return nil, err
		}
		if sums[id] = sum.Digest; id == c.ID {
			c.Bytes = sum.Bytes
		}
	}
	c.Digest = parts.DigestOf(c.Layers, sums)
	return sums, nil
}

// Restore makes the workspace what it was at a checkpoint. What it is now is kept as a
// checkpoint of its own.
func (w *Workspace) Restore(ctx context.Context, id string) (before Checkpoint, err error) {
	c, err := w.Checkpoint(id)
	if err != nil {
		return Checkpoint{}, err
	}
	held, err := w.stopped()
	if err != nil {
		return Checkpoint{}, err
	}
	if err := held.Close(); err != nil {
		return Checkpoint{}, err
	}
	if err := w.verify(c); err != nil {
		return Checkpoint{}, err
	}
	if before, err = w.Save(ctx, "before restore "+c.ID, true, nil); err != nil {
		return before, err
	}
	w.Layers, w.Head, w.Conversation = slices.Clone(c.Layers), c.ID, c.Conversation
	return before, w.save()
}

// verify compares a checkpoint's layers with what was noted, and recorded, when they
// were made.
func (w *Workspace) verify(c Checkpoint) error {
	sums := map[string]string{}
	for _, id := range c.Layers {
		sum, err := w.store.in().Sum(id)
		if err != nil {
			return fmt.Errorf("checkpoint %s: layer %s: %w", c.ID, id, err)
		}
		if known := w.Sums[id]; known != "" && known != sum.Digest {
			return fmt.Errorf("checkpoint %s: its layer %s is not as it was made", c.ID, id)
		}
		sums[id] = sum.Digest
	}
	digest := parts.DigestOf(c.Layers, sums)
	if c.Digest == "" {
		return nil // made by version 1
	}
	if digest != c.Digest {
		return fmt.Errorf("checkpoint %s: its layers are not as they were made", c.ID)
	}
	if w.Known == nil {
		return nil
	}
	recorded, err := w.Known(c)
	if err != nil {
		return fmt.Errorf("checkpoint %s: look it up in the record: %w", c.ID, err)
	}
	if recorded != "" && recorded != digest {
		return fmt.Errorf("checkpoint %s: it is not what the record says was made", c.ID)
	}
	return nil
}

const forksAtOnce = 16

// Fork makes new workspaces of a checkpoint, or of what this one is now.
func (w *Workspace) Fork(ctx context.Context, id string, names []string, freeze Freeze) (Checkpoint, error) {
	var c Checkpoint
	var err error
	if id == "" {
		c, err = w.Save(ctx, "fork", true, freeze)
	} else if c, err = w.Checkpoint(id); err == nil {
		err = w.verify(c)
	}
	if err != nil {
		return c, err
	}
	// Each waits for the disk, which takes their names and descriptions together.
	var group errgroup.Group
	group.SetLimit(forksAtOnce)
	for _, name := range names {
		group.Go(func() error { return w.forkOne(c, name) })
	}
	return c, group.Wait()
}

// Borrow makes a workspace of that name with the files of this one, or of a checkpoint,
// for a look that may write; whoever takes it discards it. The layers of a stopped
// workspace are not stacked for it: w stays locked until then.
func (w *Workspace) Borrow(ctx context.Context, id, name string, freeze Freeze) error {
	if id != "" {
		_, err := w.Fork(ctx, id, []string{name}, freeze)
		return err
	}
	c := Checkpoint{ID: newID(), Time: time.Now().UTC(), Layers: append([]string{w.Upper}, w.Layers...),
		Conversation: w.Conversation}
	running, err := w.IsRunning()
	if err == nil && running {
		c.Layers[0] = c.ID
		if err = w.roomForCopy("compare"); err == nil {
			err = w.copyUpper(ctx, c.ID, freeze)
		}
	}
	if err == nil {
		err = w.store.in().Make(w.Upper)
	}
	if err != nil {
		return err
	}
	return w.forkOne(c, name)
}

func (w *Workspace) forkOne(c Checkpoint, name string) error {
	s := w.store
	if !validName(name) {
		return fmt.Errorf("fork %q: not a name", name)
	}
	if err := os.Mkdir(s.folder(name), 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("fork %s: there is a workspace of that name", name)
		}
		return fmt.Errorf("fork: %w", err)
	}
	m := w.meta
	m.Name, m.Created, m.Upper = name, time.Now().UTC(), newID()
	m.Parent, m.Head, m.Layers = w.Name+"@"+c.ID, c.ID, slices.Clone(c.Layers)
	m.Conversation = c.Conversation
	m.Checkpoints = []Checkpoint{c}
	m.Checkpoints[0].Parent, m.Checkpoints[0].Auto, m.Checkpoints[0].Memory = "", true, ""
	f := &Workspace{meta: m, store: s}
	if err := f.save(); err != nil {
		return err
	}
	// A fork that is interrupted here can merge less, and is whole otherwise.
	kept, err := bases.Open(w.bases())
	if err == nil {
		err = kept.Link(f.bases())
	}
	if err != nil {
		return fmt.Errorf("fork %s: %w", name, err)
	}
	return nil
}

// Forget is Remove for a workspace that may be gone already.
func (s *Store) Forget(name string) error {
	if err := s.Remove(name); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// RemoveUnchanged removes a stopped workspace that holds no change, and notes it.
func (s *Store) RemoveUnchanged(name string) error {
	project, err := s.ProjectOf(name)
	if err == nil {
		err = s.Remove(name)
	}
	if err == nil {
		err = unchanged.Note(s.dir, name, project)
	}
	return err
}

// Unchanged reports whether a workspace of that name was removed because it held no change,
// or, without a name, whether one of that project was.
func (s *Store) Unchanged(name, project string) bool { return unchanged.Has(s.dir, name, project) }

// Remove discards a stopped workspace with its checkpoints and whatever no other one
// needs.
func (s *Store) Remove(name string) error {
	w, err := s.Lock(name)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	held, err := w.stopped()
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	// Without its description it is no workspace any more, wherever this is interrupted.
	if err := os.Remove(filepath.Join(s.folder(name), metaFile)); err != nil {
		return fmt.Errorf("discard: %w", err)
	}
	if err := durable.SyncDir(s.folder(name)); err != nil {
		return err
	}
	if err := os.RemoveAll(s.folder(name)); err != nil {
		return fmt.Errorf("discard: %w", err)
	}
	if err := w.shared.Close(); err != nil {
		return err
	}
	_, err = s.Collect(false)
	return err
}
