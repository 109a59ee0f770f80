package tui

import (
	"fmt"
	"strings"

	"cloister/api"
	"cloister/internal/termsafe"
	"cloister/ui/tui/pen"
)

// detail is everything about a question, in lines that fit.
func (m *Model) detail(a api.Approval) []string {
	if a.ID == "" {
		return nil
	}
	lines := []string{a.Title, "because " + a.Reason}
	if a.Marks != "" {
		lines = append(lines, "BEWARE: it holds "+a.Marks)
	}
	for _, d := range a.Details {
		lines = append(lines, d.Label+": "+d.Text)
	}
	if a.Waiting > 1 {
		lines = append(lines, fmt.Sprintf("waiting: %d, each with a question of its own", a.Waiting))
	}
	for _, c := range a.Covers {
		line := c.Scope
		if c.Pattern != "" {
			line += " for all of " + c.Pattern
		}
		if line += ": " + c.Text; c.Digest != "" {
			line += "; bound to " + c.Digest
		}
		lines = append(lines, line)
	}
	if a.By != "" {
		to := ""
		if a.Pattern != "" {
			to = " for all of " + a.Pattern
		}
		lines = append(lines, "answered: "+a.State+", "+a.Scope+to+", by "+a.By)
	}
	var out []string
	for _, l := range lines {
		out = append(out, pen.Wrap(m.pen.Text(l), m.pen.Width)...)
	}
	return out
}

// Screen draws everything, line by line from the top.
func (m *Model) Screen() string {
	if m.onTime {
		return strings.Join(append(m.waiting(), m.time.Screen(m.now)), "\n")
	}
	var b strings.Builder
	what := fmt.Sprintf("%d waiting", len(m.pending))
	if m.past {
		what = fmt.Sprintf("%d answered or over", len(m.history))
	}
	if m.filter != "" || m.typing {
		what += "   filter: " + m.filter
	}
	m.pen.Line(&b, pen.Bold, "cloister approvals   "+what)
	list := m.list()
	a, at := m.current()
	rows := m.rows()
	first := max(0, min(at-rows/2, len(list)-rows))
	for i := first; i < min(first+rows, len(list)); i++ {
		style := pen.Plain
		if i == at {
			style = pen.Inverse
		}
		m.pen.Line(&b, style, m.row(list[i]))
	}
	if len(list) == 0 {
		m.pen.Line(&b, pen.Faint, "nothing waits; this screen being open is what lets asks wait for an answer")
	}
	m.pen.Line(&b, pen.Faint, m.pen.Rule())
	lines, room := m.detail(a), m.room()
	shown := lines[min(m.scroll, len(lines)):min(m.scroll+room, len(lines))]
	for _, l := range shown {
		m.pen.Line(&b, pen.Plain, l)
	}
	b.WriteString(strings.Repeat("\n", max(0, room-len(shown))))
	more := ""
	if rest := len(lines) - m.scroll - len(shown); rest > 0 {
		more = fmt.Sprintf("   %d more lines: page down", rest)
	}
	m.pen.Line(&b, pen.Yellow, m.note+more)
	to := ""
	if m.wide {
		to = " for all of " + a.Wildcard
	}
	m.pen.Line(&b, pen.Bold, "a allow   d deny   s scope: "+scopes[m.scope]+to)
	m.pen.Line(&b, pen.Faint, "w wildcard  h history  / filter  j k move  space b page  t time  q quit")
	return strings.TrimSuffix(b.String(), "\n")
}

// most is how many questions stand over the page of time, on a screen of that height.
func most(h int) int {
	if h < 20 {
		return 1
	}
	return 3
}

// waiting is what stands over the page of time: the questions that wait, so that none is out
// of sight. They are answered on their own page alone: no key of the other is an answer.
func (m *Model) waiting() []string {
	if len(m.pending) == 0 {
		return nil
	}
	var b strings.Builder
	text := "1 question waits"
	if n := len(m.pending); n > 1 {
		text = fmt.Sprintf("%d questions wait", n)
	}
	m.pen.Line(&b, pen.Inverse, "! "+text+": Tab shows it")
	for _, a := range m.pending[:min(len(m.pending), most(m.h))] {
		m.pen.Line(&b, pen.Bold, m.row(a))
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// Title is for the terminal's window.
func (m *Model) Title() string {
	if n := len(m.pending); n > 0 {
		return fmt.Sprintf("(%d) cloister approvals", n)
	}
	return "cloister approvals"
}

func (m *Model) row(a api.Approval) string {
	left := a.State
	if a.State == "pending" {
		left = fmt.Sprintf("%4ds", max(0, int(a.ExpiresAt.Sub(m.now).Seconds())))
	}
	mark := " "
	if a.Marks != "" {
		mark = "!"
	}
	return fmt.Sprintf("%s%s  %-12s  %s", mark, left, termsafe.Clip(a.Session, 12), a.Title)
}
