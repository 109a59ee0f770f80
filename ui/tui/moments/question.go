package moments

import (
	"strings"

	"cloister/internal/termsafe"
)

// A question is asked before anything is changed. It stands on the last lines, where nothing
// of a payload ever stands.
type question struct {
	text  string
	looks []string // what is to be looked at first, each an entry of its own
	yes   string   // the key that says yes; "" where a text is typed
	typed string
	most  int    // letters
	must  string // what has to be typed, "" for anything
	do    func(typed string)

	lines  []line // of looks, as wide as the screen
	width  int
	scroll int
	seen   bool // its end was on the screen
	drawn  bool // it is on the screen: a key that came before answers nothing
}

// confirm asks for a yes.
func (m *Model) confirm(text string, do func()) {
	m.ask = &question{text: text, yes: "y", do: func(string) { do() }, seen: true}
}

// prompt asks for a text.
func (m *Model) prompt(text string, most int, do func(string)) {
	m.ask = &question{text: text, most: most, do: do, seen: true}
}

// answer is a key while a question is asked.
func (m *Model) answer(key string) {
	q := m.ask
	switch {
	case key == "esc" || key == "ctrl+c":
		m.ask, m.note = nil, "nothing was done"
	case !q.drawn:
		m.note = "that was typed before the question was on the screen"
	case q.yes == "":
		m.typeKey(key)
	case len(q.looks) > 0 && m.scrolled(key, &q.scroll, len(q.lines), m.room()):
	case key == q.yes && !q.seen:
		m.note = "its end has not been on the screen: page down first"
	case key == q.yes:
		m.ask, m.note = nil, ""
		q.do("")
	default:
		m.ask, m.note = nil, "nothing was done"
	}
}

func (m *Model) typeKey(key string) {
	q := m.ask
	switch key {
	case "enter":
		if q.must != "" && q.typed != q.must {
			m.ask, m.note = nil, "that is not its name: nothing was done"
			return
		}
		m.ask, m.note = nil, ""
		q.do(q.typed)
	case "backspace":
		if r := []rune(q.typed); len(r) > 0 {
			q.typed = string(r[:len(r)-1])
		}
	default:
		if r := []rune(key); len(r) == 1 && len(q.typed) < q.most {
			q.typed += termsafe.Text(key)
		}
	}
}

// paste takes pasted text for typed: its lines become one, and none of it is enter.
func (m *Model) paste(text string) {
	for _, r := range strings.Join(strings.Fields(text), " ") {
		m.typeKey(string(r))
	}
}

// scrolled moves a part of the screen by a key, and reports whether it was one for that.
func (m *Model) scrolled(key string, at *int, n, room int) bool {
	room = max(1, room)
	to := *at
	switch key {
	case "down", "j":
		to++
	case "up", "k":
		to--
	case "pgdown", " ":
		to += room
	case "pgup", "b":
		to -= room
	case "home":
		to = 0
	case "end":
		to = n
	default:
		return false
	}
	*at = max(0, min(to, n-room))
	return true
}
