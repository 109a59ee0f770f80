// Package kept does to an overlay workspace what a person asked for, by the command line or
// in the window: look, checkpoint, restore, fork, apply, undo.
//
// The promise: every act is recorded before it is done, and one that cannot be recorded is
// not done. A checkpoint is used only if its layers are what the record says was made. What
// programs of the host run or obey is applied only with a word for it.
//
// It keeps nothing itself (state/store does) and prints nothing: what stands against an act
// is an error that says all of it.
//
// Most readers want [Hand].
package kept

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloister/api"
	"cloister/audit"
	"cloister/internal/shellword"
	"cloister/state/apply"
	"cloister/state/layers"
	"cloister/state/store"
	"cloister/workspace"
	"cloister/workspace/obeyed"
)

// A Hand acts on the workspaces of one store.
type Hand struct {
	Store *store.Store
	// Audit is the folder of the record, where a checkpoint's digest is looked up.
	Audit string
	// Known fails for a project, by its main working tree, in which no cloister was used.
	Known func(main string) error
	// Record writes down an act before it is done.
	Record func(context.Context, api.StateRecord) error
	// Hold holds a running cloister still.
	Hold func(ctx context.Context, name string) (thaw func() error, err error)
	// Obeys is whose git runs in the projects.
	Obeys obeyed.Person
	// Begin starts an agent in a workspace, in the background; nil where that is the caller's.
	Begin func(ctx context.Context, project, name, agent string, args []string) error
}

// Watched has each checkpoint of a workspace recorded with its digest before it counts, and
// that record looked up before one is used.
func (h *Hand) Watched(ctx context.Context, w *store.Workspace) *store.Workspace {
	w.Sealed = func(c store.Checkpoint) error {
		return h.Record(ctx, api.StateRecord{
			Kind: audit.StateCheckpoint, Cloister: w.Name, Project: w.Project, Resource: c.ID, Reason: recorded(c),
			Digest: c.Digest,
		})
	}
	w.Known = func(c store.Checkpoint) (string, error) {
		// It was recorded just after the time that it has.
		for e, err := range audit.Back(h.Audit, audit.Filter{Kind: audit.StateCheckpoint, Since: c.Time}) {
			if err == nil && e.Resource == c.ID {
				return e.Digest, nil
			}
		}
		return "", nil
	}
	return w
}

// record writes down what is about to be done to a workspace.
func (h *Hand) record(ctx context.Context, w *store.Workspace, kind, resource, reason string) error {
	return h.Record(ctx, api.StateRecord{Kind: kind, Cloister: w.Name, Project: w.Project, Resource: resource,
		Reason: reason})
}

// failed records that a change was not made which the record says was begun.
func (h *Hand) failed(ctx context.Context, w *store.Workspace, kind, resource string, why error) error {
	r := api.StateRecord{Kind: kind, Cloister: w.Name, Project: w.Project, Resource: resource, Failed: true}
	r.Reason = why.Error()
	if err := h.Record(context.WithoutCancel(ctx), r); err != nil {
		return errors.Join(why, fmt.Errorf("record that it failed: %w", err))
	}
	return why
}

// Freezer holds a running cloister still.
func (h *Hand) Freezer(ctx context.Context, name string) store.Freeze {
	return func() (func() error, error) { return h.Hold(ctx, name) }
}

