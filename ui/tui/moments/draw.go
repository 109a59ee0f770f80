package moments

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/ui/tui/pen"
)

// A line is one of the screen.
type line struct {
	style pen.Style
	text  string
}

// narrow is a screen on which words give way to their keys, in places.
const narrow = 76

// Screen draws the page, exactly as high as it is.
func (m *Model) Screen(now time.Time) string {
	if m.ask != nil {
		m.ask.drawn = true
	}
	foot := m.foot()
	room := max(1, m.h-1-len(foot))
	lines := append([]line{{pen.Bold, m.head()}}, m.body(room, now)...)
	lines = lines[:min(len(lines), 1+room)]
	for len(lines) < 1+room {
		lines = append(lines, line{})
	}
	var b strings.Builder
	for _, l := range append(lines, foot...) {
		m.pen.Line(&b, l.style, l.text)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (m *Model) head() string {
	s := m.space()
	if m.level == ofSpaces || s == nil {
		return fmt.Sprintf("cloister time   %d cloisters", len(m.list))
	}
	text := "cloister time   " + s.Name + "   " + s.state()
	if c := m.before(); m.since && c != nil {
		text += "   since " + c.ID
	}
	return text
}

// room is how many lines the part has that is moved through.
func (m *Model) room() int {
	body := max(1, m.h-1-len(m.foot()))
	switch {
	case m.ask != nil || m.help || m.level == ofSpaces || m.level == ofTable:
		return body
	case m.level == ofMoments:
		return upper(body)
	}
	return max(1, body-1)
}

// upper is how much of a body the moments have, the rest being what the chosen one changed.
func upper(body int) int {
	if body < 5 {
		return body
	}
	return (body - 1) / 2
}

func (m *Model) body(room int, now time.Time) []line {
	switch {
	case m.help:
		return window(helpLines(), m.helpAt, room)
	case m.ask != nil && len(m.ask.looks) > 0:
		return m.looks(room)
	case !m.loaded:
		return []line{{pen.Faint, "looking …"}}
	case len(m.list) == 0:
		return []line{{pen.Faint, "no overlay workspace is kept; one begins with:"},
			{pen.Faint, "cloister run --workspace overlay -- …"}}
	}
	switch m.level {
	case ofMoments:
		return m.ofMoments(room, now)
	case ofChanges:
		return append([]line{{pen.Faint, m.titled(now)}}, m.changes(room-1, true)...)
	case ofText:
		return append([]line{{pen.Faint, m.bar() + m.path}}, m.text(room-1)...)
	case ofSides:
		return m.choice(room)
	case ofTable:
		return window(m.table(), m.scroll, room)
	case ofSpaces:
	}
	return m.spaces(room)
}

// window is what of many lines is on the screen.
func window(all []line, from, room int) []line {
	from = max(0, min(from, len(all)-1))
	return all[from:min(len(all), from+room)]
}

// around is the first of a list that is shown where one is selected.
func around(at, n, room int) int { return max(0, min(at-room/2, n-room)) }

// chosenLine marks a line that is selected, also where there is no colour.
func chosenLine(is bool, text string) line {
	if is {
		return line{pen.Inverse, "> " + text}
	}
	return line{pen.Plain, "  " + text}
}

func (m *Model) spaces(room int) (out []line) {
	at := slices.IndexFunc(m.list, func(s space) bool { return s.Name == m.name })
	first := around(at, len(m.list), room)
	for i := first; i < min(first+room, len(m.list)); i++ {
		s := m.list[i]
		text := fmt.Sprintf("%-12s  %-8s  %-8s", s.Name, s.kind, s.state())
		if s.kept {
			text += fmt.Sprintf("  %3d checkpoints  %s", len(s.Checkpoints), s.Project)
		} else {
			text += "  no moments are kept"
		}
		out = append(out, chosenLine(i == at, text))
	}
	return out
}

func (m *Model) ofMoments(room int, now time.Time) (out []line) {
	s := m.space()
	if s == nil {
		return nil
	}
	at, up := m.at(), upper(room)
	first := around(at, len(m.moments), up)
	for i := first; i < min(first+up, len(m.moments)); i++ {
		out = append(out, chosenLine(i == at, m.row(m.moments[i], s, now)))
	}
	for len(out) < up {
		out = append(out, line{})
	}
	if up == room {
		return out
	}
	out = append(out, line{pen.Faint, m.pen.Rule()})
	return append(out, m.changes(room-up-1, false)...)
}

// titled is the chosen moment, over what it changed.
func (m *Model) titled(now time.Time) string {
	s := m.space()
	if s == nil || len(m.moments) == 0 {
		return ""
	}
	return m.row(m.moments[m.at()], s, now)
}

// changes are the paths of the look, with what is before them said first.
func (m *Model) changes(room int, entered bool) (out []line) {
	s := m.space()
	say := func(text string) []line { return []line{{pen.Faint, text}} }
	switch {
	case s == nil || room < 1:
		return nil
	case s.Problem != "":
		return say(s.Problem)
	case s.Busy:
		return say("a command changes it right now: look again when it has ended (g)")
	case len(m.moments) > 0 && m.moments[m.at()].event != nil && m.standing() == nil:
		return say("no checkpoint was made before this")
	case m.problem != "":
		return say(m.problem)
	case m.diff == nil || !m.sameLook():
		return say("looking …")
	case len(m.diff.Changes) == 0:
		return say("nothing is different")
	}
	list := m.diff.Changes
	out = append(out, line{pen.Faint, m.summary()})
	room--
	if room < 1 && entered {
		out, room = nil, 1
	}
	at := m.pathAt()
	first := 0
	if entered {
		first = around(at, len(list), room)
	}
	conflicts, held := pathsOf(m.diff.Conflicts), pathsOf(m.diff.Held)
	for i := first; i < min(first+room, len(list)); i++ {
		l := chosenLine(entered && i == at, m.changeRow(i, conflicts[list[i].Path], held[list[i].Path]))
		if l.style == pen.Plain && (conflicts[list[i].Path] || held[list[i].Path]) {
			l.style = pen.Yellow
		}
		out = append(out, l)
	}
	return out
}

func pathsOf(list []api.Because) map[string]bool {
	of := map[string]bool{}
	for _, b := range list {
		of[b.Path] = true
	}
	return of
}

// sameLook reports whether the look is of the moment that is chosen, if not of the very newest.
func (m *Model) sameLook() bool {
	want, ok := m.wanted()
	return ok && want.name == m.shown.name && want.at == m.shown.at && want.since == m.shown.since
}

// summary counts what a look has.
func (m *Model) summary() string {
	d := m.diff
	text := m.all()
	if d.More > 0 {
		text += fmt.Sprintf(", of which %d are shown", len(d.Changes))
	}
	if n := m.meant(); n > 0 {
		text += fmt.Sprintf(", %d chosen", n)
	}
	if n := len(d.Conflicts); n > 0 {
		text += fmt.Sprintf(", %d in conflict (!)", n)
	}
	if n := len(d.Held); n > 0 {
		text += fmt.Sprintf(", %d that the host may run or obey (*)", n)
	}
	if s := m.space(); s.Running && m.standing() == nil {
		text += "; it runs and may change this"
	}
	return text
}

// changeRow is one path: chosen, in conflict, held, what happened, how much, its name.
func (m *Model) changeRow(i int, conflict, held bool) string {
	c := m.diff.Changes[i]
	flag := func(is bool, letter string) string {
		if is {
			return letter
		}
		return " "
	}
	much := ""
	if i < len(m.diff.Lines) {
		much = m.diff.Lines[i]
	}
	if strings.HasPrefix(much, "Bin ") || much == "" && c.Kind == "file" && c.Change != "deleted" {
		much = size(c.Size)
	}
	op := map[string]string{"added": "A", "modified": "M", "deleted": "D", "renamed": "R", "mode": "m"}[c.Change]
	text := flag(m.covers(c), "x") + flag(conflict, "!") + flag(held, "*") +
		fmt.Sprintf(" %s %-10s %s", op, much, c.Path)
	if c.From != "" {
		text += " <- " + c.From
	}
	return text
}

// bar stands before what a payload wrote, and before nothing of the page's own.
func (m *Model) bar() string {
	if m.pen.ASCII {
		return "| "
	}
	return "│ "
}

// expand writes tabs as spaces.
func expand(s string) string { return strings.ReplaceAll(s, "\t", "    ") }

// text is what of the patch is on the screen.
func (m *Model) text(room int) (out []line) {
	want, ok := m.wantedText()
	if !ok || m.read != want {
		return []line{{pen.Faint, "looking …"}}
	}
	if m.lines == nil {
		m.lines = m.wrapped(m.patch)
	}
	m.scroll = max(0, min(m.scroll, len(m.lines)-room))
	return append(out, m.lines[m.scroll:min(len(m.lines), m.scroll+room)]...)
}

// wrapped breaks a text into lines for this screen. What goes on from the line before has
// another bar: a long line must not look like several.
func (m *Model) wrapped(text string) []line {
	out, on := []line{}, "┆ "
	if m.pen.ASCII {
		on = ": "
	}
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		bar, style := m.bar(), styleOf(l)
		for _, part := range pen.Wrap(m.pen.Text(expand(l)), max(1, m.pen.Width-2)) {
			out, bar = append(out, line{style, bar + part}), on
		}
	}
	return out
}

// styleOf is how a line of a patch looks.
func styleOf(l string) pen.Style {
	switch {
	case strings.HasPrefix(l, "+"):
		return pen.Green
	case strings.HasPrefix(l, "-"):
		return pen.Red
	case strings.HasPrefix(l, "@"):
		return pen.Faint
	}
	return pen.Plain
}

// looks is what has to be looked at before a question is answered.
func (m *Model) looks(room int) (out []line) {
	q := m.ask
	if q.lines == nil || q.width != m.pen.Width {
		q.lines, q.width, q.seen = nil, m.pen.Width, false
		for _, l := range q.looks {
			q.lines = append(q.lines, m.wrapped(l)...)
		}
	}
	q.scroll = max(0, min(q.scroll, len(q.lines)-room))
	if q.scroll+room >= len(q.lines) {
		q.seen = true
	}
	return append(out, q.lines[q.scroll:min(len(q.lines), q.scroll+room)]...)
}

func (m *Model) choice(room int) (out []line) {
	names := m.sideNames()
	out = append(out, line{pen.Faint, "compare, each with what it changed:"})
	at := slices.Index(names, m.path)
	first := around(at, len(names), room-1)
	for i := first; i < min(first+room-1, len(names)); i++ {
		box := "[ ] "
		if m.sides[names[i]] {
			box = "[x] "
		}
		out = append(out, chosenLine(i == at, box+names[i]))
	}
	return out
}
