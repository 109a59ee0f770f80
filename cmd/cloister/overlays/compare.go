package overlays

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
	"cloister/cmd/cloister/cli"
	"cloister/session/kept"
	"cloister/state/layers"
	"cloister/state/patch"
	"cloister/state/store"

	"github.com/spf13/cobra"
)

// compared is one side of a comparison as --json has it.
type compared struct {
	Name    string       `json:"name"`
	Changes []api.Change `json:"changes"`
	Run     *testRun     `json:"run,omitempty"`

	cells map[string]string // what happened to a path, for the table
}

// testRun is what a command came to in one of them.
type testRun struct {
	Command    string   `json:"command"`
	Status     int      `json:"status"`
	DurationMS int64    `json:"duration_ms"`
	Last       []string `json:"last"` // lines of its output
}

func (a *Commands) CompareCommand() *cobra.Command {
	var command string
	var asJSON bool
	c := &cobra.Command{
		Use:   "compare NAME[@CHECKPOINT]...",
		Short: "Show side by side what overlay cloisters changed",
		Long: `Show side by side what overlay cloisters, or checkpoints of them, changed of one project:
a line for each path, a column for each cloister, with the lines that it added and removed.
What several changed to the same has the same letter. --run runs a command in a copy of
each, one after the other, and tells its exit status and its last lines: what it writes is
given up.`,
		Example: "  cloister fork k --count 3 -- 'try another way'\n  cloister compare k-1 k-2 k-3 --run 'go " +
			"test ./...'",
		Args:              cli.Args(1, 1<<10),
		ValidArgsFunction: a.completeKeptMore,
		RunE: func(cmd *cobra.Command, args []string) error {
			var sides []*compared
			for _, arg := range args {
				side, err := a.compareOne(cmd.Context(), arg, command)
				if err != nil {
					return err
				}
				sides = append(sides, side)
			}
			if asJSON {
				return a.JSON(sides)
			}
			a.showCompared(sides)
			return nil
		},
	}
	c.Flags().StringVar(&command, "run", "", "run this `COMMAND` of a shell in a copy of each")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func (a *Commands) compareOne(ctx context.Context, arg, command string) (_ *compared, err error) {
	name, at := nameAt(arg)
	h, w, err := a.handHere(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	d, err := h.Diff(ctx, w, at, "", nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	side := &compared{Name: arg, Changes: kept.Changes(d.Changes), cells: map[string]string{}}
	for _, c := range d.Changes {
		if c.Implied {
			continue
		}
		if side.cells[patch.Quote(c.Path)], err = cellOf(d.Stack, c); err != nil {
			return nil, err
		}
	}
	if command != "" {
		side.Run, err = a.tryIn(ctx, h, w, at, command)
	}
	return side, err
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

// tryIn runs a command in a copy of a workspace, which is given up afterwards.
func (a *Commands) tryIn(ctx context.Context, h *kept.Hand, w *store.Workspace, at, command string) (_ *testRun,
	err error) {
	names, err := h.FreeNames(w.Name+"-try", 1)
	if err != nil {
		return nil, err
	}
	if err := w.Borrow(ctx, at, names[0], h.Freezer(ctx, w.Name)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Store.Forget(names[0])) }()
	a.Notice("cloister: %s: %s", w.Name, command)
	began := time.Now()
	out, status, err := a.again(ctx, "run", "--workspace", "overlay", "--name", names[0], "-C", w.Project, "--", "sh",
		"-c", command)
	if err != nil {
		return nil, err
	}
	return &testRun{Command: command, Status: status, DurationMS: time.Since(began).Milliseconds(),
		Last: lastLines(out, 10)}, nil
}

func lastLines(out []byte, n int) []string {
	lines := []string{}
	for line := range bytes.Lines(out) {
		// What the trial itself leaves is given up: nothing to be told of.
		if text := strings.TrimRight(string(line), "\r\n"); !strings.HasPrefix(text, "hint: cloister diff ") &&
			!strings.HasSuffix(text, " changed in the overlay, not in the project") {
			lines = append(lines, text)
		}
	}
	return lines[max(0, len(lines)-n):]
}

func (a *Commands) showCompared(sides []*compared) {
	head := []string{"PATH"}
	paths := map[string]bool{}
	for _, s := range sides {
		head = append(head, s.Name)
		for p := range s.cells {
			paths[p] = true
		}
	}
	rows := [][]string{head}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		rows = append(rows, append([]string{p}, alike(sides, p)...))
	}
	if slices.ContainsFunc(sides, func(s *compared) bool { return s.Run != nil }) {
		row := []string{"(run)"}
		for _, s := range sides {
			row = append(row, fmt.Sprintf("exit %d, %.1f s", s.Run.Status, float64(s.Run.DurationMS)/1000))
		}
		rows = append(rows, row)
	}
	a.Table(rows)
	for _, s := range sides {
		if s.Run != nil && len(s.Run.Last) > 0 {
			a.Line("")
			a.Line("%s:", s.Name)
			for _, line := range s.Run.Last {
				a.Line("  %s", line)
			}
		}
	}
}

// alike are the cells of a path, with a letter where several have made the same of it.
func alike(sides []*compared, path string) []string {
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
