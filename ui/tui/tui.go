// Package tui shows what waits for a person on a whole screen, and takes the
// answers.
//
// The promise: what is on the screen is what is asked, rendered by
// internal/termsafe; an answer is for the question that is selected, which
// changes under no one's finger; a question that does not fit is answered with
// allow only after its end was on the screen; what could fool an eye, or allows
// more than was asked, takes a second key.
//
// It does not reach the guardian: its caller brings questions and takes
// answers. It draws the whole screen anew for each change, and needs no library:
// those that draw cost each start of cloister 0.2 ms, whatever it is started for.
//
// Most readers want [Run], then [Model].
package tui

import (
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/internal/termsafe"
	"cloister/ui/tui/moments"
	"cloister/ui/tui/pen"
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
	h        int
	pen      pen.Pen

	time   *moments.Model // nil where there is no page of time
	onTime bool           // it is the one that is shown
	direct bool           // it is the one that the screen began with
}

// NewModel is an empty screen. page is the page of time behind it, nil for none.
func NewModel(answer Answer, page *moments.Model) *Model {
	return &Model{answer: answer, seen: map[string]bool{}, pen: pen.Pen{Width: 80}, h: 24, now: time.Now(), time: page}
}

// Open shows the page of time: of the workspace of that name, "" for their list.
func (m *Model) Open(name string) {
	m.onTime, m.direct = true, true
	m.time.Open(name)
	m.settle()
}

// Resize tells how large the screen is.
func (m *Model) Resize(w, h int) {
	m.pen.Width, m.h = max(20, w), max(8, h)
	m.settle()
}

// Note puts words on the status line.
func (m *Model) Note(text string) {
	if m.note = termsafe.Text(text); m.onTime {
		m.time.Note(m.note)
	}
}

// Tick moves the clock on.
func (m *Model) Tick(now time.Time) {
	if m.now = now; m.onTime {
		m.time.Tick()
	}
}

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

// settle keeps the selection on a question that is there, and the page of time below those
// that wait.
func (m *Model) settle() {
	if m.onTime {
		m.time.Resize(m.pen, m.h-len(m.waiting()))
		return // what is not on the screen was not seen
	}
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
	text, pasted := strings.CutPrefix(name, moments.Pasted)
	switch {
	case m.onTime:
		return nil, m.keyOfTime(name)
	case pasted && m.typing:
		for _, r := range strings.Join(strings.Fields(text), " ") { // of several lines one
			m.typeFilter(string(r))
		}
		return nil, false
	case pasted:
		m.note = moments.NotPressed
		return nil, false
	}
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
	case "t", "tab":
		if m.time != nil {
			m.onTime = true
			m.time.Open("")
		}
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

// keyOfTime is a key on the page of time. Tab goes to the questions, whatever is open there;
// what a person was about to press is no answer to one.
func (m *Model) keyOfTime(name string) (quit bool) {
	if name != "tab" {
		leave, quit := m.time.Press(name)
		if quit || !leave {
			return quit
		}
		if m.direct && len(m.pending) == 0 {
			return true
		}
	}
	m.onTime, m.moved = false, time.Now()
	return false
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

// rows is how many questions the list shows, room how many lines of detail.
func (m *Model) rows() int { return max(1, min(len(m.list()), (m.h-6)/3)) }
func (m *Model) room() int { return max(1, m.h-m.rows()-5) }
