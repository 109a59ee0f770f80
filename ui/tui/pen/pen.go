// Package pen writes lines for a terminal's screen.
//
// The promise: whatever a text holds, it takes the one line that it was given, no wider than
// the screen, and nothing in it is obeyed by a terminal.
//
// It draws nothing by itself, and knows no page.
//
// Most readers want [Pen.Line].
package pen

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/width"

	"cloister/internal/termsafe"
)

// A Style is how a line looks.
type Style string

// The styles there are.
const (
	Bold    Style = "\x1b[1m"
	Inverse Style = "\x1b[7m"
	Faint   Style = "\x1b[2m"
	Yellow  Style = "\x1b[33m"
	Red     Style = "\x1b[31m"
	Green   Style = "\x1b[32m"
	Plain   Style = ""
	end           = "\x1b[0m"
)

// A Pen writes for one terminal.
type Pen struct {
	Width      int
	ASCII      bool // no other letters
	Colourless bool
}

// Text is what a terminal may be given of a text.
func (p Pen) Text(s string) string {
	if s = termsafe.Text(s); p.ASCII {
		s = termsafe.ASCII(s)
	}
	return s
}

// Line writes one line, cut at the screen's edge.
func (p Pen) Line(b *strings.Builder, style Style, text string) {
	if p.Colourless && (style == Yellow || style == Red || style == Green) {
		style = Plain
	}
	b.WriteString(string(style) + p.Cut(text) + end + "\n")
}

// Rule is a line across the screen.
func (p Pen) Rule() string {
	if p.ASCII {
		return strings.Repeat("-", p.Width)
	}
	return strings.Repeat("─", p.Width)
}

// Cut is what of a text has room in a line, with a mark where something is missing.
func (p Pen) Cut(text string) string {
	// A letter has at most four bytes, and takes one place or more: what lies further is off
	// the screen in any case, however long a text is.
	if most := 4*p.Width + 16; len(text) > most {
		for !utf8.RuneStart(text[most]) && most > 4*p.Width+12 {
			most--
		}
		text = text[:most]
	}
	s, more := p.Text(text), "…"
	if p.ASCII {
		more = ">"
	}
	if first, whole := Head(s, p.Width); whole {
		return first
	}
	first, _ := Head(s, p.Width-1)
	return first + more
}

// Head is what of a text has room in so many places, and whether that is all of it.
func Head(s string, most int) (string, bool) {
	used := 0
	for i, r := range s {
		if used += places(r); used > most {
			return s[:i], false
		}
	}
	return s, true
}

// Wrap breaks a text into lines of at most so many places.
func Wrap(s string, most int) []string {
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

// places is how many a character takes on a screen.
func places(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	case width.Neutral, width.EastAsianAmbiguous, width.EastAsianNarrow, width.EastAsianHalfwidth:
	}
	return 1
}
