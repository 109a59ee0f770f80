package kept

import (
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
)

// Hunk is one change that can be chosen: of a text, or a path with all that happened to it.
type Hunk struct {
	Change int         // its place in the diff
	Part   *merge.Hunk // nil: all of it
}

// Hunks takes a diff apart, in the order in which hunks are numbered from 1.
func Hunks(d *store.Diff) (out []Hunk, err error) {
	for i, c := range d.Changes {
		if c.Implied {
			continue
		}
		old, now, ok, err := patch.Texts(d.Stack, c)
		if err != nil {
			return nil, fmt.Errorf("take %s apart: %w", c.Path, err)
		}
		if !ok || c.Op != layers.Modified {
			out = append(out, Hunk{i, nil})
			continue
		}
		parts, err := merge.Hunks(old, now)
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			out = append(out, Hunk{i, &p})
		}
	}
	return out, nil
}

// Choose leaves in a diff the hunks that were chosen, by their places in the list.
func Choose(d *store.Diff, list []Hunk, yes map[int]bool) error {
	parts := map[int][]merge.Hunk{}
	whole := map[int]bool{} // changes of which nothing is left out
	for i, h := range list {
		if _, seen := whole[h.Change]; !seen {
			whole[h.Change] = true
		}
		whole[h.Change] = whole[h.Change] && yes[i]
		if yes[i] && h.Part != nil {
			parts[h.Change] = append(parts[h.Change], *h.Part)
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

// Numbers reads a list such as 1,3-5.
func Numbers(text string, most int) (map[int]bool, error) {
	out := map[int]bool{}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < 1 || last < first || last > most {
			return nil, fmt.Errorf("%q is no number from 1 to %d, and no range of them", part, most)
		}
		for n := first; n <= last; n++ {
			out[n-1] = true
		}
	}
	return out, nil
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
