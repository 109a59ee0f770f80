package tui

import (
	"fmt"
	"strings"

	"golang.org/x/text/width"

	"cloister/api"
	"cloister/internal/termsafe"
)

const (
	bold    = "\x1b[1m"
	inverse = "\x1b[7m"
	faint   = "\x1b[2m"
	yellow  = "\x1b[33m"
	plain   = "\x1b[0m"
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
		out = append(out, wrap(m.text(l), m.w)...)
	}
	return out
}

// Screen draws everything, line by line from the top.
func (m *Model) Screen() string {
	var b strings.Builder
	what := fmt.Sprintf("%d waiting", len(m.pending))
	if m.past {
		what = fmt.Sprintf("%d answered or over", len(m.history))
	}
	if m.filter != "" || m.typing {
		what += "   filter: " + m.filter
	}
	m.line(&b, bold, "cloister approvals   "+what)
	list := m.list()
	a, at := m.current()
	rows := m.rows()
	first := max(0, min(at-rows/2, len(list)-rows))
	for i := first; i < min(first+rows, len(list)); i++ {
		style := ""
		if i == at {
			style = inverse
		}
		m.line(&b, style, m.row(list[i]))
	}
	if len(list) == 0 {
		m.line(&b, faint, "nothing waits; this screen being open is what lets asks wait for an answer")
	}
	rule := "─"
	if m.ascii {
		rule = "-"
	}
	m.line(&b, faint, strings.Repeat(rule, m.w))
	lines, room := m.detail(a), m.room()
	shown := lines[min(m.scroll, len(lines)):min(m.scroll+room, len(lines))]
	for _, l := range shown {
		m.line(&b, "", l)
	}
	b.WriteString(strings.Repeat("\n", max(0, room-len(shown))))
	more := ""
	if rest := len(lines) - m.scroll - len(shown); rest > 0 {
		more = fmt.Sprintf("   %d more lines: page down", rest)
	}
	m.line(&b, yellow, m.note+more)
	to := ""
	if m.wide {
		to = " for all of " + a.Wildcard
	}
	m.line(&b, bold, "a allow   d deny   s scope: "+scopes[m.scope]+to)
	m.line(&b, faint, "w wildcard   h history   / filter   j k move   space b page   q quit")
	return strings.TrimSuffix(b.String(), "\n")
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

// text is what a terminal may be given of a text.
func (m *Model) text(s string) string {
	if s = termsafe.Text(s); m.ascii {
		s = termsafe.ASCII(s)
	}
	return s
}

// line writes one line, cut at the screen's edge.
func (m *Model) line(b *strings.Builder, style, text string) {
	more := "…"
	if m.ascii {
		more = ">"
	}
	b.WriteString(style + cut(m.text(text), m.w, more) + plain + "\n")
}

// places is how many a character takes on a screen.
func places(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	case width.Neutral, width.EastAsianAmbiguous, width.EastAsianNarrow, width.EastAsianHalfwidth:
	}
	return 1
}

// wrap breaks a text into lines of at most so many places.
func wrap(s string, most int) []string {
	var out []string
	from, used := 0, 0
	for i, r := range s {
		if n := places(r); used+n > most {
			out, from, used = append(out, s[from:i]), i, n
		} else {
			used += n
		}
	}
	return append(out, s[from:])
}

// cut is the first line of that, with a mark where something is missing.
func cut(s string, most int, more string) string {
	lines := wrap(s, most)
	if len(lines) == 1 {
		return s
	}
	return wrap(s, most-1)[0] + more
}
