// Package tui shows what waits for a person on a whole screen, and takes the
// answers.
//
// The promise: what is on the screen is what is asked, rendered by
// internal/termsafe; an answer is for the question that is selected, which
// changes under no one's finger; a question that does not fit is answered with
// allow only after its end was on the screen; what could fool an eye, or allows
// more than was asked, takes a second key.
//
// It does not reach the guardian: who runs it brings questions and takes
// answers. It draws the whole screen anew for each change, and needs no library:
// those that draw cost each start of cloister 0.2 ms, whatever it is started for.
//
// Most readers want [Run], then [Model].
package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/internal/termsafe"

	"golang.org/x/text/width"
)

// Answer gives a person's word; the text is for the status line.
type Answer func(id string, allow bool, reply api.ApprovalReply) (string, error)

// guard is how long keys that answer are dead after the selection moved by
// itself: the person may be about to press one (HARDENING 5.8).
const guard = 500 * time.Millisecond

// maxHistory bounds what is kept of questions that ended.
const maxHistory = 200

// Model is the screen as data.
type Model struct {
	answer  Answer
	pending []api.Approval // oldest first
	history []api.Approval // newest first

	selected string // ID
	past     bool   // the history is shown
	scope    int
	wide     bool // the answer is for the wildcard
	filter   string
	typing   bool // the filter
	confirm  bool // the next y allows
	scroll   int
	seen     map[string]bool // whose end was on the screen
	moved    time.Time       // when the selection moved by itself
	note     string
	now      time.Time
	w, h     int
	ascii    bool
}

// NewModel is an empty screen.
func NewModel(answer Answer) *Model {
	return &Model{answer: answer, seen: map[string]bool{}, w: 80, h: 24, now: time.Now()}
}

// Resize tells how large the screen is.
func (m *Model) Resize(w, h int) {
	m.w, m.h = max(20, w), max(8, h)
	m.settle()
}

// Note puts words on the status line.
func (m *Model) Note(text string) { m.note = termsafe.Text(text) }

// Tick moves the clock on.
func (m *Model) Tick(now time.Time) { m.now = now }

// Take brings a question, new or ended; it reports whether a person should be notified of
// it.
func (m *Model) Take(a api.Approval) (ring bool) {
	ring = m.take(a)
	m.settle()
	return ring
}

// Press is one key, by its name or its character. do is what it asks for, to be
// done aside; its words are for the status line.
func (m *Model) Press(key string) (do func() string, leave bool) {
	do, leave = m.key(key)
	m.settle()
	return do, leave
}

// take brings a question in, or moves it to the history.
func (m *Model) take(a api.Approval) bool {
	m.now = time.Now()
	at := slices.IndexFunc(m.pending, func(b api.Approval) bool { return b.ID == a.ID })
	if a.State == "pending" {
		if at >= 0 {
			m.pending[at] = a
			return false
		}
		m.pending = append(m.pending, a)
		return true
	}
	if at >= 0 {
		m.pending = slices.Delete(m.pending, at, at+1)
	}
	if !slices.ContainsFunc(m.history, func(b api.Approval) bool { return b.ID == a.ID }) {
		m.history = slices.Insert(m.history, 0, a)
		m.history = m.history[:min(len(m.history), maxHistory)]
	}
	return false
}

// list is what is shown.
func (m *Model) list() []api.Approval {
	all := m.pending
	if m.past {
		all = m.history
	}
	var out []api.Approval
	for _, a := range all {
		if strings.Contains(strings.ToLower(a.Session+" "+a.Kind+" "+a.Title+" "+a.State), strings.ToLower(m.filter)) {
			out = append(out, a)
		}
	}
	return out
}

func (m *Model) current() (api.Approval, int) {
	list := m.list()
	i := slices.IndexFunc(list, func(a api.Approval) bool { return a.ID == m.selected })
	if i < 0 {
		return api.Approval{}, -1
	}
	return list[i], i
}

