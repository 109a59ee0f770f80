package terminal

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloister/api"
	"cloister/internal/vscreen"
)

// Asked is what waits for a person's answer, as a terminal shows it.
type Asked struct {
	Waiting int // how many questions wait
	// ID and Nonce are of the oldest one; without an ID no line is shown.
	ID, Nonce string
	// Text is that question in one line of ASCII. Elsewhere says why it cannot be allowed
	// here; "" where the text is all that is asked.
	Text, Elsewhere string
}

// AskedOf is what a terminal shows of the questions that wait, the oldest first. A line
// has room for a destination alone: everything else is answered where all of it is seen.
func AskedOf(list []api.Approval) Asked {
	a := Asked{Waiting: len(list)}
	if len(list) == 0 {
		return a
	}
	first := list[0]
	a.ID, a.Nonce, a.Text = first.ID, first.Nonce, ascii(first.Title)
	switch {
	case first.Kind != "network":
		a.Elsewhere = "more than a line"
	case first.Marks != "" || a.Text != first.Title:
		a.Elsewhere = "look closely"
	}
	return a
}

// ascii shows a text without what has another width, or looks like something else.
func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// Reply is a person's word on one question.
type Reply struct {
	ID, Nonce      string
	Allow, Session bool
}

// Answer gives that word to the question, and says in a few words what came of it.
type Answer func(context.Context, Reply) string

// barGuard is how long keys that answer are dead after a question came up: the person
// may be about to press one (HARDENING 5.8).
const barGuard = 500 * time.Millisecond

const (
	// answerWithin bounds one answer.
	answerWithin = 10 * time.Second
	// maxHeld is how much of the program's output waits while its screen is covered.
	maxHeld = 256 << 10
	// barRows is how many lines a question may take, and minRows what a terminal has
	// for it at least.
	barRows, minRows = 3, 6
)

// bar is the lines that lie over the bottom of a terminal while a question waits. Until
// it goes, the terminal is drawn from the screen that is kept of it, and the program's
// output is held back: so the program's own screen is not touched.
type bar struct {
	asked Asked
	since time.Time
	note  string // what came of the last answer
	news  string // a line that nothing is asked with
	up    bool
	back  []byte // uncovers the program's screen; nil where it has to be drawn anew
	held  []byte
	drawn []string
	size  vscreen.Size
}

// ask takes news of questions; what it gives goes to the terminal.
func (b *bar) ask(a Asked, s *vscreen.Screen, now time.Time) []byte {
	if a.ID != b.asked.ID {
		b.since, b.note = now, ""
	}
	b.asked = a
	if a.ID != "" {
		b.news = "" // it comes at the end, too
	}
	return b.draw(s)
}

// tell shows a line with which nothing is asked, unless a question is there; "" takes it away.
func (b *bar) tell(text string, s *vscreen.Screen) []byte {
	if b.asked.ID != "" {
		return nil
	}
	b.news = ascii(text)
	return b.draw(s)
}

// say puts words on the line.
func (b *bar) say(note string, s *vscreen.Screen) []byte {
	b.note = note
	return b.draw(s)
}

// draw shows the program's screen with the line over it; nothing where there is none,
// or no room.
func (b *bar) draw(s *vscreen.Screen) []byte {
	size := s.Size()
	if b.asked.ID == "" && b.news == "" || size.Rows < minRows {
		return b.lower(s)
	}
	var out []byte
	switch {
	case !b.up:
		b.up, b.back, b.held = true, s.Uncover(), []byte{}
		if b.back != nil {
			out = append(out, "\x1b[?1049h"...)
		}
		out = append(out, "\x1b[0m\x1b[?6l\x1b[?7h\x1b[4l"...)
		b.drawn = nil
	case size != b.size:
		b.back, b.held, b.drawn = nil, nil, nil // lines have moved about
	}
	b.size = size
	lines, _ := b.lines(size)
	rows := size.Rows - len(lines)
	x, y, visible := s.Cursor()
	from := max(0, y-rows+1) // what is typed stays in sight
	out = append(out, "\x1b[?25l"...)
	for i := range size.Rows {
		text := ""
		if i < rows {
			text = string(s.Line(from + i))
		} else {
			text = "\x1b[7m" + lines[i-rows] + "\x1b[0m"
		}
		if i < len(b.drawn) && b.drawn[i] == text {
			continue
		}
		out = fmt.Appendf(out, "\x1b[%d;1H\x1b[2K%s", i+1, text)
		for len(b.drawn) <= i {
			b.drawn = append(b.drawn, "")
		}
		b.drawn[i] = text
	}
	out = fmt.Appendf(out, "\x1b[%d;%dH", y-from+1, x+1)
	if visible {
		out = append(out, "\x1b[?25h"...)
	}
	return out
}

// output takes what the program wrote, after the screen has drawn it.
func (b *bar) output(body []byte, s *vscreen.Screen) []byte {
	if !b.up {
		return body
	}
	if b.back != nil && len(b.held)+len(body) > maxHeld {
		b.back, b.held = nil, nil
	}
	if b.back != nil {
		b.held = append(b.held, body...)
	}
	return b.draw(s)
}

// lower gives the program's screen back, with what it wrote meanwhile.
func (b *bar) lower(s *vscreen.Screen) []byte {
	if !b.up {
		return nil
	}
	b.up, b.drawn = false, nil
	if b.back != nil {
		return append(b.back, b.held...)
	}
	return s.Repaint()
}

// lines is what is shown, and whether an allow of it is taken here: that a question's
// end was on the screen is part of every answer.
func (b *bar) lines(size vscreen.Size) (out []string, allow bool) {
	if b.asked.ID == "" {
		return cut(b.news, size.Cols), false
	}
	text := "cloister asks: " + b.asked.Text
	if b.asked.Waiting > 1 {
		text = fmt.Sprintf("(1 of %d) ", b.asked.Waiting) + text
	}
	keys := "  [Ctrl-P, then a: allow, s: for this session, d: deny]"
	why := b.asked.Elsewhere
	if len(text)+len(keys) > barRows*size.Cols {
		why = "no room"
	}
	if why != "" {
		keys = "  [" + why + ": cloister approvals show " + b.asked.ID + "; Ctrl-P d: deny]"
		room := max(0, barRows*size.Cols-len(keys))
		if text = text[:min(len(text), room)]; text == "" {
			keys = keys[2:]
		}
	}
	if b.note != "" {
		text += "  " + ascii(b.note) // before the keys, which may not fit any more
	}
	return cut(text+keys, size.Cols), why == ""
}

// cut makes lines of a text, as many as there may be.
func cut(all string, cols int) (out []string) {
	for len(all) > 0 && len(out) < barRows {
		n := min(len(all), cols)
		out, all = append(out, all[:n]), all[n:]
	}
	return out
}

// press is a key behind Ctrl-P; taken says that it was meant for the question, and reply
// what the person answers, if the key is alive.
func (b *bar) press(key byte, now time.Time) (reply *Reply, note string, taken bool) {
	if !b.up || b.asked.ID == "" {
		return nil, "", false
	}
	r := &Reply{ID: b.asked.ID, Nonce: b.asked.Nonce}
	switch key {
	case 'a':
		r.Allow = true
	case 's':
		r.Allow, r.Session = true, true
	case 'd':
	default:
		return nil, "", false
	}
	if now.Sub(b.since) < barGuard {
		return nil, "it came up just now: look, then answer", true
	}
	if _, allow := b.lines(b.size); r.Allow && !allow {
		return nil, "not from here", true
	}
	return r, "", true
}
