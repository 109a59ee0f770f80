package kept

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"cloister/api"
	"cloister/internal/termsafe"
	"cloister/state/held"
	"cloister/state/layers"
	"cloister/state/patch"
	"cloister/state/store"
)

// The bounds of one answer to a page, which together stay below api.MaxBody.
const (
	// maxListed bounds the changes: a page shows no more.
	maxListed = 2000
	// maxNames bounds each list, and maxWire the text of one path, in bytes as JSON has them.
	maxNames, maxWire = 640 << 10, 1280 << 10
	// maxPatch bounds the text of one path, in bytes.
	maxPatch = 512 << 10
	// maxCounted bounds the paths whose lines are counted, maxRead what is read for that.
	maxCounted, maxRead = 200, 16 << 20
)

// listed is what a page shows of a diff without any text.
func (h *Hand) listed(w *store.Workspace, d *store.Diff) (out api.WorkspaceDiff, err error) {
	out.Digest = digest(d)
	all := Changes(d.Changes)
	n := fitting(len(all), func(i int) int { return wire(all[i].Path) + wire(all[i].From) })
	out.Changes, out.More = all[:n], len(all)-n
	out.Conflicts, out.Held = []api.Because{}, []api.Because{}
	for _, c := range d.Conflicts {
		out.Conflicts = append(out.Conflicts, api.Because{Path: c.Path, Why: c.Why})
	}
	needs, err := h.heldBack(w, d)
	for _, c := range needs {
		out.Held = append(out.Held, api.Because{Path: c.Path, Why: c.Why})
	}
	for _, list := range []*[]api.Because{&out.Conflicts, &out.Held} {
		all := *list
		n := fitting(len(all), func(i int) int { return wire(all[i].Path) + wire(all[i].Why) })
		if n < len(all) {
			*list, out.Unlisted = all[:n], true
		}
	}
	return out, err
}

// fitting is how many of a list have room in an answer.
func fitting(n int, size func(int) int) int {
	n = min(n, maxListed)
	room := maxNames
	for i := range n {
		if room -= size(i) + entry; room < 0 {
			return i
		}
	}
	return n
}

// entry is about what an entry takes besides its texts, in bytes.
const entry = 128

// wire is how many bytes a text takes in JSON, at most.
func wire(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case r < ' ' || r == 0x7f || r == utf8.RuneError || strings.ContainsRune("<>&\u2028\u2029", r):
			n += 6
		case r == '"' || r == '\\':
			n += 2
		default:
			n += utf8.RuneLen(r)
		}
	}
	return n
}

