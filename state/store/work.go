package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"cloister/state/apply"
	"cloister/state/bases"
	"cloister/state/layers"
	"cloister/state/restored"
)

// Diff is what a workspace changed, with what stands against applying it.
type Diff struct {
	Stack     *layers.Stack
	Changes   []layers.Change
	Conflicts []apply.Conflict

	content map[string]string // of files that an apply writes otherwise than the layers have them
}

// Close gives the descriptors back.
func (d *Diff) Close() error { return d.Stack.Close() }

// Diff compares the workspace, or a checkpoint of it, with the project. Paths choose
// what is below them; none choose all.
func (w *Workspace) Diff(ctx context.Context, checkpoint string, paths []string) (*Diff, error) {
	stack, err := w.Stack(checkpoint)
	if err != nil {
		return nil, err
	}
	list, err := stack.Changes(ctx)
	if err == nil {
		list, err = apply.Unmasked(stack, list)
	}
	if err != nil {
		return nil, errors.Join(err, stack.Close())
	}
	// In place: of a million changes each copy of the list takes 230 MB.
	d := &Diff{Stack: stack}
	d.Changes = slices.DeleteFunc(list, func(c layers.Change) bool { return !c.Chosen(paths) })
	for _, c := range d.Changes {
		if why := w.conflict(c); why != "" {
			d.Conflicts = append(d.Conflicts, apply.Conflict{Path: c.Path, Why: why})
		}
	}
	if err := w.keepBase(stack, d.Changes); err != nil {
		return nil, errors.Join(err, stack.Close())
	}
	return d, nil
}

// conflict tells what someone else did to a path of the project since the workspace
// began.
func (w *Workspace) conflict(c layers.Change) string {
	if c.Old.Exists() {
		if c.Old.Kind == layers.Dir && c.Op != layers.Mode || c.Old.Stamp.Ctime < w.Since {
			return ""
		}
		name := c.Path
		if c.From != "" {
			name = c.From
		}
		mine, ok := w.Written[name]
		if ok && mine == c.Old.Stamp {
			return ""
		}
		// What another workspace applied and took back is what it was before.
		for was := range w.broughtBack().Before(name, c.Old.Stamp, w.Since) {
			if ok && mine == was || was.Ctime < w.Since {
				return ""
			}
		}
		return "it was changed in the project meanwhile"
	}
	if c.Copied {
		return "it was removed in the project meanwhile"
	}
	return ""
}

// broughtBack reads once what undos brought back in the project.
func (w *Workspace) broughtBack() restored.Files {
	if w.back == nil {
		w.back = restored.Read(w.store.dir, w.Project)
	}
	return w.back
}

// Apply brings changes of this workspace into the project, or none of them. The error
// is apply.Conflicts where someone else changed the same.
func (w *Workspace) Apply(d *Diff, label string) (*apply.Journal, error) {
	if len(d.Conflicts) > 0 {
		return nil, apply.Conflicts(d.Conflicts)
	}
	steps, err := apply.Steps(d.Stack, d.Changes)
	if err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	for i, s := range steps {
		if text, ok := d.content[s.Path]; ok && s.Open != nil {
			steps[i].Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
		}
	}
	j, err := apply.Start(w.journals(), w.Project, label, steps)
	if err != nil {
		return nil, errors.Join(err, w.putBack(steps))
	}
	return j, w.wrote(j)
}

// putBack remembers what a change that was taken back put in its place again. That moves the
// change time on: it is no change of someone else's.
func (w *Workspace) putBack(steps []apply.Step) error {
	top, err := layers.OpenFolder(w.Project)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	moved := false
	for _, s := range steps {
		if !s.Old.Exists() || s.Old.Kind == layers.Dir || w.conflict(layers.Change{Path: s.Path, Old: s.Old}) != "" {
			continue
		}
		dir, name, err := layers.Parent(top, s.Path)
		if err != nil {
			continue // someone else removed its folder
		}
		now, err := dir.Stat(name)
		if err := errors.Join(err, dir.Close()); err != nil {
			return err
		}
		same := now.Kind == s.Old.Kind && now.Mode == s.Old.Mode && now.Target == s.Old.Target
		if same && now.Stamp != s.Old.Stamp && now.Stamp.SameContent(s.Old.Stamp) {
			w.written(s.Path, now.Stamp)
			moved = true
		}
	}
	if !moved {
		return nil
	}
	return w.save()
}

func (w *Workspace) written(path string, is layers.Stamp) {
	if w.Written == nil {
		w.Written = map[string]layers.Stamp{}
	}
	w.Written[path] = is
}

// Applied names the applies that can be taken back, the newest first.
func (w *Workspace) Applied() ([]string, error) {
	list, err := apply.List(w.journals(), w.Project)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, j := range slices.Backward(list) {
		undone, err := j.Undone()
		if err != nil {
			return nil, err
		}
		if j.Undoes == "" && !undone {
			out = append(out, j.Label)
		}
	}
	return out, nil
}

