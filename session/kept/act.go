package kept

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"cloister/api"
	"cloister/internal/termsafe"
	"cloister/state/store"
)

// maxForks bounds the workspaces that one fork makes.
const maxForks = 20

// Refused is the error for an act that is not done as things are, with the way on.
type Refused struct{ Why, Hint string }

// Error says why.
func (r *Refused) Error() string { return r.Why }

// Hints say what to do instead.
func (r *Refused) Hints() []string {
	if r.Hint == "" {
		return nil
	}
	return []string{r.Hint}
}

// A Look says what of a workspace a page shows.
type Look struct {
	At, Since string // checkpoints; "" for now, and for the project
	Path      string // whose text is asked for too
	Lines     bool   // count lines as well
}

// Shown is what a workspace has otherwise than the project, for a page. The digest stands for
// all of it: see [Hand.Act].
func (h *Hand) Shown(ctx context.Context, name string, look Look) (out api.WorkspaceDiff, err error) {
	w, err := h.Store.TryLock(name)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var paths []string
	if look.Path != "" {
		paths = []string{look.Path}
	}
	d, err := h.Diff(ctx, w, look.At, look.Since, paths)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if out, err = h.listed(w, d); err != nil {
		return out, err
	}
	if look.Path != "" {
		out.Patch, out.Cut, err = patchOf(d, look.Path)
	}
	if err == nil && look.Lines {
		out.Lines, err = countLines(ctx, d, len(out.Changes))
	}
	return out, err
}

// digest stands for changes as they are now: names, kinds, and when the kernel last saw each
// change, which no program can set.
func digest(d *store.Diff) string {
	sum := sha256.New()
	for _, c := range d.Changes {
		fmt.Fprintf(sum, "%q %q %q %+v %+v\n", c.Op, c.Path, c.From, c.Old, c.New)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Act does what a person asked for on a page. What an apply brings over must be what the page
// showed, by its digest, of a moment that the cloister cannot change any more: a checkpoint,
// or now where it is stopped; so must what a discard of now gives up. What an undo takes back
// must be the apply that was named.
func (h *Hand) Act(ctx context.Context, name, verb string, in api.WorkspaceAct) (out api.WorkspaceActed, err error) {
	w, err := h.Store.TryLock(name)
	if err != nil {
		return out, err
	}
	if verb == "discard" && len(in.Paths) == 0 {
		return h.discardWhole(ctx, w, in)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	switch verb {
	case "checkpoint":
		made, err := h.Save(ctx, w, in.Message, false)
		if err != nil {
			return out, err
		}
		line := Checkpoint(name, made)
		return api.WorkspaceActed{Said: name + "@" + made.ID, Checkpoint: &line}, nil
	case "restore":
		before, err := h.Restore(ctx, w, in.Checkpoint)
		if err != nil {
			return out, err
		}
		line := Checkpoint(name, before)
		return api.WorkspaceActed{Said: name + "@" + w.Head, Checkpoint: &line}, nil
	case "fork":
		return h.forkShown(ctx, w, in)
	case "apply":
		out.Changes, err = h.applyShown(ctx, w, in)
		out.Said = Files(len(out.Changes))
		return out, err
	case "discard":
		out.Changes, err = h.discardShown(ctx, w, in)
		out.Said = Files(len(out.Changes))
		return out, err
	case "undo":
		applied, err := w.Applied()
		if err == nil && (len(applied) == 0 || applied[0] != in.Message) {
			err = &Refused{"undo: the last apply is another one now", "look at it again"}
		}
		if err != nil {
			return out, err
		}
		_, err = h.Undo(ctx, w, 1)
		return api.WorkspaceActed{Said: in.Message}, err
	}
	return out, &Refused{"a workspace knows no " + termsafe.Clip(verb, 20), ""}
}

// forkShown makes forks, and starts the agent that worked here in each where it has a prompt.
func (h *Hand) forkShown(ctx context.Context, w *store.Workspace, in api.WorkspaceAct) (out api.WorkspaceActed,
	err error) {
	in.Count = max(in.Count, 1)
	switch {
	case in.Count > maxForks:
		return out, &Refused{fmt.Sprintf("fork: want 1 to %d", maxForks), ""}
	case in.Prompt != "" && w.Agent == "":
		return out, &Refused{"fork: no agent has worked in " + w.Name, "cloister fork --agent NAME says which"}
	}
	if out.Forks, err = h.Fork(ctx, w, in.Checkpoint, in.Count); err != nil {
		return out, err
	}
	var names []string
	for _, f := range out.Forks {
		names = append(names, f.Name)
		if in.Prompt == "" {
			continue
		}
		// One that does not start leaves the others to.
		if berr := h.Begin(ctx, w.Project, f.Name, w.Agent, Resumption(w, f, w.Agent, in.Prompt)); berr != nil {
			err = errors.Join(err, &Refused{fmt.Sprintf("fork: %s is made, but %s was not started: %v", f.Name, w.Agent, berr),
				"cloister start --name " + f.Name + " --workspace overlay"})
		}
	}
	out.Said = strings.Join(names, ", ")
	return out, err
}