// countLines says in short how much changed in the first so many paths of a diff: of as many
// as are read soon.
func countLines(ctx context.Context, d *store.Diff, most int) ([]string, error) {
	out, room := []string{}, int64(maxRead)
	for _, c := range d.Changes {
		if c.Implied {
			continue
		}
		// What is too large to be shown is not read either.
		if room -= min(c.Old.Size, maxRead) + min(c.New.Size, maxRead); room < 0 || len(out) == min(most, maxCounted) {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		plus, minus, what, err := patch.Count(d.Stack, c)
		if err != nil {
			return nil, err
		}
		if what == "" {
			what = fmt.Sprintf("+%d -%d", plus, minus)
		}
		out = append(out, what)
	}
	return out, nil
}

// patchOf is the text of one path's change, with what a screen would obey escaped.
func patchOf(d *store.Diff, path string) (text string, cut bool, err error) {
	var out bytes.Buffer
	only := slices.DeleteFunc(slices.Clone(d.Changes), func(c layers.Change) bool { return c.Path != path })
	err = patch.Write(&bounded{&out}, d.Stack, only)
	if errors.Is(err, io.ErrShortWrite) {
		cut, err = true, nil
	}
	text = termsafe.Lines(out.String())
	room := maxWire
	for i, r := range text { // what is escaped is longer
		if room -= wire(string(r)); room < 0 {
			return text[:i], true, err
		}
	}
	return text, cut, err
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

// asShown opens what a page showed, of which paths are chosen, or all. It refuses where that
// is another by now, or more than was shown.
func (h *Hand) asShown(ctx context.Context, w *store.Workspace, verb string, in api.WorkspaceAct) (_ *store.Diff,
	err error) {
	d, err := h.Diff(ctx, w, in.Checkpoint, "", nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if digest(d) != in.Digest {
		return nil, &Refused{verb + ": what " + w.Name + " changed is not what was shown", "look at it again"}
	}
	all, err := h.listed(w, d)
	if err != nil {
		return nil, err
	}
	if len(in.Paths) == 0 {
		if all.More > 0 || all.Unlisted {
			return nil, &Refused{fmt.Sprintf("%s: %d paths are more than a page shows (%d)", verb,
				len(all.Changes)+all.More, len(all.Changes)), "cloister diff " + w.Name + ", then cloister " + verb + " " + w.Name}
		}
		return d, nil
	}
	return d, choose(d, verb, in.Paths, all.Changes)
}

// choose leaves of a diff what paths choose, each of which was shown.
func choose(d *store.Diff, verb string, paths []string, shown []api.Change) error {
	for _, p := range paths {
		if !slices.ContainsFunc(shown, func(c api.Change) bool { return c.Path == p }) {
			return &Refused{verb + ": " + termsafe.Text(termsafe.Clip(p, 200)) + " is none of the paths that were shown",
				"cloister diff --name-only"}
		}
	}
	was := len(shown)
	d.Changes = slices.DeleteFunc(d.Changes, func(c layers.Change) bool { return !c.Chosen(paths) })
	chosen := map[string]bool{}
	for _, c := range d.Changes {
		chosen[c.Path], chosen[c.From] = true, true
	}
	kept := d.Conflicts[:0:0]
	for _, c := range d.Conflicts {
		if chosen[c.Path] {
			kept = append(kept, c)
		}
	}
	d.Conflicts = kept
	if n := len(Changes(d.Changes)); n > was {
		return &Refused{fmt.Sprintf("%s: these are %d paths, of which %d were shown", verb, n, was), "cloister diff"}
	}
	return nil
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
	d, err := h.asShown(ctx, w, "apply", in)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	Special(d)
	if len(in.Paths) > 0 && in.AutoRun {
		needs, err := h.heldBack(w, d)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(needs, func(c held.Change) bool { return !slices.Contains(in.Looked, c.Path) }); i >= 0 {
			return nil, &Refused{"apply: " + termsafe.Text(termsafe.Clip(needs[i].Path, 200)) + " needs a word of yours too: " +
				needs[i].Why, "cloister apply --auto-run " + w.Name}
		}
	}
	return h.Apply(ctx, w, d, nil, in.AutoRun)
}

// discardShown gives up chosen paths of what a page showed of now.
func (h *Hand) discardShown(ctx context.Context, w *store.Workspace, in api.WorkspaceAct) (_ []api.Change, err error) {
	if err := isNow(w, in); err != nil {
		return nil, err
	}
	d, err := h.asShown(ctx, w, "discard", in)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return h.Discard(ctx, w, d)
}

// isNow holds a discard to a workspace that is stopped, as it is now.
func isNow(w *store.Workspace, in api.WorkspaceAct) error {
	if in.Checkpoint != "" {
		return &Refused{"discard: a checkpoint is not given up by itself", "cloister restore goes back to it"}
	}
	running, err := w.IsRunning()
	if err == nil && running {
		err = &store.Running{Name: w.Name}
	}
	return err
}

// discardWhole gives a workspace up, as the page showed it, with its checkpoints. It unlocks it.
func (h *Hand) discardWhole(ctx context.Context, w *store.Workspace, in api.WorkspaceAct) (out api.WorkspaceActed,
	err error) {
	err = isNow(w, in)
	if err == nil {
		out.Said, err = h.stillShown(ctx, w, in.Digest)
	}
	if err != nil {
		return out, errors.Join(err, w.Close())
	}
	return out, h.DiscardAll(ctx, w)
}

// stillShown counts what a workspace changed, if that is what was shown.
func (h *Hand) stillShown(ctx context.Context, w *store.Workspace, was string) (files string, err error) {
	d, err := h.Diff(ctx, w, "", "", nil)
	if err != nil {
		return "", err
	}
	if digest(d) != was {
		err = &Refused{"discard: what " + w.Name + " changed is not what was shown", "look at it again"}
	}
	return Files(len(Changes(d.Changes))), errors.Join(err, d.Close())
}
