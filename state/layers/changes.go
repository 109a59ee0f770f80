package layers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Op is what happened to a path.
type Op string

// The operations.
const (
	Added    Op = "added"
	Modified Op = "modified"
	Deleted  Op = "deleted"
	Renamed  Op = "renamed"
	Mode     Op = "mode"
)

// Change is one difference between the base and the stack.
type Change struct {
	Path string `json:"path"`
	Op   Op     `json:"change"`
	From string `json:"from,omitempty"` // of a rename
	Old  Node   `json:"old,omitzero"`   // in the base, at From of a rename
	New  Node   `json:"new,omitzero"`   // in the stack
	// Implied marks a folder that comes or goes with the files in it, which a
	// listing leaves out.
	Implied bool `json:"implied,omitempty"`
	// Copied marks a file that the stack took from the base before it was changed:
	// where the base has none now, someone removed it there.
	Copied bool `json:"copied,omitempty"`

	layer int
}

const (
	// maxDepth bounds the folders in each other that are walked; each costs a
	// descriptor for every layer.
	maxDepth = 256
	// maxChanges bounds the changes that are kept in memory, about 300 bytes each.
	maxChanges = 2_000_000
)

// TooMany is the error for a stack that is too deep or too large to be compared.
type TooMany struct{ Path, What string }

// Error names the path at which the walk stopped, or how it begins.
func (t *TooMany) Error() string {
	at := t.Path
	if len(at) > maxShown {
		at = strings.ToValidUTF8(at[:maxShown], "") + "..."
	}
	return fmt.Sprintf("compare layers: %s: %s", at, t.What)
}

// maxShown bounds a path in a message, in bytes.
const maxShown = 200

// Stack is a base and the layers above it, the newest first.
type Stack struct {
	base   *Folder
	layers []*Folder
}

// Open opens a stack by absolute paths. The base may be absent (empty): then everything
// is added.
func Open(base string, layers []string) (*Stack, error) {
	s := &Stack{}
	if base != "" {
		f, err := OpenFolder(base)
		if err != nil {
			return nil, err
		}
		s.base = f
	}
	for _, name := range layers {
		f, err := OpenLayer(name)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.layers = append(s.layers, f)
	}
	return s, nil
}

// Close gives the descriptors back.
func (s *Stack) Close() error {
	var err error
	if s.base != nil {
		err = s.base.Close()
	}
	for _, l := range s.layers {
		err = errors.Join(err, l.Close())
	}
	return err
}

// Changes compares the stack with its base. Paths are relative, with slashes, sorted.
func (s *Stack) Changes(ctx context.Context) ([]Change, error) {
	w := &walk{ctx: ctx}
	var top []layerFolder
	for i, l := range s.layers {
		top = append(top, layerFolder{l, i})
	}
	if _, err := w.folder("", s.base, top, false, 0); err != nil {
		return nil, err
	}
	changes, err := s.renames(w.found)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return changes, nil
}

type layerFolder struct {
	*Folder
	layer int
}

type walk struct {
	ctx   context.Context
	found []Change
}

func (w *walk) add(c Change) error {
	if len(w.found) >= maxChanges {
		return &TooMany{c.Path, fmt.Sprintf("more than %d changes", maxChanges)}
	}
	w.found = append(w.found, c)
	return nil
}

// entry is what a name is in the stack.
type entry struct {
	node   Node          // the zero value where a whiteout removed it
	layer  int           // of the newest layer that has it
	from   *Folder       // the folder that has it there
	below  []layerFolder // of a folder: it in each layer that shows through
	hidden bool          // the base does not show through
}

