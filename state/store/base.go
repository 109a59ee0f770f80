package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"cloister/internal/durable"
	"cloister/state/apply"
	"cloister/state/bases"
	"cloister/state/layers"
	"cloister/state/merge"
)

// An overlay does not keep what its base said when a file was first written to. So the
// base of each changed text is copied aside when a change is seen first, as long as
// no one else changed the project's file: it is what a three-way merge needs.
const (
	maxBase      = 1 << 20 // bytes of a text that is kept for merging
	maxBaseFiles = 2000    // changed files of one workspace
	maxTogether  = 8 << 20 // bytes of texts that are kept by one write
)

func (w *Workspace) bases() string { return filepath.Join(w.store.folder(w.Name), baseFolder) }

// keepBase copies what the project says of changed files that are not in conflict.
func (w *Workspace) keepBase(stack *layers.Stack, list []layers.Change) error {
	var kept *bases.Kept
	texts, size := map[string]string{}, 0
	for _, c := range list {
		if c.Op != layers.Modified || !mergeable(c) || c.Old.Size > maxBase || w.conflict(c) != "" {
			continue
		}
		if kept == nil {
			var err error
			if kept, err = bases.Open(w.bases()); err != nil {
				return err
			}
		}
		if kept.Has(c.Path) || kept.Len()+len(texts) >= maxBaseFiles {
			continue
		}
		text, known, err := baseOf(stack, c)
		if err != nil {
			return fmt.Errorf("keep the base of %s: %w", c.Path, err)
		}
		if !known {
			continue
		}
		if size += len(text); size > maxTogether {
			if err := keepTexts(kept, texts); err != nil {
				return err
			}
			texts, size = map[string]string{}, len(text)
		}
		texts[c.Path] = text
	}
	if kept == nil {
		return nil
	}
	return keepTexts(kept, texts)
}

// keepTexts passes over a full disk: without a base there is a conflict where there could be
// a merge.
func keepTexts(kept *bases.Kept, texts map[string]string) error {
	err := kept.Keep(texts)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return nil
	}
	return err
}

func mergeable(c layers.Change) bool { return c.Old.Kind == layers.File && c.New.Kind == layers.File }

// baseOf reads what the project says of a changed file, unless it is no text or changed
// while it was read.
func baseOf(stack *layers.Stack, c layers.Change) (text string, known bool, err error) {
	f, err := stack.OpenOld(c)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = f.Close() }()
	text, err = textOf(f)
	if errors.Is(err, errNoText) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	// Whoever changed it while it was read made another change time.
	now, err := layers.StampOf(f)
	return text, err == nil && now == c.Old.Stamp, err
}

var errNoText = errors.New("it is no text, or too large")

// readText reads a text of at most maxBase bytes.
func readText(open func() (*os.File, error)) (string, error) {
	f, err := open()
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	return textOf(f)
}

func textOf(f *os.File) (string, error) {
	b, err := io.ReadAll(io.LimitReader(f, maxBase+1))
	if err == nil && (len(b) > maxBase || bytes.IndexByte(b, 0) >= 0) {
		err = errNoText
	}
	return string(b), err
}

// Merge merges what both sides changed, where both are text, the base is known and no
// line was changed by both: those conflicts go, and an apply writes what was merged. It
// gives the paths. Other conflicts stay, with the reason.
func (w *Workspace) Merge(d *Diff) (merged []string, err error) {
	var left []apply.Conflict
	for _, conflict := range d.Conflicts {
		i := slices.IndexFunc(d.Changes, func(c layers.Change) bool { return c.Path == conflict.Path })
		if i < 0 {
			left = append(left, conflict)
			continue
		}
		why, err := w.mergeOne(d, d.Changes[i])
		if err != nil {
			return nil, fmt.Errorf("merge %s: %w", conflict.Path, err)
		}
		if why != "" {
			left = append(left, apply.Conflict{Path: conflict.Path, Why: conflict.Why + "; " + why})
			continue
		}
		merged = append(merged, conflict.Path)
	}
	d.Conflicts = left
	return merged, nil
}

func (w *Workspace) mergeOne(d *Diff, c layers.Change) (why string, err error) {
	if c.Op != layers.Modified || !mergeable(c) {
		return "only changes of one file can be merged", nil
	}
	kept, err := bases.Open(w.bases())
	if err != nil {
		return "", err
	}
	base, known, err := kept.Text(c.Path)
	if err == nil && !known {
		return "what it was before both changes is not known", nil
	}
	var mine, theirs string
	if err == nil {
		mine, err = readText(func() (*os.File, error) { return d.Stack.OpenNew(c) })
	}
	if err == nil {
		theirs, err = readText(func() (*os.File, error) { return d.Stack.OpenOld(c) })
	}
	if errors.Is(err, errNoText) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	text, clashes, err := merge.ThreeWay(base, mine, theirs)
	if err != nil {
		return "", err
	}
	if len(clashes) > 0 {
		return fmt.Sprintf("both changed %v of what it was", clashes[0]), nil
	}
	d.Put(c.Path, text)
	return "", nil
}

// Put has an apply write this text to a changed file instead of what the layers have.
func (d *Diff) Put(path, text string) {
	if d.content == nil {
		d.content = map[string]string{}
	}
	d.content[path] = text
}

// Adopt takes over what the project has at paths where an apply merged, for a stopped
// workspace: what it has itself would undo the person's part. It is kept in a checkpoint.
func (w *Workspace) Adopt(ctx context.Context, paths []string) error {
	held, err := w.stopped()
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	if err := w.store.in().Make(w.Upper); err != nil {
		return err
	}
	for _, p := range paths {
		if err := layers.Reset(ctx, w.upper(), w.Project, len(w.Layers) > 0, layers.Change{Path: p}); err != nil {
			return err
		}
	}
	return durable.SyncDir(w.upper())
}
