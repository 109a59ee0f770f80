// Package compare sets side by side what overlay workspaces changed of one project.
//
// The promise: what a command writes that is run to compare them is given up, and none of
// the workspaces is another one afterwards. What stands against it is an error of the store.
//
// It shows nothing and starts nothing: the command line and the window do, each its own way.
package compare

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/session/kept"
	"cloister/state/layers"
	"cloister/state/patch"
	"cloister/state/store"
)

// lastLines is how much is kept of what a command printed.
const lastLines = 10

// A Side is one workspace, or a checkpoint of one.
type Side struct {
	Name    string       `json:"name"`
	Changes []api.Change `json:"changes"`
	Run     *api.TestRun `json:"run,omitempty"`

	cells map[string]string // what happened to a path, for the table
}

// Look tells what one changed. name is what it is called beside the others.
func Look(ctx context.Context, h *kept.Hand, w *store.Workspace, name, at string) (_ *Side, err error) {
	d, err := h.Diff(ctx, w, at, "", nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	side := &Side{Name: name, Changes: kept.Changes(d.Changes), cells: map[string]string{}}
	for _, c := range d.Changes {
		if c.Implied {
			continue
		}
		if side.cells[patch.Quote(c.Path)], err = cellOf(d.Stack, c); err != nil {
			return nil, err
		}
	}
	return side, nil
}

// cellOf says in short what happened to a path, and after a NUL what it is now.
func cellOf(stack *layers.Stack, c layers.Change) (string, error) {
	plus, minus, what, err := patch.Count(stack, c)
	if err != nil {
		return "", err
	}
	sum, err := stack.Content(c)
	if err != nil {
		return "", err
	}
	if what == "" {
		what = fmt.Sprintf("+%d -%d", plus, minus)
	}
	switch c.Op {
	case layers.Added, layers.Deleted, layers.Mode:
		what = string(c.Op) + " " + what
	case layers.Renamed:
		what = "renamed from " + patch.Quote(c.From)
	case layers.Modified:
	}
	return what + "\x00" + sum, nil
}

// Try has run run a command of a shell in a copy of a workspace, which is given up afterwards.
func Try(ctx context.Context, h *kept.Hand, w *store.Workspace, at, command string,
	run func(ctx context.Context, name string) (out []byte, status int, err error)) (_ *api.TestRun, err error) {
	names, err := h.FreeNames(w.Name+"-try", 1)
	if err != nil {
		return nil, err
	}
	if err := w.Borrow(ctx, at, names[0], h.Freezer(ctx, w.Name)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Store.Forget(names[0])) }()
	began := time.Now()
	out, status, err := run(ctx, names[0])
	if err != nil {
		return nil, err
	}
	return &api.TestRun{Command: command, Status: status, DurationMS: time.Since(began).Milliseconds(),
		Last: Last(out, lastLines)}, nil
}

// Last are the last lines of what a command printed.
func Last(out []byte, n int) []string {
	lines := []string{}
	for line := range bytes.Lines(out) {
		// What the trial itself leaves is given up: nothing to report.
		if text := strings.TrimRight(string(line), "\r\n"); !strings.HasPrefix(text, "hint: cloister diff ") &&
			!strings.HasPrefix(text, "cloister: no file of the project changed; what the agent knows is kept: ") &&
			!strings.HasSuffix(text, " changed in the overlay, not in the project") {
			lines = append(lines, text)
		}
	}
	return lines[max(0, len(lines)-n):]
}

// Rows has a row for each path, with a cell for each side.
func Rows(sides []*Side) []api.ComparedPath {
	paths := map[string]bool{}
	for _, s := range sides {
		for p := range s.cells {
			paths[p] = true
		}
	}
	rows := []api.ComparedPath{}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		rows = append(rows, api.ComparedPath{Path: p, Cells: alike(sides, p)})
	}
	return rows
}

// alike are the cells of a path, with a letter where several have made the same of it.
func alike(sides []*Side, path string) []string {
	count, letter := map[string]int{}, map[string]string{}
	for _, s := range sides {
		count[s.cells[path]]++
	}
	var out []string
	for _, s := range sides {
		cell := s.cells[path]
		what, _, _ := strings.Cut(cell, "\x00")
		if cell != "" && count[cell] > 1 {
			if letter[cell] == "" {
				letter[cell] = string(rune('a' + len(letter)%26))
			}
			what += " (" + letter[cell] + ")"
		}
		out = append(out, cmp.Or(what, "-"))
	}
	return out
}
