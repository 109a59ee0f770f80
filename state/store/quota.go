package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"cloister/state/archive"
	"cloister/state/layers"
	"cloister/state/parts"
	"cloister/state/quota"
)

// room refuses where more bytes are over a quota, once automatic checkpoints are thinned:
// the oldest of all that count, those that no workspace stands on. w, which may be nil, is the
// workspace of this call, and locked.
func (s *Store) room(doing string, w *Workspace, project string, more int64) error {
	for _, bound := range s.Quota.Of(project) {
		t, autos, err := s.taken(w, bound.Project)
		if err != nil {
			return fmt.Errorf("%s: measure the workspaces: %w", doing, err)
		}
		for _, a := range autos {
			if t.Sum(bound.Project)+more <= bound.Most {
				break
			}
			if err := s.forgetOne(t, w, a); err != nil {
				return fmt.Errorf("%s: thin checkpoints: %w", doing, err)
			}
		}
		if takes := t.Sum(bound.Project) + more; takes > bound.Most {
			name, its := t.Largest(bound.Project)
			return &quota.Full{Doing: doing, Bound: bound, Takes: takes, Largest: name, Its: its}
		}
	}
	return nil
}

// automatic is a checkpoint that no person asked for.
type automatic struct {
	of string
	Checkpoint
}

// taken measures every layer that a workspace names, and lists the automatic checkpoints of
// a project, or of all, the oldest first.
func (s *Store) taken(w *Workspace, project string) (*quota.Taken, []automatic, error) {
	names, err := s.Names()
	if err != nil {
		return nil, nil, err
	}
	var autos []automatic
	t := &quota.Taken{Size: map[string]int64{}, Of: map[string]quota.Holder{}}
	for _, name := range names {
		of := &Workspace{store: s}
		if w != nil && w.Name == name {
			of = w
		} else if err := of.load(name); err != nil {
			return nil, nil, err
		}
		t.Of[name] = of.holder()
		for id := range t.Of[name].Layers {
			if _, known := t.Size[id]; known {
				continue
			}
			if t.Size[id], err = s.diskUse(name, id); err != nil {
				return nil, nil, err
			}
		}
		for _, c := range of.Checkpoints {
			if c.Auto && c.ID != of.Head && (project == "" || of.Project == project) {
				autos = append(autos, automatic{name, c})
			}
		}
	}
	slices.SortFunc(autos, func(a, b automatic) int {
		if n := a.Time.Compare(b.Time); n != 0 {
			return n
		}
		return strings.Compare(a.of+a.ID, b.of+b.ID)
	})
	return t, autos, nil
}

// diskUse is what one layer of a workspace takes, in whichever owner's folder it lies. One
// that is too deep to be measured is refused: it could take any room.
func (s *Store) diskUse(name, id string) (int64, error) {
	found, err := filepath.Glob(filepath.Join(s.dir, "fs*", id))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	n, err := parts.DiskUse(filepath.Dir(found[0]), id)
	if _, deep := errors.AsType[*layers.TooMany](err); deep {
		return 0, &quota.Unmeasured{Name: name, Why: err}
	}
	return n, err
}

func (m *meta) holder() quota.Holder {
	h := quota.Holder{Project: m.Project, Layers: map[string]bool{}}
	for _, id := range m.named() {
		h.Layers[id] = true
	}
	return h
}

// forgetOne takes one checkpoint out of a workspace, unless another command is at work on
// it. What it has of the disk goes once the lock is given back.
func (s *Store) forgetOne(t *quota.Taken, w *Workspace, a automatic) error {
	of := w
	if w == nil || w.Name != a.of {
		var err error
		of, err = s.TryLock(a.of)
		if _, busy := errors.AsType[*Busy](err); busy {
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = of.Close() }()
	}
	of.forget(map[string]bool{a.ID: true})
	t.Of[a.of] = of.holder()
	if w != nil {
		w.thinned = true
	}
	return of.save()
}

// roomForCopy refuses a copy of the upper that is over a quota.
func (w *Workspace) roomForCopy(doing string) error {
	if w.store.Quota == (quota.Bounds{}) {
		return nil
	}
	n, err := w.store.diskUse(w.Name, w.Upper)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return w.store.room(doing, w, w.Project, n)
}

// Room refuses so many bytes more where they are over a quota.
func (w *Workspace) Room(doing string, n int64) error { return w.store.room(doing, w, w.Project, n) }

// left is how many bytes an import into a project may bring.
func (s *Store) left(project string) (int64, error) {
	least := int64(archive.MaxBytes)
	for _, bound := range s.Quota.Of(project) {
		t, _, err := s.taken(nil, bound.Project)
		if err != nil {
			return 0, err
		}
		least = min(least, bound.Most-t.Sum(bound.Project))
	}
	return least, nil
}
