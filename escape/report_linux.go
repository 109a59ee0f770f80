package escape

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
			for _, l := range Native.Layers() {
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

// Missing is a row of cases.tsv that cannot be tried yet.
type Missing struct{ ID, Needs string }

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
	if len(g.Problems) > 0 && open == nil && odd == nil && !needs {
		r.Off[layer] = Off{Untried: strings.Join(g.Problems, "; ")}
		r.fail("without %s not every try was answered: %s", layer, strings.Join(g.Problems, "; "))
		return
	}
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
	case r.Case.names(layer), layer == Modes, layer == Server: // cases name no wall of one level alone
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
