package kept

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"cloister/api"
	"cloister/internal/termsafe"
	"cloister/state/layers"
	"cloister/state/patch"
	"cloister/state/store"
)

const (
	// maxListed bounds the changes of one answer: a page shows no more.
	maxListed = 2000
	// maxPatch bounds the text of one path, in bytes.
	maxPatch = 512 << 10
	// maxForks bounds the workspaces that one fork makes.
	maxForks = 20
)

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

// Shown is what a workspace has otherwise than the project, for a page. path asks for that
// path's text too. The digest stands for all of it: see [Hand.Act].
func (h *Hand) Shown(ctx context.Context, name, at, since, path string) (out api.WorkspaceDiff, err error) {
	w, err := h.Store.TryLock(name)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var paths []string
	if path != "" {
		paths = []string{path}
	}
	d, err := h.Diff(ctx, w, at, since, paths)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	out.Digest = digest(d)
	if path != "" {
		out.Patch, out.Cut, err = patchOf(d, path)
	}
	out.Changes = Changes(d.Changes)
	if out.More = max(0, len(out.Changes)-maxListed); out.More > 0 {
		out.Changes = out.Changes[:maxListed]
	}
	out.Conflicts, out.Held = []api.Because{}, []api.Because{}
	for _, c := range d.Conflicts[:min(len(d.Conflicts), maxListed)] {
		out.Conflicts = append(out.Conflicts, api.Because{Path: c.Path, Why: c.Why})
	}
	needs, herr := HeldBack(w, d)
	for _, c := range needs[:min(len(needs), maxListed)] {
		out.Held = append(out.Held, api.Because{Path: c.Path, Why: c.Why})
	}
	return out, errors.Join(err, herr)
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

// patchOf is the text of one path's change, with what a screen would obey escaped.
func patchOf(d *store.Diff, path string) (text string, cut bool, err error) {
	var out bytes.Buffer
	only := slices.DeleteFunc(slices.Clone(d.Changes), func(c layers.Change) bool { return c.Path != path })
	err = patch.Write(&bounded{&out}, d.Stack, only)
	if errors.Is(err, io.ErrShortWrite) {
		cut, err = true, nil
	}
	return termsafe.Lines(out.String()), cut, err
}

// bounded takes the first maxPatch bytes.
type bounded struct{ to *bytes.Buffer }

// Write fails once the bound is reached.
func (b *bounded) Write(text []byte) (int, error) {
	room := maxPatch - b.to.Len()
	if len(text) > room {
		n, _ := b.to.Write(text[:room]) // a Buffer takes all
		return n, io.ErrShortWrite
	}
	return b.to.Write(text)
}

// Act does what a person asked for on a page. What an apply brings over must be what the page
// showed, by its digest, of a moment that the cloister cannot change any more: a checkpoint,
// or now where it is stopped. What an undo takes back must be the apply that was named.
func (h *Hand) Act(ctx context.Context, name, verb string, in api.WorkspaceAct) (out api.WorkspaceActed, err error) {
	w, err := h.Store.TryLock(name)
	if err != nil {
		return out, err
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

// applyShown applies what a page showed.
func (h *Hand) applyShown(ctx context.Context, w *store.Workspace, in api.WorkspaceAct) (_ []api.Change, err error) {
	if in.Checkpoint == "" {
		running, err := w.IsRunning()
		if err == nil && running {
			err = &Refused{"apply: " + w.Name + " is running and may change what was shown", "make a checkpoint and apply that"}
		}
		if err != nil {
			return nil, err
		}
	}
	d, err := h.Diff(ctx, w, in.Checkpoint, "", nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if digest(d) != in.Digest {
		return nil, &Refused{"apply: what " + w.Name + " changed is not what was shown", "look at it again"}
	}
	if n := len(Changes(d.Changes)); n > maxListed {
		return nil, &Refused{fmt.Sprintf("apply: %d paths are more than a page shows (%d)", n, maxListed),
			"cloister diff " + w.Name + ", then cloister apply " + w.Name}
	}
	Special(d)
	return h.Apply(ctx, w, d, nil, in.AutoRun)
}