// settle keeps the selection on a question that is there.
func (m *Model) settle() {
	list := m.list()
	a, i := m.current()
	switch {
	case i < 0 && len(list) > 0:
		m.pick(list[0].ID)
		m.moved = time.Now()
	case i < 0:
		m.pick("")
	default:
		if lines, room := m.detail(a), m.room(); m.scroll+room >= len(lines) {
			m.seen[a.ID] = true
		}
	}
}

func (m *Model) pick(id string) {
	if m.selected == id {
		return
	}
	m.selected, m.scroll, m.wide, m.confirm = id, 0, false, false
}

func (m *Model) key(name string) (do func() string, leave bool) {
	if m.typing {
		m.typeFilter(name)
		return nil, false
	}
	if m.confirm && name != "y" {
		m.confirm, m.note = false, ""
	}
	switch name {
	case "q", "ctrl+c":
		return nil, true
	case "esc":
		m.filter, m.note = "", ""
	case "down", "j", "up", "k":
		m.step(name == "down" || name == "j")
	case "pgdown", " ":
		a, _ := m.current()
		m.scroll = min(m.scroll+m.room(), max(0, len(m.detail(a))-m.room()))
	case "pgup", "b":
		m.scroll = max(0, m.scroll-m.room())
	case "s":
		m.scope = (m.scope + 1) % len(scopes)
	case "w":
		if a, i := m.current(); i >= 0 && a.Wildcard != "" {
			m.wide = !m.wide
		}
	case "h":
		m.past = !m.past
	case "/":
		m.typing = true
	case "a":
		return m.reply(true, false), false
	case "y":
		if m.confirm {
			m.confirm = false
			return m.reply(true, true), false
		}
	case "d":
		return m.reply(false, false), false
	}
	return nil, false
}

func (m *Model) typeFilter(name string) {
	switch name {
	case "enter":
		m.typing = false
	case "esc", "ctrl+c":
		m.typing, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	default:
		if len([]rune(name)) == 1 && len(m.filter) < 60 {
			m.filter += termsafe.Text(name)
		}
	}
}

func (m *Model) step(down bool) {
	list := m.list()
	_, i := m.current()
	if i < 0 {
		return
	}
	if down {
		i = min(i+1, len(list)-1)
	} else {
		i = max(i-1, 0)
	}
	m.pick(list[i].ID)
}

var scopes = []string{"once", "session", "project", "global"}

// reply answers the selected question, or says what is missing for that.
func (m *Model) reply(allow, sure bool) func() string {
	a, i := m.current()
	scope := scopes[m.scope]
	switch {
	case i < 0 || m.past:
		return nil
	case time.Since(m.moved) < guard:
		m.note = "this question came up just now: look, then answer"
		return nil
	case allow && !m.seen[a.ID]:
		m.note = "its end has not been on the screen: page down first"
		return nil
	case m.wide && scope == "once":
		m.note = "an answer for all of " + a.Wildcard + " is remembered: choose its scope with s"
		return nil
	case allow && !sure && (a.Marks != "" || m.wide):
		m.confirm = true
		m.note = "beware: it holds " + a.Marks + ". Allow all the same? y"
		if m.wide {
			m.note = "allow all of " + a.Wildcard + ", also later (" + scope + ")? y"
		}
		return nil
	}
	r := api.ApprovalReply{Scope: scope, Confirm: sure, Via: "tui", Nonce: a.Nonce}
	if m.wide {
		r.Pattern = a.Wildcard
	}
	answer := m.answer
	return func() string {
		text, err := answer(a.ID, allow, r)
		if err != nil {
			return err.Error()
		}
		return text
	}
}

const (
	bold    = "\x1b[1m"
	inverse = "\x1b[7m"
	faint   = "\x1b[2m"
	yellow  = "\x1b[33m"
	plain   = "\x1b[0m"
)

// rows is how many questions the list shows, room how many lines of detail.
func (m *Model) rows() int { return max(1, min(len(m.list()), (m.h-6)/3)) }
func (m *Model) room() int { return max(1, m.h-m.rows()-5) }

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
