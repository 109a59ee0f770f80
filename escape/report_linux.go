package escape

import (
	"fmt"
	"slices"
	"strings"
)

// Marks in SECURITY.md between which the table stands.
const (
	TableBegin = "<!-- escape: written by cloister-escape -table; a test compares it -->"
	TableEnd   = "<!-- escape: end -->"
)

// Hold is what was seen of one case with layers left out.
type Hold struct {
	Case string
	Off  []string // layers that were left out and held by others
	Open []string // layers without which it opens
}

// ParseHolds reads what FormatHolds wrote.
func ParseHolds(text string) (map[string]Hold, error) {
	out := map[string]Hold{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 {
			return nil, fmt.Errorf("read layers: %q has %d fields, not 3", line, len(f))
		}
		out[f[0]] = Hold{f[0], fields(f[1]), fields(f[2])}
	}
	return out, nil
}

func fields(s string) []string {
	if s == "-" {
		return nil
	}
	return strings.Split(s, ",")
}

func joined(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ",")
}

// FormatHolds writes them as a table of tabs, a case on each line.
func FormatHolds(as string, holds []Hold) string {
	var b strings.Builder
	b.WriteString("# With one layer left out, as " + as + ": the case, the layers without which it held, those without which it opened.\n" +
		"# Written by cloister-escape -write.\n")
	for _, h := range holds {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", h.Case, joined(h.Off), joined(h.Open))
	}
	return b.String()
}

// Table is the part of SECURITY.md about the corpus.
func Table(cases []Case, user, root map[string]Hold, missing []Missing) string {
	var b strings.Builder
	b.WriteString(TableBegin + "\n\n| case | what is tried | stopped by | with one layer left out |\n|---|---|---|---|\n")
	for _, c := range cases {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.ID, cell(c.Attack), cell(strings.Join(c.Layers, ", ")), cell(holdText(user[c.ID], root[c.ID])))
	}
	b.WriteString("\nNot tried yet, because what they attack is not built:\n\n")
	for _, m := range missing {
		fmt.Fprintf(&b, "- %s needs %s\n", m.ID, m.Needs)
	}
	b.WriteString("\n" + TableEnd + "\n")
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// holdText says what a second layer holds, and where the two kinds of run
// differ, for whom.
func holdText(user, root Hold) string {
	if len(user.Off)+len(user.Open)+len(root.Off)+len(root.Open) == 0 {
		return "none of these can be left out"
	}
	var parts []string
	var held, both []string
	for _, l := range Layers() {
		u, r := slices.Contains(user.Open, l), slices.Contains(root.Open, l)
		switch {
		case u && r:
			both = append(both, l)
		case u:
			parts = append(parts, "**opens** without "+l+" (as root it holds)")
		case r:
			parts = append(parts, "**opens** as root without "+l)
		case slices.Contains(user.Off, l) || slices.Contains(root.Off, l):
			held = append(held, l)
		}
	}
	if len(both) > 0 {
		parts = append([]string{"**opens** without " + strings.Join(both, ", ")}, parts...)
	}
	if len(held) > 0 {
		parts = append(parts, "holds without "+strings.Join(held, ", "))
	}
	return strings.Join(parts, "; ")
}

// Missing is a row of cases.tsv that cannot be tried yet.
type Missing struct{ ID, Needs string }
