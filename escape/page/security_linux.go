package page

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloister/escape"
)

// Marks in SECURITY.md between which the tables stand.
const (
	begin = "<!-- escape: written by script/test layers; a test compares it -->\n"
	end   = "<!-- escape: end -->\n"
)

// Security puts two tables between their marks in the text of SECURITY.md: how many attempts
// were held in each kind of cloister, and what happens natively without each layer.
func (f Facts) Security(text string) (string, error) {
	before, rest, ok := strings.Cut(text, begin)
	if !ok {
		return "", errors.New("write the table of layers: its first mark is not there")
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", errors.New("write the table of layers: its last mark is not there")
	}
	return before + begin + "\n" + f.columns() + "\n" + f.layers(escape.Native) + "\n" + end + after, nil
}

// columns is the table of kinds of cloister.
func (f Facts) columns() string {
	var b strings.Builder
	b.WriteString("| kind of cloister | held by all who start it | by one of them | not yet | no meaning there |\n|---|---|---|---|---|\n")
	for _, column := range escape.Columns() {
		var all, some, none, out []string
		for _, c := range f.Cases {
			switch n := len(f.Seen[c.ID][column]); {
			case c.Elsewhere(column):
			case !c.In(column):
				out = append(out, c.ID)
			case n == len(column.By()):
				all = append(all, c.ID)
			case n > 0:
				some = append(some, c.ID)
			default:
				none = append(none, c.ID)
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", column, len(all), listed(some), listed(none), listed(out))
	}
	return b.String()
}

// layers is the table of layers of one kind of cloister: for each what happens without it.
func (f Facts) layers(column escape.Column) string {
	user, root := f.Holds[column]["user"], f.Holds[column]["root"]
	var b strings.Builder
	b.WriteString("| left out | these open: nothing else stops them | these hold all the same: a second layer " +
		"| could not be tried without it |\n|---|---|---|---|\n")
	for _, l := range column.Layers() {
		var open, held, untried []string
		for _, c := range f.Cases {
			u, r := user[c.ID], root[c.ID]
			switch {
			case slices.Contains(u.Open, l) || slices.Contains(r.Open, l):
				open = append(open, c.ID)
			case slices.Contains(u.Held, l) || slices.Contains(r.Held, l):
				held = append(held, c.ID)
			case slices.Contains(u.Untried, l) || slices.Contains(r.Untried, l):
				untried = append(untried, c.ID)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l, listed(open), listed(held), listed(untried))
	}
	return b.String()
}

func listed(ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: %s", len(ids), strings.Join(ids, ", "))
}
