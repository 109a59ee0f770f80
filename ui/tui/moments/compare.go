package moments

import (
	"fmt"
	"slices"
	"strings"

	"cloister/api"
	"cloister/ui/tui/pen"
)

// compare asks which workspaces to set side by side: at first the forks of this one, or it and
// those of the same moment.
func (m *Model) compare() {
	s := m.space()
	m.sides = map[string]bool{}
	for _, o := range m.list {
		if o.kept && o.Project == s.Project && strings.HasPrefix(o.Parent, s.Name+"@") {
			m.sides[o.Name] = true
		}
	}
	if len(m.sides) == 0 {
		for _, o := range m.list {
			if o.kept && (o.Name == s.Name || s.Parent != "" && o.Parent == s.Parent) {
				m.sides[o.Name] = true
			}
		}
	}
	m.level, m.path = ofSides, m.sideNames()[0]
}

// sideNames are the workspaces of the same project.
func (m *Model) sideNames() (out []string) {
	s := m.space()
	for _, o := range m.list {
		if s != nil && o.kept && o.Problem == "" && o.Project == s.Project {
			out = append(out, o.Name)
		}
	}
	return out
}

// runSides asks for the command that is run in a copy of each, and compares.
func (m *Model) runSides() {
	var names []string
	for _, n := range m.sideNames() {
		if m.sides[n] {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		m.note = "choose one with space"
		return
	}
	m.prompt("A command of a shell to run in a copy of each, such as the tests (empty: none)", 2000, func(run string) {
		m.level, m.path, m.note = ofMoments, "", "comparing …"
		m.acting = "compare"
		m.next = func() func() {
			out, err := m.guardian.Act(names[0], "compare", api.WorkspaceAct{With: names[1:], Run: strings.TrimSpace(run)})
			return func() {
				m.acting = ""
				switch {
				case err != nil:
					m.note = words(err)
				case out.Compared == nil:
					m.note = "nothing came of it"
				default:
					m.compared, m.note = out.Compared, ""
					m.level, m.scroll = ofTable, 0
				}
			}
		}
	})
}

// toSide goes to one of those that were compared, by its number.
func (m *Model) toSide(key string) bool {
	if len(key) != 1 || key[0] < '1' || key[0] > '9' || m.compared == nil {
		return false
	}
	i := int(key[0] - '1')
	if i >= len(m.compared.Names) {
		return false
	}
	if name := m.compared.Names[i]; slices.ContainsFunc(m.list, func(s space) bool { return s.Name == name && s.kept }) {
		m.pick(name)
		m.level, m.scroll = ofMoments, 0
	}
	return true
}

// table is a comparison in lines: a number for each workspace, then each path with what
// became of it.
func (m *Model) table() []line {
	c := m.compared
	if c == nil {
		return nil
	}
	var out []line
	for i, n := range c.Names {
		text := fmt.Sprintf("%d %s", i+1, n)
		style := pen.Bold
		if i < len(c.Runs) {
			r := c.Runs[i]
			text += fmt.Sprintf("   exit %d, %.1f s", r.Status, float64(r.DurationMS)/1000)
			style = pen.Green
			if r.Status != 0 {
				style = pen.Red
			}
		}
		out = append(out, line{style, text})
		if i < len(c.Runs) {
			for _, l := range c.Runs[i].Last {
				out = append(out, line{pen.Plain, m.bar() + m.pen.Text(expand(l))})
			}
		}
	}
	out = append(out, line{pen.Faint, m.pen.Rule()})
	for _, p := range c.Paths {
		out = append(out, line{pen.Bold, m.bar() + p.Path})
		for i, cell := range p.Cells {
			if cell != "-" {
				out = append(out, line{pen.Plain, fmt.Sprintf("%s   %d %s", m.bar(), i+1, cell)})
			}
		}
	}
	if c.More > 0 {
		out = append(out, line{pen.Faint, fmt.Sprintf("%d more paths, not shown", c.More)})
	}
	return out
}
