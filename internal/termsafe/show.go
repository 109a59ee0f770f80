package termsafe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text writes on one line, for a person, what someone else wrote: everything
// that a terminal would obey, that has no shape, that turns the direction of
// reading or that hides behind another letter's shape is escaped as Go escapes
// it. It is the only function by which foreign text reaches a person's eye.
func Text(s string) string {
	if plainASCII(s) {
		return s
	}
	return show(s, false)
}

// ASCII is a text for a terminal that shows no other letters: they are escaped as Go
// escapes them, and the dots of what was cut are three.
func ASCII(s string) string {
	if plainASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\u2026':
			b.WriteString("...")
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// Lines is Text for a text of several lines, with its tabs.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		cells := strings.Split(strings.TrimSuffix(l, "\r"), "\t")
		for j, cell := range cells {
			cells[j] = Text(cell)
		}
		lines[i] = strings.Join(cells, "\t")
	}
	return strings.Join(lines, "\n")
}

// Quote is Text in quotation marks, in such a way that strconv.Unquote gives
// exactly the bytes of s back: what is shown is what is meant. A run of spaces
// is spelled out, or it would push the rest out of sight.
func Quote(s string) string { return `"` + show(s, true) + `"` }

// Clip is s cut to at most about most bytes, with the number of those missing.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return fmt.Sprintf("%s[%d bytes more]", s[:n], len(s)-n)
}

// Marks tells what about s could fool an eye that reads Text(s): "" where
// nothing could.
func Marks(s string) string {
	if plainASCII(s) {
		if strings.Contains(s, "xn--") {
			return "a name in letters that are not ASCII"
		}
		return ""
	}
	hidden, foreign := false, false
	scripts := map[string]bool{}
	var c combining
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1, !visible(r), c.crowded(r):
			hidden = true
		case r >= utf8.RuneSelf:
			foreign = true
		}
		if unicode.IsLetter(r) {
			scripts[script(r)] = true
		}
		i += n
	}
	switch {
	case hidden:
		return "characters that cannot be seen or are not text"
	case len(scripts) > 1:
		return "letters of several alphabets, which can look alike"
	case foreign:
		return "letters that are not ASCII"
	}
	return ""
}

// Hidden reports whether s holds what cannot be seen or is no text.
func Hidden(s string) bool {
	var c combining
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || !visible(r) || c.crowded(r) {
			return true
		}
		i += n
	}
	return false
}

func script(r rune) string {
	for _, s := range []struct {
		name  string
		table *unicode.RangeTable
	}{{"latin", unicode.Latin}, {"cyrillic", unicode.Cyrillic}, {"greek", unicode.Greek}, {"armenian", unicode.Armenian},
		{"cherokee", unicode.Cherokee}} {
		if unicode.Is(s.table, r) {
			return s.name
		}
	}
	return "other"
}

func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= del {
			return false
		}
	}
	return true
}

func show(s string, quoted bool) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	spaces := 0
	var c combining
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r != ' ' {
			spaces = 0
		}
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case quoted && (r == '"' || r == '\\'):
			b.WriteByte('\\')
			b.WriteRune(r)
		case quoted && r == ' ':
			if spaces++; spaces > maxSpaces {
				b.WriteString(`\x20`)
			} else {
				b.WriteByte(' ')
			}
		case !visible(r), c.crowded(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// maxSpaces is how many spaces in a row are shown as such.
const maxSpaces = 3

// combining counts marks that pile up on one letter until it cannot be read.
type combining struct{ run int }

func (c *combining) crowded(r rune) bool {
	if !unicode.In(r, unicode.Mn, unicode.Me) {
		c.run = 0
		return false
	}
	c.run++
	return c.run > 2
}

// visible reports whether a rune has a shape of its own: HARDENING 5.6.
func visible(r rune) bool {
	switch {
	case r == ' ':
		return true
	case r == utf8.RuneError, !unicode.IsGraphic(r), unicode.In(r, unicode.Zs, unicode.Cf, unicode.Co):
		return false
	case unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return false // among them U+115F, U+1160 and U+3164: letters without a shape
	}
	return true
}

// JSON escapes in a JSON text what its encoder leaves raw and a terminal, an editor
// or a reader's eye could trip over: C1 controls, DEL, bidirectional overrides,
// invisible letters, spaces that are not the space. Outside of strings JSON is
// ASCII, so every such rune stands in a string, where \u is its spelling: the text
// means the same.
func JSON(text []byte) []byte {
	if !slices.ContainsFunc(text, func(c byte) bool { return c >= del }) {
		return text
	}
	out := make([]byte, 0, len(text)+32)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case visible(r) || r < ' ':
			out = append(out, text[i:i+n]...)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += n
	}
	return out
}
