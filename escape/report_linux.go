package escape

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Marks in SECURITY.md between which the table of layers stands.
const (
	begin = "<!-- escape: written by script/test layers; a test compares it -->\n"
	end   = "<!-- escape: end -->\n"
)

// Hold is what was seen of one case with layers left out.
type Hold struct {
	Case    string
	Held    []Layer // others held without them
	Open    []Layer // it opens without them
	Untried []Layer // it could not be tried without them
}

// Holds are what was seen of all cases by one kind of user.
type Holds map[string]Hold

// ParseHolds reads what Format wrote.
func ParseHolds(text string) (Holds, error) {
	out := Holds{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("read layers: %q has %d fields, not 4", line, len(f))
		}
		h := Hold{Case: f[0]}
		for i, list := range []*[]Layer{&h.Held, &h.Open, &h.Untried} {
			if f[i+1] == "-" {
				continue
			}
			for name := range strings.SplitSeq(f[i+1], ",") {
				if !slices.Contains(Layers(), Layer(name)) {
					return nil, fmt.Errorf("read layers: %q has no layer %q", line, name)
				}
				*list = append(*list, Layer(name))
			}
		}
		out[h.Case] = h
	}
	return out, nil
}

// Format writes them as a table of tabs, a case on each line. Of what is no case
// any more nothing is written.
func (hs Holds) Format(as string, cases []Case) string {
	var b strings.Builder
	b.WriteString("# With one layer left out, as " + as + ": the case, the layers without which others held,\n" +
		"# those without which it opened, those without which it could not be tried.\n# Written by script/test layers.\n")
	for _, c := range cases {
		if h, ok := hs[c.ID]; ok {
			fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", h.Case, joined(h.Held, ","), joined(h.Open, ","), joined(h.Untried, ","))
		}
	}
	return b.String()
}

func joined(list []Layer, by string) string {
	if len(list) == 0 {
		return "-"
	}
	var out []string
	for _, l := range list {
		out = append(out, string(l))
	}
	return strings.Join(out, by)
}

// Stale says which cases what is kept does not answer: tried ones that have no
// line, or whose line says nothing of a layer that they name or need.
func (hs Holds) Stale(cases []Case) error {
	var errs []error
	for _, c := range cases {
		h, ok := hs[c.ID]
		switch {
		case !c.Tried() && ok:
			errs = append(errs, fmt.Errorf("%s: it tries nothing with a layer left out, but there is a line of it", c.ID))
		case c.Tried() && !ok:
			errs = append(errs, fmt.Errorf("%s: nothing is known of it", c.ID))
		case c.Tried():
			for _, l := range Layers() {
				_, needs := c.Needs[l]
				known := slices.Contains(h.Held, l) || slices.Contains(h.Open, l) || slices.Contains(h.Untried, l)
				if (c.names(l) || needs) != known {
					errs = append(errs, fmt.Errorf("%s: named or needed without %s: %v, known: %v", c.ID, l, c.names(l) || needs, known))
				}
			}
		}
	}
	for id := range hs {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.ID == id }) {
			errs = append(errs, fmt.Errorf("%s: a line of what is no case", id))
		}
	}
	return errors.Join(errs...)
}

// Text says in a few words whether a second layer held.
func (h Hold) Text(c Case) string { return holdText(c, h, h) }

// Missing is a row of cases.tsv that cannot be tried yet.
type Missing struct{ ID, Needs string }