// folder compares one folder. base may be nil. hidden says that nothing of the base
// shows through. It reports whether the stack has anything in it.
func (w *walk) folder(rel string, base *Folder, in []layerFolder, hidden bool, depth int) (some bool, err error) {
	if err := w.ctx.Err(); err != nil {
		return false, err
	}
	if depth > maxDepth {
		return false, &TooMany{rel, fmt.Sprintf("more than %d folders in each other", maxDepth)}
	}
	names := map[string]bool{}
	for _, l := range in {
		list, err := l.Names()
		if err != nil {
			return false, err
		}
		for _, n := range list {
			names[n] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		e, err := merge(in, name)
		if err != nil {
			return false, err
		}
		some = some || e.node.Exists()
		err = w.compare(path.Join(rel, name), name, base, e, hidden, depth)
		for _, l := range e.below {
			err = errors.Join(err, l.Close())
		}
		if err != nil {
			return false, err
		}
	}
	if !hidden || base == nil {
		return some, nil
	}
	list, err := base.Names()
	if err != nil {
		return false, err
	}
	slices.Sort(list)
	for _, name := range list {
		if !names[name] {
			if err := w.deleted(path.Join(rel, name), name, base, depth); err != nil {
				return false, err
			}
		}
	}
	return some, nil
}

// merge finds what a name is in the layers, the newest first.
func merge(in []layerFolder, name string) (entry, error) {
	var e entry
	for _, l := range in {
		node, removed, err := l.stat(name)
		if err != nil {
			return e, err
		}
		if removed || node.Exists() && e.node.Exists() && node.Kind != Dir {
			e.hidden = true
			return e, nil
		}
		if !node.Exists() {
			continue
		}
		if !e.node.Exists() {
			e.node, e.layer, e.from = node, l.layer, l.Folder
		}
		if node.Kind != Dir {
			return e, nil
		}
		sub, err := l.Folder.Folder(name)
		if err != nil {
			return e, err
		}
		e.below = append(e.below, layerFolder{sub, l.layer})
		if e.hidden, err = sub.opaque(); err != nil || e.hidden {
			return e, err
		}
	}
	return e, nil
}

func (w *walk) compare(rel, name string, base *Folder, e entry, hidden bool, depth int) error {
	var old Node
	if base != nil {
		var err error
		if old, err = base.Stat(name); err != nil {
			return err
		}
	}
	if !e.node.Exists() {
		if !old.Exists() {
			return nil
		}
		return w.deleted(rel, name, base, depth)
	}
	// A payload cannot open the project to other users of the machine.
	e.node.Mode = e.node.Mode&^0o002 | old.Mode&e.node.Mode&0o002
	if e.node.Kind == Dir {
		return w.compareFolder(rel, name, base, old, e, hidden, depth)
	}
	change := Change{Path: rel, Old: old, New: e.node, layer: e.layer, Op: Modified}
	switch {
	case old.Kind == Dir:
		if err := w.deleted(rel, name, base, depth); err != nil {
			return err
		}
		change.Op, change.Old = Added, Node{}
	case !old.Exists():
		change.Op, change.Copied = Added, e.from.copiedUp(name)
	case old.Kind == e.node.Kind && old.Size == e.node.Size && old.Target == e.node.Target:
		same, err := sameContent(old.Kind, name, base, e)
		if err != nil {
			return err
		}
		if same && old.Mode == e.node.Mode {
			return nil
		}
		if same {
			change.Op = Mode
		}
	}
	return w.add(change)
}

func (w *walk) compareFolder(rel, name string, base *Folder, old Node, e entry, hidden bool, depth int) error {
	var below *Folder
	// What a folder denies to its owner is no change: one that is applied has to be
	// filled, looked at and taken back by that owner.
	e.node.Mode |= 0o700
	if old.Kind == Dir {
		e.node.Mode = e.node.Mode&^0o700 | old.Mode&0o700
	}
	switch old.Kind {
	case Dir:
		f, err := base.Folder(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		below = f
		if old.Mode != e.node.Mode {
			if err := w.add(Change{Path: rel, Op: Mode, Old: old, New: e.node, layer: e.layer}); err != nil {
				return err
			}
		}
	case "":
	default:
		if err := w.add(Change{Path: rel, Op: Deleted, Old: old}); err != nil {
			return err
		}
	}
	at := len(w.found)
	if below == nil {
		if err := w.add(Change{Path: rel, Op: Added, New: e.node, layer: e.layer}); err != nil {
			return err
		}
	}
	some, err := w.folder(rel, below, e.below, hidden || e.hidden, depth+1)
	if err == nil && below == nil {
		w.found[at].Implied = some
	}
	return err
}

// deleted adds the removal of an entry of the base with all that is in it.
func (w *walk) deleted(rel, name string, base *Folder, depth int) error {
	if depth > maxDepth {
		return &TooMany{rel, fmt.Sprintf("more than %d folders in each other", maxDepth)}
	}
	old, err := base.Stat(name)
	if err != nil || !old.Exists() {
		return err
	}
	if old.Kind == Dir {
		sub, err := base.Folder(name)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Close() }()
		names, err := sub.Names()
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, n := range names {
			if err := w.deleted(path.Join(rel, n), n, sub, depth+1); err != nil {
				return err
			}
		}
		return w.add(Change{Path: rel, Op: Deleted, Old: old, Implied: len(names) > 0})
	}
	return w.add(Change{Path: rel, Op: Deleted, Old: old})
}

// Above opens the folder above what a change leads to in the stack, or above what was there.
func (s *Stack) Above(c Change, old bool) (*Folder, string, error) {
	if old {
		return Parent(s.base, cmp.Or(c.From, c.Path))
	}
	return Parent(s.layers[c.layer], c.Path)
}

// OpenNew opens what a file is in the stack.
func (s *Stack) OpenNew(c Change) (*os.File, error) { return openIn(s.Above(c, false)) }

// OpenOld opens what a file is in the base.
func (s *Stack) OpenOld(c Change) (*os.File, error) { return openIn(s.Above(c, true)) }

// Content tells apart what entries are in stacks: kind, mode, target and content.
func (s *Stack) Content(c Change) (string, error) {
	text := fmt.Sprintf("%s %o %q", c.New.Kind, c.New.Mode, c.New.Target)
	if c.New.Kind != File {
		return text, nil
	}
	sum, err := digest(c.New.Size, func() (io.ReadCloser, error) { return s.OpenNew(c) })
	return fmt.Sprintf("%s %x", text, sum), err
}

func openIn(dir *Folder, name string, err error) (f *os.File, _ error) {
	if err == nil {
		f, err = dir.Open(name)
		_ = dir.Close()
	}
	return f, err
}

// Chosen reports whether a change is one of those that paths choose, which are all without any.
func (c Change) Chosen(paths []string) bool {
	if len(paths) == 0 {
		return true
	}
	return slices.ContainsFunc(paths, func(p string) bool {
		for _, name := range []string{c.Path, c.From} {
			if name != "" && (p == "." || name == p || strings.HasPrefix(name, p+"/")) {
				return true
			}
		}
		// A folder that is made for what was chosen.
		return c.Implied && c.Op == Added && strings.HasPrefix(p, c.Path+"/")
	})
}
