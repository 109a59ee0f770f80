package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"cloister/state/apply"
	"cloister/state/layers"
	"cloister/state/merge"
	"cloister/state/patch"
	"cloister/state/store"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// hunk is one change that can be chosen: of a text, or a path with all that happened to it.
type hunk struct {
	change int // in the Diff
	part   *merge.Hunk
}

// hunksOf takes a diff apart, in the order in which hunks are numbered from 1.
func hunksOf(d *store.Diff) (out []hunk, err error) {
	for i, c := range d.Changes {
		if c.Implied {
			continue
		}
		old, now, ok, err := patch.Texts(d.Stack, c)
		if err != nil {
			return nil, fmt.Errorf("take %s apart: %w", c.Path, err)
		}
		if !ok || c.Op != layers.Modified {
			out = append(out, hunk{i, nil})
			continue
		}
		parts, err := merge.Hunks(old, now)
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			out = append(out, hunk{i, &p})
		}
	}
	return out, nil
}

// showHunk prints one with its number.
func (a *app) showHunk(d *store.Diff, list []hunk, i int) error {
	c := d.Changes[list[i].change]
	a.line("# %d of %d: %s %s", i+1, len(list), c.Op, patch.Quote(c.Path))
	if p := list[i].part; p != nil {
		a.text(p.Text)
		return nil
	}
	var text strings.Builder
	if err := patch.Write(&text, d.Stack, []layers.Change{c}); err != nil {
		return err
	}
	a.text(text.String())
	return nil
}

// keepHunks leaves in a diff what was chosen: by numbers, or by a person at the terminal.
func (a *app) keepHunks(ctx context.Context, d *store.Diff, chosen string) error {
	list, err := hunksOf(d)
	if err != nil {
		return err
	}
	var yes map[int]bool
	if chosen == asked {
		yes, err = a.askHunks(ctx, d, list)
	} else {
		yes, err = numbers(chosen, len(list))
	}
	if err != nil {
		return err
	}
	parts := map[int][]merge.Hunk{}
	whole := map[int]bool{} // changes of which nothing is left out
	for i, h := range list {
		if _, seen := whole[h.change]; !seen {
			whole[h.change] = true
		}
		whole[h.change] = whole[h.change] && yes[i]
		if yes[i] && h.part != nil {
			parts[h.change] = append(parts[h.change], *h.part)
		}
	}
	var left []layers.Change
	for i, c := range d.Changes {
		if len(parts[i]) > 0 && !whole[i] {
			old, _, _, err := patch.Texts(d.Stack, c)
			if err != nil {
				return err
			}
			text, err := merge.Take(old, parts[i])
			if err != nil {
				return err
			}
			d.Put(c.Path, text)
		}
		if c.Implied || whole[i] || len(parts[i]) > 0 {
			left = append(left, c)
		}
	}
	d.Changes = withoutBare(left, d.Changes)
	d.Conflicts = only(d.Conflicts, d.Changes)
	return nil
}

// asked is what --hunk says without numbers.
const asked = "ask"

// numbers reads a list such as 1,3-5.
func numbers(text string, most int) (map[int]bool, error) {
	out := map[int]bool{}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < 1 || last < first || last > most {
			return nil, wrongWords("cloister diff --hunks numbers them",
				"apply: --hunk: %q is no number from 1 to %d, and no range of them", part, most)
		}
		for n := first; n <= last; n++ {
			out[n-1] = true
		}
	}
	return out, nil
}

const hunkHelp = `y - apply this hunk
n - do not apply it
a - apply it and all later ones of the file
d - apply neither it nor any later one of the file
q - apply nothing from here on
? - print help`

// askHunks asks about one after the other, as git add -p does.
func (a *app) askHunks(ctx context.Context, d *store.Diff, list []hunk) (map[int]bool, error) {
	if !term.IsTerminal(int(a.stdin.Fd())) {
		return nil, wrongWords("cloister diff --hunks numbers them; then cloister apply --hunk=1,3-5",
			"apply: --hunk: there is no terminal to ask at")
	}
	in := bufio.NewReader(a.stdin)
	yes := map[int]bool{}
	for i := 0; i < len(list); i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := a.showHunk(d, list, i); err != nil {
			return nil, err
		}
		if err := a.out.Flush(); err != nil {
			return nil, err
		}
		fmt.Fprintf(a.stderr, "Apply this hunk [y,n,a,d,q,?]? ")
		answer, err := in.ReadString('\n')
		if err != nil {
			return nil, errors.New("apply: no answer; nothing was written")
		}
		file := list[i].change
		switch strings.TrimSpace(answer) {
		case "y":
			yes[i] = true
		case "n":
		case "a", "d":
			for ; i < len(list) && list[i].change == file; i++ {
				yes[i] = strings.TrimSpace(answer) == "a"
			}
			i--
		case "q":
			return yes, nil
		default:
			fmt.Fprintln(a.stderr, hunkHelp)
			i--
		}
	}
	return yes, nil
}

// showHunks is cloister diff --hunks.
func (a *app) showHunks(d *store.Diff) error {
	list, err := hunksOf(d)
	if err != nil {
		return err
	}
	for i := range list {
		if err := a.showHunk(d, list, i); err != nil {
			return err
		}
	}
	return nil
}

// applyFlags are how an apply deals with what both sides changed, and with parts.
type applyFlags struct {
	autoRun, asJSON, merge bool
	hunk                   string
}

func (f *applyFlags) register(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVar(&f.autoRun, "auto-run", false, "also files that programs of the host run or obey")
	fl.BoolVar(&f.asJSON, "json", false, "as JSON")
	fl.BoolVar(&f.merge, "merge", false, "merge texts that were changed in the project too, where no line was changed "+
		"by both")
	fl.StringVar(&f.hunk, "hunk", "", "choose single changes: at the terminal, or by `NUMBERS` such as --hunk=1,3-5, as "+
		"diff --hunks has them")
	fl.Lookup("hunk").NoOptDefVal = asked
	c.MarkFlagsMutuallyExclusive("merge", "hunk")
}

// withoutBare leaves out folders that come or go for the sake of what was not chosen.
func withoutBare(list, all []layers.Change) []layers.Change {
	comes, stays := map[string]bool{}, map[string]bool{}
	above := func(name string, mark map[string]bool) {
		for dir := path.Dir(name); dir != "." && !mark[dir]; dir = path.Dir(dir) {
			mark[dir] = true
		}
	}
	kept := map[string]bool{}
	for _, c := range list {
		kept[c.Path] = true
		if !c.Implied && c.Op != layers.Deleted {
			above(c.Path, comes)
		}
	}
	for _, c := range all {
		if c.Op == layers.Deleted && !c.Implied && !kept[c.Path] {
			above(c.Path, stays)
		}
	}
	return slices.DeleteFunc(list, func(c layers.Change) bool {
		return c.Implied && (c.Op == layers.Added && !comes[c.Path] || c.Op == layers.Deleted && stays[c.Path])
	})
}

// only keeps the conflicts of what was chosen.
func only(conflicts []apply.Conflict, list []layers.Change) []apply.Conflict {
	return slices.DeleteFunc(conflicts, func(c apply.Conflict) bool {
		return !slices.ContainsFunc(list, func(l layers.Change) bool { return l.Path == c.Path })
	})
}
