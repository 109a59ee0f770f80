package tui

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"cloister/ui/tui/moments"
)

// A decoder turns what a terminal sends, in pieces as they come, into keys. What was pasted is
// one key, which begins with [moments.Pasted]: nothing in it is pressed.
type decoder struct {
	rest   []byte // the beginning of what has no end yet
	pasted *strings.Builder
}

const (
	pasteBegins, pasteEnds = "\x1b[200~", "\x1b[201~"
	// maxPasted bounds what is kept of what was pasted, in bytes.
	maxPasted = 4 << 10
	// maxSequence bounds what begins as a key and has no end yet, in bytes.
	maxSequence = 32
)

// keys are those of one piece. more says that another piece follows at once, so that an Escape
// at its end may be the beginning of a longer key.
func (d *decoder) keys(piece []byte, more bool) (out []string) {
	b := append(d.rest, piece...)
	d.rest = nil
	for len(b) > 0 {
		switch {
		case d.pasted != nil:
			text, after, ended := bytes.Cut(b, []byte(pasteEnds))
			if !ended { // its end may have begun
				n := max(0, len(b)-len(pasteEnds)+1)
				d.keep(b[:n])
				d.rest = bytes.Clone(b[n:])
				return out
			}
			d.keep(text)
			out, d.pasted = append(out, moments.Pasted+d.pasted.String()), nil
			b = after
		case bytes.HasPrefix(b, []byte(pasteBegins)):
			d.pasted, b = &strings.Builder{}, b[len(pasteBegins):]
		case unfinished(b, more):
			d.rest = bytes.Clone(b)
			return out
		default:
			key, n := oneKey(b)
			if key != "" {
				out = append(out, key)
			}
			b = b[n:]
		}
	}
	return out
}

// keep keeps pasted text, as far as there is room.
func (d *decoder) keep(text []byte) {
	d.pasted.Write(text[:min(len(text), max(0, maxPasted-d.pasted.Len()))])
}

// unfinished reports whether bytes are no more than the beginning of a key.
func unfinished(b []byte, more bool) bool {
	switch {
	case len(b) >= maxSequence:
		return false
	case b[0] != 0x1b:
		return !utf8.FullRune(b)
	case len(b) == 1:
		return more
	case b[1] != '[' && b[1] != 'O':
		return false
	}
	return !bytes.ContainsFunc(b[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
}

// Keys names the keys in what a terminal sent at once. What it does not know it
// leaves out.
func Keys(b []byte) []string { return (&decoder{}).keys(b, false) }

func oneKey(b []byte) (key string, n int) {
	if b[0] != 0x1b {
		return plainKey(b)
	}
	if len(b) < 2 || b[1] != '[' && b[1] != 'O' {
		return "esc", 1
	}
	end := 2
	for end < len(b) && (b[end] < 0x40 || b[end] > 0x7e) {
		end++
	}
	if end == len(b) {
		return "", end
	}
	return map[string]string{
		"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "5~": "pgup", "6~": "pgdown",
	}[string(b[2:end+1])], end + 1
}

func plainKey(b []byte) (key string, n int) {
	switch b[0] {
	case 3:
		return "ctrl+c", 1
	case '\r', '\n':
		return "enter", 1
	case 8, 0x7f:
		return "backspace", 1
	case '\t':
		return "tab", 1
	}
	r, n := utf8.DecodeRune(b)
	if r < ' ' || r == utf8.RuneError {
		return "", n
	}
	return string(r), n
}