// Diff compares a workspace, or a checkpoint of it, with the project. What lies in .git is
// left out. since ("" for none) leaves out what that checkpoint has alike.
func (h *Hand) Diff(ctx context.Context, w *store.Workspace, at, since string, paths []string) (*store.Diff, error) {
	d, err := w.Diff(ctx, at, paths)
	if err != nil {
		return nil, err
	}
	d.Changes = slices.DeleteFunc(d.Changes, func(c layers.Change) bool {
		return inGit(c.Path) || inGit(c.From)
	})
	d.Conflicts = slices.DeleteFunc(slices.Clone(d.Conflicts), func(c apply.Conflict) bool { return inGit(c.Path) })
	if since != "" {
		if err := w.OnlySince(ctx, since, d); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// inGit reports whether a path lies in a repository's own folder: git brings commits over,
// and its files are not to be replaced one by one.
func inGit(rel string) bool {
	return slices.ContainsFunc(strings.Split(rel, "/"), func(part string) bool { return strings.EqualFold(part, ".git") })
}

// Save makes a checkpoint of what a workspace is now.
func (h *Hand) Save(ctx context.Context, w *store.Workspace, message string, auto bool) (store.Checkpoint, error) {
	return h.Watched(ctx, w).Save(ctx, message, auto, h.Freezer(ctx, w.Name))
}

// NoCheckpoint is the error for a workspace that has none yet.
type NoCheckpoint struct{ Name string }

// Error names the workspace.
func (n *NoCheckpoint) Error() string { return n.Name + " has no checkpoint" }

// Restore makes a stopped workspace what it was at a checkpoint, "" for the newest. What it
// is now is kept as the checkpoint that is given.
func (h *Hand) Restore(ctx context.Context, w *store.Workspace, id string) (before store.Checkpoint, err error) {
	if id == "" {
		if id = w.Head; id == "" {
			return before, &NoCheckpoint{w.Name}
		}
	}
	if _, err := w.Checkpoint(id); err != nil {
		return before, err
	}
	if err := h.record(ctx, w, audit.StateRestore, id, ""); err != nil {
		return before, err
	}
	return h.Watched(ctx, w).Restore(ctx, id)
}

// Fork makes new workspaces of what one is, or was at a checkpoint.
func (h *Hand) Fork(ctx context.Context, w *store.Workspace, id string, count int) ([]api.Fork, error) {
	if id != "" {
		if _, err := w.Checkpoint(id); err != nil {
			return nil, err
		}
	}
	names, err := h.FreeNames(w.Name, count)
	if err != nil {
		return nil, err
	}
	if err := h.record(ctx, w, audit.StateFork, strings.Join(names, ", "), id); err != nil {
		return nil, err
	}
	from, err := h.Watched(ctx, w).Fork(ctx, id, names, h.Freezer(ctx, w.Name))
	if err != nil {
		return nil, err
	}
	out := []api.Fork{}
	for _, n := range names {
		out = append(out, api.Fork{Name: n, Parent: w.Name, Checkpoint: from.ID})
	}
	return out, nil
}

// FreeNames are names that no workspace has: NAME-1, NAME-2 and so on.
func (h *Hand) FreeNames(base string, count int) ([]string, error) {
	var out []string
	for i := 1; len(out) < count; i++ {
		if i > 10_000 {
			return nil, errors.New("fork: every name is taken")
		}
		name := fmt.Sprintf("%s-%d", base[:min(len(base), 56)], i)
		if !h.Store.Has(name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// Unused is the error for a workspace of a folder in which no cloister was used: what
// describes the workspace, a backup or someone else wrote.
type Unused struct{ Name, Project string }

func (u *Unused) Error() string {
	return fmt.Sprintf("the workspace %s says that its project is %s, in which no cloister was used", u.Name, u.Project)
}

// Hints are the words of what to do.
func (u *Unused) Hints() []string {
	return []string{"if it is right, start one there first: cloister run -C " + shellword.Line(u.Project) + " -- true"}
}

// used holds the project of a workspace to those that are known.
func (h *Hand) used(w *store.Workspace) error {
	if h.Known(w.Project) == nil {
		return nil
	}
	p, err := workspace.Find(w.Project) // a worktree is known by its main one
	if err == nil && (string(p.Root) != w.Project || h.Known(string(p.Main)) != nil) {
		err = &Unused{w.Name, w.Project}
	}
	return err
}

// Discard gives changes of a stopped workspace up, and says which.
func (h *Hand) Discard(ctx context.Context, w *store.Workspace, d *store.Diff) ([]api.Change, error) {
	changes := Changes(d.Changes)
	if err := h.record(ctx, w, audit.StateRestore, First(changes), "discard"); err != nil {
		return nil, err
	}
	return changes, w.Discard(ctx, d)
}

// DiscardAll gives a stopped workspace up with its checkpoints. It unlocks it.
func (h *Hand) DiscardAll(ctx context.Context, w *store.Workspace) error {
	err := h.record(ctx, w, audit.StateRestore, "discard", "all changes and checkpoints are given up")
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return h.Store.Remove(w.Name)
}