// Undo takes the last n applies back, the newest first.
func (w *Workspace) Undo(n int) ([]*apply.Journal, error) {
	list, err := apply.List(w.journals(), w.Project)
	if err != nil {
		return nil, err
	}
	var out []*apply.Journal
	for _, j := range slices.Backward(list) {
		if len(out) == n {
			break
		}
		undone, err := j.Undone()
		if err != nil {
			return out, err
		}
		if j.Undoes != "" || undone {
			continue
		}
		u, err := j.Undo(w.journals())
		if err != nil {
			return out, errors.Join(err, w.putBack(w.made(j)))
		}
		out = append(out, j)
		if err := w.wrote(u); err != nil {
			return out, err
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("undo: nothing of %s was applied: %w", w.Name, ErrNotFound)
	}
	return out, nil
}

// noteRestored tells the project's other workspaces what an undo brought back.
func (w *Workspace) noteRestored(u *apply.Journal) error {
	made, err := u.Made()
	if err != nil {
		return err
	}
	at, err := apply.Began(u.Undoes)
	if err != nil {
		return err
	}
	var files []restored.File
	for i, s := range u.Steps {
		if s.New.Exists() && s.New.Kind != layers.Dir {
			files = append(files, restored.File{Path: s.Path, Is: made[i].Stamp, Was: s.New.Stamp, At: at})
		}
	}
	return restored.Note(w.store.dir, w.Project, files)
}

// made are the steps that would take back what a journal made, as far as that is there.
func (w *Workspace) made(j *apply.Journal) (out []apply.Step) {
	for _, s := range j.Steps {
		if is, ok := w.Written[s.Path]; ok && s.New.Exists() {
			s.New.Mode &= 0o777
			s.New.Stamp = is
			out = append(out, apply.Step{Path: s.Path, Old: s.New})
		}
	}
	return out
}

// wrote remembers what a journal made in the project, so that it is not taken for
// someone else's change.
func (w *Workspace) wrote(j *apply.Journal) error {
	if j.Undoes != "" { // first: what fails here is made good by the next one to look at the journal
		if err := w.noteRestored(j); err != nil {
			return err
		}
	}
	top, err := layers.OpenFolder(w.Project)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	if err := w.forgetBases(j.Steps); err != nil {
		return err
	}
	w.Journal = j.ID
	for _, s := range j.Steps {
		delete(w.Written, s.Path)
		if !s.New.Exists() || s.New.Kind == layers.Dir {
			continue
		}
		dir, name, err := layers.Parent(top, s.Path)
		if err != nil {
			continue // changed again already: a conflict later, as it should be
		}
		node, err := dir.Stat(name)
		if err := errors.Join(err, dir.Close()); err != nil {
			return err
		}
		w.written(s.Path, node.Stamp)
	}
	return w.save()
}

// forgetBases forgets what files were of which the project has the change now.
func (w *Workspace) forgetBases(steps []apply.Step) error {
	kept, err := bases.Open(w.bases())
	if err != nil {
		return err
	}
	var paths []string
	for _, s := range steps {
		paths = append(paths, s.Path)
	}
	return kept.Drop(paths)
}

// settle drops from the upper what the project has alike by now, so that a new session
// sees the person's later changes of it. With layers below it would show theirs.
func (w *Workspace) settle() error {
	if len(w.Layers) > 0 || len(w.Written) == 0 {
		return nil
	}
	if there, err := layers.Exists(w.upper()); err != nil || !there {
		return err
	}
	return layers.Settle(w.upper(), w.Project)
}

// Discard takes changes out of a stopped workspace: the chosen ones, or all of them
// with the workspace where paths is empty.
func (w *Workspace) Discard(ctx context.Context, d *Diff) error {
	held, err := w.stopped()
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	if err := w.store.in().Make(w.Upper); err != nil {
		return err
	}
	folders := map[string]bool{}
	for _, c := range slices.Backward(d.Changes) {
		if c.Implied && c.Op == layers.Added {
			folders[c.Path] = true // it may hold what was not chosen
			continue
		}
		if err := w.reset(ctx, c); err != nil {
			return err
		}
	}
	if err := w.discardEmptied(ctx, folders); err != nil || len(w.Layers) > 0 {
		return err
	}
	return layers.Settle(w.upper(), w.Project)
}

func (w *Workspace) reset(ctx context.Context, c layers.Change) error {
	return layers.Reset(ctx, w.upper(), w.Project, len(w.Layers) > 0, c)
}

// discardEmptied removes those folders that hold nothing any more.
func (w *Workspace) discardEmptied(ctx context.Context, folders map[string]bool) error {
	for again := len(folders) > 0; again; {
		again = false
		d, err := w.Diff(ctx, "", nil)
		if err != nil {
			return err
		}
		for _, c := range d.Changes {
			if folders[c.Path] && c.Op == layers.Added && !c.Implied && err == nil {
				err, again = w.reset(ctx, c), true
			}
		}
		if err := errors.Join(err, d.Close()); err != nil {
			return err
		}
	}
	return nil
}