// Page is docs/attempts.md: every case, what stops it, and what was seen with
// layers left out.
func Page(cases []Case, user, root Holds, seen Seen, missing []Missing) string {
	var b strings.Builder
	b.WriteString("# The attempts\n\n" +
		"Written by `script/test layers` from the cases in `escape/corpus` and from what was\n" +
		"seen of them (`escape/testdata/holds-*.tsv`); a test compares it. Each case is tried\n" +
		"in a real cloister, as an ordinary user and as root, and must also come off outside:\n" +
		"an attempt that cannot succeed proves nothing. Then, in a build that is no release,\n" +
		"one layer is left out at a time. \"Single layer\" means that without it the attempt\n" +
		"comes off; where the attempt itself needs the layer nothing is proved, and it does\n" +
		"not count as held. Layers and what they hold are the native driver's.\n\n" +
		"Four kinds of cloister are tried (`escape/testdata/columns.tsv`, written by `script/test columns`,\n" +
		"the last by docs/microvm.md): native with the host's own system, native with an image (`image:`), containers\n" +
		"of a Docker engine on that image (`--isolation docker`), and emulated machines (`--isolation microvm`).\n" +
		"\"Held\" means as an ordinary user and as root, and that each try came off outside.\n\n" +
		"| case | what is tried | stopped by | native | image | docker | microvm | with one layer left out |\n|---|---|---|---|---|---|---|---|\n")
	for _, c := range cases {
		fmt.Fprintf(&b, "| %s | %s: %s | %s |", c.ID, cell(c.Class), cell(c.Attack), cell(strings.Join(c.Layers, ", ")))
		for _, column := range Columns() {
			fmt.Fprintf(&b, " %s |", cell(seen.text(c, column)))
		}
		fmt.Fprintf(&b, " %s |\n", cell(holdText(c, user[c.ID], root[c.ID])))
	}
	if len(missing) > 0 {
		b.WriteString("\n## Not tried yet\n\n")
	}
	for _, m := range missing {
		fmt.Fprintf(&b, "- %s needs %s\n", m.ID, m.Needs)
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// holdText says what a second layer holds, and where the two kinds of run
// differ, for whom.
func holdText(c Case, user, root Hold) string {
	var open, parts, reasons []string
	var held []Layer
	for _, l := range Layers() {
		u, r := slices.Contains(user.Open, l), slices.Contains(root.Open, l)
		switch {
		case u && r:
			open = append(open, string(l))
		case u:
			open = append(open, string(l)+" (as root it holds)")
		case r:
			open = append(open, string(l)+" (as root only)")
		case slices.Contains(user.Held, l) || slices.Contains(root.Held, l):
			held = append(held, l)
		case slices.Contains(user.Untried, l) || slices.Contains(root.Untried, l):
			reasons = append(reasons, "could not be tried without "+string(l)+": "+c.Needs[l])
		}
	}
	if len(open) > 0 {
		parts = append(parts, "**single layer**: opens without "+strings.Join(open, ", without "))
	}
	if len(held) > 0 && len(open) > 0 {
		parts = append(parts, "holds without "+joined(held, ", without "))
	} else if len(held) > 0 {
		parts = append(parts, "second layer holds without "+joined(held, ", without "))
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

// Summary is the table of columns, with how many attempts were held in each, and
// the table of layers: for each what happens without it.
func Summary(cases []Case, user, root Holds, seen Seen) string {
	var b strings.Builder
	b.WriteString("| kind of cloister | held as a user and as root | as one of them | not yet | no meaning there |\n|---|---|---|---|---|\n")
	for _, column := range Columns() {
		var both, one, none, out []string
		for _, c := range cases {
			switch n := len(seen[c.ID][column]); {
			case c.Only != "" && c.Only != column:
			case !c.In(column):
				out = append(out, c.ID)
			case n == 2:
				both = append(both, c.ID)
			case n == 1:
				one = append(one, c.ID)
			default:
				none = append(none, c.ID)
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", column, len(both), listed(one), listed(none), listed(out))
	}
	b.WriteString("\n")
	b.WriteString("| left out | these open: nothing else stops them | these hold all the same: a second layer | could not be tried without it |\n|---|---|---|---|\n")
	for _, l := range Layers() {
		var open, held, untried []string
		for _, c := range cases {
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

// Insert puts the table of layers between its marks in SECURITY.md.
func Insert(text, table string) (string, error) {
	before, rest, ok := strings.Cut(text, begin)
	if !ok {
		return "", errors.New("write the table of layers: its first mark is not there")
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", errors.New("write the table of layers: its last mark is not there")
	}
	return before + begin + "\n" + table + "\n" + end + after, nil
}

// look makes the findings of a case that only looks at the host into answers: a
// control that fails proves nothing of the others.
func (r *Row) look(w *World) {
	for _, f := range r.Case.Host(w) {
		a := Answer{Case: r.Case.ID, Try: f.Name, State: Held, Text: f.Detail}
		switch {
		case f.Held:
			a.Text = "held"
		case strings.HasPrefix(f.Name, "control"):
			a.State = Odd
		default:
			a.State = Open
		}
		r.Answers = append(r.Answers, a)
	}
	if slices.ContainsFunc(r.Answers, func(a Answer) bool { return a.State == Odd }) {
		r.Answers = slices.DeleteFunc(r.Answers, func(a Answer) bool { return a.State == Open })
	}
}

// without notes what a case came to with one layer left out. A case must name
// every layer without which it opens, and say why where it cannot be tried.
func (r *Row) without(layer Layer, g *Row) {
	if len(g.Answers) == 0 {
		r.fail("without %s: no answers: %s", layer, strings.Join(g.Problems, "; "))
		return
	}
	why, needs := r.Case.Needs[layer]
	first := func(s State) *Answer {
		i := slices.IndexFunc(g.Answers, func(a Answer) bool { return a.State == s })
		if i < 0 {
			return nil
		}
		return &g.Answers[i]
	}
	open, odd := first(Open), first(Odd)
	switch {
	case open != nil:
		r.Off[layer] = Off{Opens: open.Try + ": " + open.Text}
		if !r.Case.names(layer) {
			r.fail("it opens without %s, which it does not name: %s: %s", layer, open.Try, open.Text)
		}
		if needs {
			r.fail("without %s it comes off, although it says that it cannot be tried (%s): %s: %s", layer, why, open.Try, open.Text)
		}
	case needs:
		r.Off[layer] = Off{Untried: why}
	case odd != nil:
		r.Off[layer] = Off{Untried: odd.Try + ": " + odd.Text}
		r.fail("without %s an answer proves nothing, and Needs does not say why: %s: %s", layer, odd.Try, odd.Text)
	case r.Case.names(layer):
		r.Off[layer] = Off{Held: true}
	}
}

// Hold is what was seen with layers left out.
func (r Row) Hold() Hold {
	h := Hold{Case: r.Case.ID}
	for _, layer := range Layers() {
		switch off := r.Off[layer]; {
		case off.Opens != "":
			h.Open = append(h.Open, layer)
		case off.Untried != "":
			h.Untried = append(h.Untried, layer)
		case off.Held:
			h.Held = append(h.Held, layer)
		}
	}
	return h
}
