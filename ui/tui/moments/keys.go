package moments

import (
	"slices"
	"strings"
)

// Pasted begins the name of a key that is text which was pasted.
const Pasted = "pasted "

// NotPressed is what is said of pasted text where none is typed.
const NotPressed = "what is pasted presses no keys"

// Press is one key, by its name or its character. leave says that the person goes back to
// where the page was opened from, quit that the program ends.
func (m *Model) Press(key string) (leave, quit bool) {
	text, pasted := strings.CutPrefix(key, Pasted)
	switch {
	case pasted && (m.ask == nil || m.ask.yes != "" || !m.ask.drawn):
		m.note = NotPressed
		return false, false
	case pasted:
		m.paste(text)
		return false, false
	case m.ask != nil:
		m.answer(key)
		return false, false
	case m.help && m.scrolled(key, &m.helpAt, len(helpLines()), m.room()):
		return false, false
	case m.help:
		m.help = false
		return false, key == "ctrl+c"
	}
	m.note = ""
	m.first()
	switch key {
	case "ctrl+c":
		return false, true
	case "?":
		m.help, m.helpAt = true, 0
	case "esc", "q", "left":
		return m.up(), false
	case "enter", "right":
		m.into()
	case "g":
		m.urgent, m.shown, m.read = true, view{}, view{}
	default:
		if !m.move(key) {
			m.act(key)
		}
	}
	return false, false
}

// up goes one level back, and reports whether there was none.
func (m *Model) up() bool {
	switch m.level {
	case ofSpaces:
		return true
	case ofTable:
		m.level = ofMoments
	case ofSides:
		m.level = ofMoments
	case ofMoments, ofChanges, ofText:
		m.level--
	}
	m.scroll = 0
	return false
}

// into goes one level further.
func (m *Model) into() {
	s := m.space()
	switch {
	case s == nil:
	case m.level == ofSpaces && !s.kept:
		m.note = s.says()
	case m.level == ofSpaces:
		m.level = ofMoments
	case m.level == ofMoments:
		if _, ok := m.wanted(); ok { // also where it is being looked at still
			m.level = ofChanges
		}
	case m.level == ofChanges && strings.Contains(m.path, "\ufffd"):
		m.note = "its name is no text: cloister diff " + m.name + " shows it"
	case m.level == ofChanges && m.path != "":
		m.level, m.scroll = ofText, 0
	case m.level == ofSides:
		m.runSides()
	}
}

// first selects the first path where none is.
func (m *Model) first() {
	if m.level <= ofText && m.path == "" && m.diff != nil && len(m.diff.Changes) > 0 {
		m.path = m.diff.Changes[0].Path
	}
}

// move is a key that moves, or chooses what is looked at.
func (m *Model) move(key string) bool {
	switch m.level {
	case ofText:
		return m.scrolled(key, &m.scroll, len(m.lines), m.room())
	case ofTable:
		return m.toSide(key) || m.scrolled(key, &m.scroll, len(m.table()), m.room())
	case ofChanges, ofSides:
		if key == " " {
			m.mark()
			return true
		}
	case ofSpaces, ofMoments:
	}
	by, ok := map[string]int{"down": 1, "j": 1, "up": -1, "k": -1, "pgdown": max(1, m.room()), "pgup": -max(1, m.room()),
		" ": max(1, m.room()), "b": -max(1, m.room()), "home": -1 << 30, "end": 1 << 30}[key]
	if !ok {
		return false
	}
	switch m.level {
	case ofSpaces:
		if i := stepped(slices.IndexFunc(m.list, func(s space) bool { return s.Name == m.name }), by, len(m.list)); i >= 0 {
			m.pick(m.list[i].Name)
		}
	case ofMoments:
		if i := stepped(m.at(), by, len(m.moments)); i >= 0 {
			m.choose(m.moments[i].key)
		}
	case ofChanges:
		if m.diff == nil {
			break
		}
		i := stepped(m.pathAt(), by, len(m.diff.Changes))
		for by > 0 && i < len(m.diff.Changes)-1 && m.diff.Changes[i].Path == m.path {
			i++ // names that are no text can look the same: none of them holds up
		}
		if i >= 0 {
			m.path = m.diff.Changes[i].Path
		}
	case ofSides:
		all := m.sideNames()
		if i := stepped(slices.Index(all, m.path), by, len(all)); i >= 0 {
			m.path = all[i]
		}
	case ofText, ofTable:
	}
	return true
}

// stepped is the place so many further in a list, -1 where it is empty.
func stepped(at, by, n int) int {
	if n == 0 {
		return -1
	}
	return max(0, min(at+by, n-1))
}

// pathAt is the place of the path that is selected.
func (m *Model) pathAt() int {
	if m.diff == nil {
		return -1
	}
	for i := range m.diff.Changes {
		if m.diff.Changes[i].Path == m.path {
			return i
		}
	}
	return 0
}

// mark chooses the selected path, or side, or no more.
func (m *Model) mark() {
	set := m.marked
	if m.level == ofSides {
		set = m.sides
	}
	if m.path == "" || m.level == ofChanges && strings.Contains(m.path, "\ufffd") {
		return
	}
	if set[m.path] {
		delete(set, m.path)
	} else {
		set[m.path] = true
	}
	m.move("down")
}

// act is a key that begins an act.
func (m *Model) act(key string) {
	do, ok := map[string]func(){"c": m.checkpoint, "r": m.restore, "f": m.fork, "=": m.compare, "v": m.compare,
		"a": m.apply, "d": m.discard, "u": m.undo, "s": m.turnSince}[key]
	s := m.space()
	switch {
	case !ok || s == nil || m.level > ofText:
	case !s.kept:
		m.note = s.says()
	case m.level == ofSpaces:
		m.note = "enter opens it first"
	case s.Problem != "":
		m.note = "it cannot be read: " + s.Problem
	case s.Busy:
		m.note = "a command changes it right now: look again when it has ended (g)"
	case m.acting != "":
		m.note = m.acting + " is being done: wait for that"
	default:
		do()
	}
}
