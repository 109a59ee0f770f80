package kept

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloister/api"
	"cloister/audit"
	"cloister/state/apply"
	"cloister/state/held"
	"cloister/state/layers"
	"cloister/state/store"
	"cloister/workspace/obeyed"
)

// Held is the error for changes that need a word of the person's own.
type Held struct {
	Name string
	List []held.Change
}

// Error counts them.
func (e *Held) Error() string {
	need := "need"
	if len(e.List) == 1 {
		need = "needs"
	}
	return fmt.Sprintf("apply %s: %s %s a word of yours; nothing was written", e.Name, Files(len(e.List)), need)
}

// InConflict is the error for an act that the project's own changes stand against.
type InConflict struct {
	Verb, Name string
	List       []apply.Conflict
}

// Error counts them.
func (e *InConflict) Error() string {
	return fmt.Sprintf("%s %s: %s in conflict; nothing was written", e.Verb, e.Name, Files(len(e.List)))
}

// Special takes out of a diff what no apply makes, and gives it: pipes, sockets, devices.
func Special(d *store.Diff) (out []layers.Change) {
	d.Changes = slices.DeleteFunc(d.Changes, func(c layers.Change) bool {
		if c.New.Kind != layers.Special && c.Old.Kind != layers.Special {
			return false
		}
		out = append(out, c)
		return true
	})
	return out
}

// heldBack are the changes of a diff that an apply brings over with a word alone.
func (h *Hand) heldBack(w *store.Workspace, d *store.Diff) ([]held.Change, error) {
	runs, err := obeyed.In(w.Project, h.Obeys)
	if err != nil {
		return nil, err
	}
	return held.Find(w.Project, d.Changes, runs)
}

// Apply brings the changes of a diff into the project, or none of them. merged are the paths
// of which [store.Workspace.Merge] made one text: of those a stopped workspace, which is kept
// as a checkpoint first, goes on with what was merged. autoRun is the word for what is held.
func (h *Hand) Apply(
	ctx context.Context, w *store.Workspace, d *store.Diff, merged []string, autoRun bool,
) ([]api.Change, error) {
	if err := h.used(w); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	needs, err := h.heldBack(w, d)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", w.Name, err)
	}
	if len(needs) > 0 && !autoRun {
		return nil, &Held{w.Name, needs}
	}
	if len(d.Conflicts) > 0 {
		return nil, &InConflict{"apply", w.Name, d.Conflicts}
	}
	changes := Changes(d.Changes)
	if len(merged) > 0 {
		if err := h.beforeMerge(ctx, w); err != nil {
			return nil, err
		}
	}
	if len(d.Changes) == 0 {
		return changes, nil
	}
	if err := h.record(ctx, w, audit.StateApply, First(changes), Files(len(changes))+h.beforeApply(ctx, w)); err != nil {
		return nil, err
	}
	if _, err := w.Apply(d, First(changes)); err != nil {
		return nil, h.failed(ctx, w, audit.StateApply, First(changes), inConflict("apply", w.Name, err))
	}
	if len(merged) == 0 { // a running cloister has nothing to take over
		return changes, nil
	}
	if err := w.Adopt(ctx, merged); err != nil {
		return nil, fmt.Errorf("apply %s: it is applied, but the cloister has its own of %s still: %w", w.Name,
			strings.Join(merged, ", "), err)
	}
	return changes, nil
}

// beforeMerge keeps what a stopped workspace has, of which the merge takes some.
func (h *Hand) beforeMerge(ctx context.Context, w *store.Workspace) error {
	running, err := w.IsRunning()
	if err == nil && running {
		err = &store.Running{Name: w.Name}
	}
	if err == nil {
		_, err = h.Watched(ctx, w).Save(ctx, "before a merge", true, nil)
	}
	return err
}

// inConflict gives an error of an apply the name of what it stands against.
func inConflict(verb, name string, err error) error {
	if list, ok := errors.AsType[apply.Conflicts](err); ok {
		return &InConflict{verb, name, list}
	}
	return err
}

// Undo takes the last applies back, and says which.
func (h *Hand) Undo(ctx context.Context, w *store.Workspace, steps int) (labels []string, err error) {
	if err := h.used(w); err != nil {
		return nil, fmt.Errorf("undo: %w", err)
	}
	if err := h.record(ctx, w, audit.StateUndo, fmt.Sprintf("%d applies", steps), ""); err != nil {
		return nil, err
	}
	undone, err := w.Undo(steps)
	for _, j := range undone {
		labels = append(labels, j.Label)
	}
	if err != nil {
		what := fmt.Sprintf("%d of %d applies", steps-len(undone), steps)
		err = h.failed(ctx, w, audit.StateUndo, what, inConflict("undo", w.Name, err))
	}
	return labels, err
}
