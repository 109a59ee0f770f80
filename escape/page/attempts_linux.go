package page

import (
	"fmt"
	"slices"
	"strings"

	"cloister/escape"
)

// head begins docs/attempts.md.
const head = `# The attempts

Written by ` + "`script/test layers`" + ` from the cases in ` + "`escape/corpus`" + ` and from what was
seen of them (` + "`escape/testdata/holds-*.tsv`" + `); a test compares it. Each case is tried
in a real cloister, as an ordinary user and as root, and must also come off outside:
an attempt that cannot succeed proves nothing. Then, in a build that is no release,
one layer is left out at a time. "Single layer" means that without it the attempt
comes off; where the attempt itself needs the layer nothing is proved, and it does
not count as held. What the table says of layers is the native driver's; the other levels' own
follow it.

Each kind of cloister has a column (` + "`escape/testdata/columns.tsv`, written by `script/test columns`" + `):

`

// Attempts is docs/attempts.md: every case, what stops it, and what was seen with
// layers left out.
func (f Facts) Attempts() string {
	var b strings.Builder
	b.WriteString(head)
	for _, column := range escape.Columns() {
		fmt.Fprintf(&b, "- **%s**: %s\n", column, column.What())
	}
	b.WriteString("\n\"Held\" means by all who start such cloisters, and that each try came off outside.\n\n" +
		"| case | what is tried | stopped by |")
	for _, column := range escape.Columns() {
		fmt.Fprintf(&b, " %s |", column)
	}
	b.WriteString(" with one layer left out |\n|---|---|---|" + strings.Repeat("---|", len(escape.Columns())) + "---|\n")
	for _, c := range f.Cases {
		fmt.Fprintf(&b, "| %s | %s: %s | %s |", c.ID, cell(c.Class), cell(c.Attack), cell(strings.Join(c.Layers, ", ")))
		for _, column := range escape.Columns() {
			fmt.Fprintf(&b, " %s |", cell(f.held(c, column)))
		}
		native := f.Holds[escape.Native]
		fmt.Fprintf(&b, " %s |\n", cell(holdText(c, native["user"][c.ID], native["root"][c.ID])))
	}
	b.WriteString(f.otherLayers())
	if len(f.Missing) > 0 {
		b.WriteString("\n## Not tried yet\n\n")
	}
	for _, m := range f.Missing {
		fmt.Fprintf(&b, "- %s needs %s\n", m.ID, m.Needs)
	}
	return b.String()
}

// held is a cell of the table: held, by whom alone, or why it is not tried.
func (f Facts) held(c escape.Case, column escape.Column) string {
	switch as := f.Seen[c.ID][column]; {
	case c.Elsewhere(column):
		return "—"
	case c.Except[column] != "":
		return "— " + c.Except[column]
	case len(as) == len(column.By()):
		return "held"
	case len(as) > 0:
		return "held (as " + strings.Join(as, ", ") + ")"
	}
	return "not yet"
}

// otherLayers tells of layers that were left out on levels other than native.
func (f Facts) otherLayers() string {
	var b strings.Builder
	for _, column := range escape.Columns() {
		if column == escape.Native || len(f.Holds[column]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## Layers left out: %s\n\n%s", column, f.layers(column))
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// Text says in a few words whether a second layer held.
func Text(c escape.Case, h escape.Hold) string { return holdText(c, h, h) }

// holdText says what a second layer holds, and where the two kinds of run
// differ, for whom.
func holdText(c escape.Case, user, root escape.Hold) string {
	var open, parts, reasons, held []string
	for _, l := range escape.Layers() {
		u, r := slices.Contains(user.Open, l), slices.Contains(root.Open, l)
		switch {
		case u && r:
			open = append(open, string(l))
		case u:
			open = append(open, string(l)+" (as root it holds)")
		case r:
			open = append(open, string(l)+" (as root only)")
		case slices.Contains(user.Held, l) || slices.Contains(root.Held, l):
			held = append(held, string(l))
		case slices.Contains(user.Untried, l) || slices.Contains(root.Untried, l):
			reasons = append(reasons, "could not be tried without "+string(l)+": "+c.Needs[l])
		}
	}
	if len(open) > 0 {
		parts = append(parts, "**single layer**: opens without "+strings.Join(open, ", without "))
	}
	if len(held) > 0 && len(open) > 0 {
		parts = append(parts, "holds without "+strings.Join(held, ", without "))
	} else if len(held) > 0 {
		parts = append(parts, "second layer holds without "+strings.Join(held, ", without "))
	}
	parts = append(parts, reasons...)
	switch {
	case len(parts) > 0:
		return strings.Join(parts, "; ")
	case c.Tries == nil:
		return "looks at the host, no layer is left out"
	case len(c.Layers) == 1:
		return "single layer, which cannot be left out"
	}
	return "these layers cannot be left out"
}
