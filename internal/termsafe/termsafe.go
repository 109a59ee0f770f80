// Package termsafe passes a program's output on to a person's terminal without
// what reaches beyond the screen.
//
// It drops operating system commands (OSC: title, clipboard, notifications),
// device control strings, application and privacy messages, window operations,
// printing, reading the screen back and locking the keyboard, in their 7-bit form,
// in their 8-bit form and as UTF-8, also when they are split over writes or mixed
// with control characters. All else passes unchanged. A short text of someone else's, such as a name in a list, is
// rendered by [Text] or [Quote]. It does not draw, and it does not know which
// terminal listens. Most readers want New.
package termsafe

import (
	"bytes"
	"io"
)

// Filter is an io.Writer in front of a terminal.
type Filter struct {
	w     io.Writer
	state state
	seq   []byte // the control sequence so far
	more  int    // continuation bytes that a UTF-8 character still needs
	c2    bool   // its first byte was 0xC2, behind which C1 controls lie
	out   []byte

	silent bool
}

type state uint8

const (
	text      state = iota
	escape          // after ESC
	sequence        // after CSI
	message         // in a string that ends with BEL or ST: dropped
	messageST       // in such a string, after ESC
)

// maxSequence bounds a control sequence; a longer one is no terminal's.
const maxSequence = 128

// New gives a filter in front of w.
func New(w io.Writer) *Filter { return &Filter{w: w} }

// NewSilent gives a filter that also drops what makes a terminal answer, and
// what changes how it tells keys: for one of several terminals on one program,
// which are answered for elsewhere and whose keys have to mean the same.
func NewSilent(w io.Writer) *Filter { return &Filter{w: w, silent: true} }

// answered reports whether a control sequence is one that NewSilent drops: device
// attributes (c), status (n), parameters (x), modes ($p), version (>q), keys
// (u with a prefix, and m with one).
func answered(seq []byte) bool {
	final, middle := seq[len(seq)-1], seq[len(seq)-2]
	prefixed := seq[2] >= '<' && seq[2] <= '?'
	switch final {
	case 'c', 'n', 'x':
		return true
	case 'p':
		return middle == '$'
	case 'q', 'u', 'm':
		return prefixed
	}
	return false
}

// reaches reports whether a control sequence does more than draw, and is dropped in
// every case: windows are moved and titles typed in as input (t), what is on the
// screen goes to a printer, which may be a program (i), or comes back as sums, and
// the terminal tests itself (y), keys are locked (2 among the modes of h).
func reaches(seq []byte) bool {
	switch seq[len(seq)-1] {
	case 't', 'i', 'y':
		return true
	case 'h':
		for mode := range bytes.SplitSeq(seq[2:len(seq)-1], []byte(";")) {
			if string(bytes.TrimLeft(mode, "0")) == "2" && seq[2] < '<' {
				return true
			}
		}
	}
	return false
}

// Write filters p. It fails as w fails.
func (f *Filter) Write(p []byte) (int, error) {
	f.out = f.out[:0]
	for _, b := range p {
		f.step(b)
	}
	if len(f.out) > 0 {
		if _, err := f.w.Write(f.out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

const (
	enq = 0x05
	esc = 0x1b
	bel = 0x07
	can = 0x18
	sub = 0x1a
	del = 0x7f
)

func (f *Filter) step(b byte) {
	switch f.state {
	case text:
		f.text(b)
	case escape:
		switch {
		case b == esc:
		case b == can || b == sub:
			f.state = text
		case b < 0x20 || b == del:
			// A terminal executes a control character inside a sequence, and
			// the sequence goes on.
			f.control(b)
		default:
			f.introduce(b)
		}
	case sequence:
		switch {
		case b == esc:
			f.state = escape
		case b == can || b == sub:
			f.state = text
		case b < 0x20 || b == del:
			f.control(b)
		case b >= 0x80:
			f.state = text
			f.text(b)
		default:
			f.seq = append(f.seq, b)
			if b >= 0x40 {
				f.state = text
				if !reaches(f.seq) && !(f.silent && answered(f.seq)) {
					f.out = append(f.out, f.seq...)
				}
			} else if len(f.seq) > maxSequence {
				f.state = text
			}
		}
	case message:
		switch b {
		case bel, can, sub:
			f.state = text
		case esc:
			f.state = messageST
		}
	case messageST:
		switch b {
		case '\\':
			f.state = text
		case esc:
		default:
			// ESC ends a string whatever follows it.
			f.state = escape
			f.step(b)
		}
	}
}

func (f *Filter) control(b byte) {
	if b != del {
		f.out = append(f.out, b)
	}
}

// introduce handles the byte after ESC.
func (f *Filter) introduce(b byte) {
	switch b {
	case ']', 'P', '^', '_', 'X', 'k': // OSC, DCS, PM, APC, SOS, and screen's title
		f.state = message
	case '[':
		f.state, f.seq = sequence, append(f.seq[:0], esc, '[')
	case 'Z':
		f.state = text
		if !f.silent {
			f.out = append(f.out, esc, b)
		}
	default:
		f.state = text
		if b < 0x80 {
			f.out = append(f.out, esc, b)
		} else {
			f.text(b)
		}
	}
}

// text follows UTF-8 far enough to tell a C1 control from the inside of a
// character. C1 controls are dropped: no program needs them, and terminals take
// them for the sequences that they stand for.
func (f *Filter) text(b byte) {
	switch {
	case f.more > 0 && b >= 0x80 && b < 0xc0:
		f.more--
		if f.c2 {
			f.c2 = false
			if b < 0xa0 {
				f.c1(b)
				return
			}
			f.out = append(f.out, 0xc2)
		}
		f.out = append(f.out, b)
	case b == esc:
		f.begin()
		f.state = escape
	case b == enq && f.silent:
		f.begin()
	case b < 0x80:
		f.begin()
		f.out = append(f.out, b)
	case b < 0xa0:
		f.begin()
		f.c1(b)
	case b >= 0xc2 && b < 0xf5:
		f.begin()
		f.more = 1
		if b >= 0xe0 {
			f.more++
		}
		if b >= 0xf0 {
			f.more++
		}
		if b == 0xc2 {
			f.c2 = true // held back until the next byte tells
			return
		}
		f.out = append(f.out, b)
	default:
		f.begin()
		f.out = append(f.out, b)
	}
}

// begin ends a character that was cut short.
func (f *Filter) begin() { f.more, f.c2 = 0, false }

// c1 drops a C1 control and follows it into what it begins.
func (f *Filter) c1(b byte) {
	switch b {
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f: // DCS, SOS, OSC, PM, APC
		f.state = message
	case 0x9b:
		f.state, f.seq = sequence, append(f.seq[:0], esc, '[')
	}
}
