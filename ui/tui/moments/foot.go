package moments

import (
	"strings"

	"cloister/api"
	"cloister/ui/tui/pen"
)

// foot is the last lines: the question that is asked, or what was said last and the keys.
func (m *Model) foot() []line {
	if m.ask != nil {
		return m.asked()
	}
	note := line{pen.Yellow, m.note}
	if m.note == "" && m.level == ofChanges {
		note.text = m.reason()
	}
	if m.help {
		return []line{note, {pen.Faint, "space b page   any other key goes back"}}
	}
	first, second := m.keys()
	if m.h < 16 || first == "" {
		return []line{note, {pen.Faint, strings.TrimSpace(first + second)}}
	}
	return []line{note, {pen.Bold, first}, {pen.Faint, second}}
}

// reason is why the selected path is marked.
func (m *Model) reason() string {
	if m.diff == nil {
		return ""
	}
	for i, list := range [][]api.Because{m.diff.Conflicts, m.diff.Held} {
		for _, b := range list {
			if b.Path == m.path {
				return m.bar() + []string{"in conflict: ", "held: "}[i] + b.Why
			}
		}
	}
	return ""
}

// asked is the question, with what is typed, and how it is answered.
func (m *Model) asked() (out []line) {
	q := m.ask
	text := q.text
	if q.yes == "" {
		text += ": " + q.typed + "_"
	}
	most := max(1, min(5, m.h-4)) // below the head and a line, with two more of ours
	lines := pen.Wrap(m.pen.Text(text), m.pen.Width)
	if q.yes == "" && len(lines) > most { // the end is what is being typed
		lines = lines[len(lines)-most:]
	}
	if m.note != "" {
		out = append(out, line{pen.Yellow, m.note})
	}
	for _, l := range lines[:min(len(lines), most)] {
		out = append(out, line{pen.Inverse, l})
	}
	switch {
	case q.yes == "":
		return append(out, line{pen.Faint, "enter does it   esc leaves it"})
	case len(q.looks) > 0:
		return append(out, line{pen.Faint, q.yes + " yes   space b page   any other key: no"})
	}
	return append(out, line{pen.Faint, q.yes + " yes   any other key: no"})
}

// keys are those of this level, in two lines.
func (m *Model) keys() (first, second string) {
	small := m.pen.Width < narrow
	switch m.level {
	case ofSpaces:
		return "", "enter open   j k move   ? help   q back"
	case ofSides:
		return "", "space choose   enter compare   q back"
	case ofTable:
		return "", "1-9 go to one   j k move   q back"
	case ofMoments:
		second = "enter changes   s since   g again   ? help   q back"
	case ofChanges:
		second = "space choose   enter text   s since   ? help   q back"
	case ofText:
		second = "j k space b move   ? help   q back"
	}
	if small {
		return "", "c r f = a d u s   enter   ?   q back"
	}
	return "c checkpoint  r restore  f fork  = compare  a apply  d discard  u undo", second
}

// helpLines say what each key does.
func helpLines() (out []line) {
	for _, l := range []string{
		"enter  further: moments, what changed, its text",
		"q esc  back; j k, space b, home end: move",
		"c  keep this moment (a checkpoint)",
		"r  go back to the chosen checkpoint",
		"f  new cloisters from the chosen moment",
		"=  compare with others, by a command too",
		"space  choose a path; a and d are of these",
		"a  apply to the project, all or none",
		"d  give up the chosen paths, or all",
		"u  take the last apply back",
		"s  compare with the checkpoint before",
		"g  look again",
		"Tab  the questions, which stay on top",
		"",
		"A M D R m  added modified deleted renamed",
		"           mode; x chosen",
		"!  the project changed it meanwhile",
		"*  programs of the host run or obey it",
	} {
		out = append(out, line{pen.Plain, l})
	}
	return out
}
