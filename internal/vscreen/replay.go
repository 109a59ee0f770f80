package vscreen

import (
	"slices"
	"strconv"
	"unicode"

	"golang.org/x/text/width"
)

// appendLine writes a line from its beginning, with a fresh pen before and
// after, without the blanks at its end.
func appendLine(out []byte, line []cell) []byte {
	end := len(line)
	for end > 0 && (line[end-1].r == 0 || line[end-1].r == ' ') && line[end-1].mark == 0 && line[end-1].pen == (pen{}) &&
		(end < 2 || !wide(line[end-2].r)) {
		end--
	}
	now := pen{}
	for x := 0; x < end; x++ {
		c := line[x]
		if c.pen != now {
			out = c.pen.append(out)
			now = c.pen
		}
		out = c.appendRune(out)
		if wide(c.r) {
			x++
		}
	}
	if now != (pen{}) {
		out = append(out, "\x1b[0m"...)
	}
	return out
}

// Line writes one line of what is shown, with a fresh pen before and after.
func (s *Screen) Line(y int) []byte { return appendLine(nil, s.page().lines[y]) }

// History are the lines that left at the top, as they are replayed.
func (s *Screen) History() []string { return slices.Clone(s.history.lines[s.history.dropped:]) }

// fresh makes a terminal's modes those that it had when it was switched on, as
// far as anything here sets them. It moves the cursor home.
const fresh = "\x1b[0m\x1b[r\x1b[4l\x1b[20l\x1b[?6l\x1b[?7h\x1b[?1l\x1b[?5l\x1b>\x1b(B\x1b)B\x0f" +
	"\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?2004l"

// Replay makes another terminal of the same size show this screen: the history
// and the main screen are written as lines, so that they go into that
// terminal's own history, below what it shows. The cursor may be anywhere.
func (s *Screen) Replay() []byte {
	main := &s.pages[0]
	out := append([]byte{}, "\x1b[?25l"+fresh+"\x1b["+strconv.Itoa(MaxSide)+";1H"...)
	// What it shows now goes up and out, not under what follows.
	out = append(out, "\r\n"...)
	for _, line := range s.history.lines[s.history.dropped:] {
		out = append(append(out, line...), "\r\n"...)
	}
	for y, line := range main.lines {
		out = appendLine(out, line)
		if y < len(main.lines)-1 {
			out = append(out, "\r\n"...)
		}
	}
	return s.settle(out)
}

// Repaint makes a terminal that shows an older state of this screen show this
// one; its history stays as it is.
func (s *Screen) Repaint() []byte {
	out := append([]byte{}, "\x1b[?25l\x1b[?1049l"+fresh...)
	return s.settle(appendPage(out, &s.pages[0]))
}

func appendPage(out []byte, p *page) []byte {
	out = append(out, "\x1b[H\x1b[2J"...)
	for y, line := range p.lines {
		out = append(at(out, 0, y), appendLine(nil, line)...)
	}
	return out
}

func at(out []byte, x, y int) []byte {
	out = append(out, "\x1b["...)
	out = strconv.AppendInt(out, int64(y+1), 10)
	out = strconv.AppendInt(append(out, ';'), int64(x+1), 10)
	return append(out, 'H')
}

// settle goes over to the alternate screen if that is shown, and sets modes, pen
// and cursor.
func (s *Screen) settle(out []byte) []byte {
	if s.alt {
		main := s.pages[0].saved
		out = at(out, main.x, main.y)
		out = append(main.pen.append(out), "\x1b[?1049h\x1b[0m"...)
		out = appendPage(out, &s.pages[1])
	}
	p := s.page()
	if p.top != 0 || p.bottom != s.size.Rows-1 {
		out = append(out, "\x1b["...)
		out = strconv.AppendInt(out, int64(p.top+1), 10)
		out = append(strconv.AppendInt(append(out, ';'), int64(p.bottom+1), 10), 'r')
	}
	out = at(out, p.x, p.y)
	if p.wrap {
		// Only drawing the last character again brings the terminal there.
		x := p.x
		if x > 0 && p.lines[p.y][x].r == 0 && wide(p.lines[p.y][x-1].r) {
			x--
		}
		out = p.lines[p.y][x].pen.append(at(out, x, p.y))
		out = p.lines[p.y][x].appendRune(out)
	}
	out = s.pen.append(out)
	for _, set := range []struct {
		on   bool
		text string
	}{
		{s.insert, "\x1b[4h"}, {s.newline, "\x1b[20h"}, {s.keypad, "\x1b="}, {s.modes[wrapOff], "\x1b[?7l"},
		{s.sets[0] == '0', "\x1b(0"}, {s.sets[1] == '0', "\x1b)0"}, {s.shift == 1, "\x0e"},
	} {
		if set.on {
			out = append(out, set.text...)
		}
	}
	for _, mode := range kept() {
		if s.modes[mode] {
			out = append(strconv.AppendInt(append(out, "\x1b[?"...), int64(mode), 10), 'h')
		}
	}
	if s.modes[origin] {
		out = append(out, "\x1b[?6h"...)
		out = at(out, p.x, p.y-p.top)
	}
	if s.shape > 0 && s.shape <= 6 {
		out = append(strconv.AppendInt(append(out, "\x1b["...), int64(s.shape), 10), " q"...)
	}
	if !s.modes[hidden] {
		out = append(out, "\x1b[?25h"...)
	}
	return out
}

// Uncover is what takes a terminal that shows this screen back from the alternate one,
// which was drawn on meanwhile; nil where only Repaint does: what terminals keep of modes
// when they go over differs.
func (s *Screen) Uncover() []byte {
	p := s.page()
	if s.alt || p.wrap || p.top != 0 || p.bottom != s.size.Rows-1 || s.insert || s.newline || s.modes[wrapOff] ||
		s.modes[origin] || s.sets != [2]byte{'B', 'B'} || s.shift != 0 {
		return nil
	}
	out := at(append([]byte{}, "\x1b[?1049l\x1b[0m"...), p.x, p.y)
	out = s.pen.append(out)
	if s.modes[hidden] {
		return append(out, "\x1b[?25l"...)
	}
	return append(out, "\x1b[?25h"...)
}

// Cursor is where the cursor is, and whether it is shown.
func (s *Screen) Cursor() (x, y int, shown bool) {
	p := s.page()
	return p.x, p.y, !s.modes[hidden]
}

// Leave gives a terminal that shows this screen back: the main screen, a fresh
// pen and modes, the cursor on a line of its own below.
func (s *Screen) Leave() []byte {
	var out []byte
	y := s.page().y
	if s.alt {
		out = append(out, "\x1b[?1049l"...)
		y = s.pages[0].saved.y
	}
	out = append(out, fresh...)
	if s.shape != 0 {
		out = append(out, "\x1b[0 q"...)
	}
	return append(at(out, 0, y), "\x1b[?25h\r\n"...)
}

// wide tells a character that takes two places.
func wide(r rune) bool {
	if r < 0x1100 {
		return false
	}
	k := width.LookupRune(r).Kind()
	return k == width.EastAsianWide || k == width.EastAsianFullwidth
}

// widthOf is the number of places that a character takes.
func widthOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) || r == 0x200b:
		return 0
	case wide(r):
		return 2
	}
	return 1
}
