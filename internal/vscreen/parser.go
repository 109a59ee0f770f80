package vscreen

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// parser finds the sequences in a stream of bytes, after the state machine of
// DEC's terminals (Paul Williams, vt100.net/emu/dec_ansi_parser).
type parser struct {
	state  state
	prefix byte    // < = > ? right after CSI
	middle byte    // an intermediate; of several the last
	params [][]int // each with the parts that colons divide it into
	text   [4]byte // a character under way
	have   int
	want   int
}

type state uint8

const (
	ground state = iota
	escape
	sequence // after CSI
	message  // of a string that is passed over
	messageEscape
)

// maxParams bounds the parameters of a sequence, and the parts of one.
const maxParams, maxParam = 32, 65535

const esc = 0x1b

func (p *parser) step(s *Screen, b byte) {
	switch {
	case p.state == message:
		switch b {
		case 0x07, 0x18, 0x1a:
			p.state = ground
		case esc:
			p.state = messageEscape
		}
		return
	case p.state == messageEscape && b == '\\':
		p.state = ground
		return
	case b == esc:
		p.begin(escape)
		return
	case b == 0x18 || b == 0x1a:
		p.begin(ground)
		return
	case b < 0x20:
		p.flush(s)
		s.control(b)
		return
	}
	switch p.state {
	case ground:
		p.character(s, b)
	case sequence:
		p.inSequence(s, b)
	default:
		p.state = escape
		p.afterEscape(s, b)
	}
}

func (p *parser) begin(next state) {
	p.state, p.prefix, p.middle, p.params, p.want, p.have = next, 0, 0, p.params[:0], 0, 0
}

// flush draws a character that was cut short as what it is not.
func (p *parser) flush(s *Screen) {
	if p.want > 0 {
		p.want, p.have = 0, 0
		s.print(utf8.RuneError)
	}
}

func (p *parser) character(s *Screen, b byte) {
	switch {
	case b < 0x80:
		p.flush(s)
		if b != 0x7f {
			s.print(rune(b))
		}
		return
	case b >= 0xc0:
		p.flush(s)
		p.have, p.want = 0, 2
		if b >= 0xe0 {
			p.want++
		}
		if b >= 0xf0 {
			p.want++
		}
	case p.want == 0:
		return // a C1 control, which no program needs, or half a character
	}
	p.text[p.have] = b
	p.have++
	if p.have == p.want {
		r, _ := utf8.DecodeRune(p.text[:p.have])
		p.want, p.have = 0, 0
		if r >= 0xa0 {
			s.print(r)
		}
	}
}

func (p *parser) afterEscape(s *Screen, b byte) {
	switch {
	case b == '[':
		p.begin(sequence)
		p.param()
	case b == ']' || b == 'P' || b == '^' || b == '_' || b == 'X' || b == 'k':
		p.state = message
	case b >= 0x20 && b < 0x30:
		p.middle = b
	default:
		p.state = ground
		if b < 0x80 {
			s.escaped(p.middle, b)
		}
	}
}

func (p *parser) inSequence(s *Screen, b byte) {
	switch {
	case b >= '0' && b <= '9':
		last := p.params[len(p.params)-1]
		n := &last[len(last)-1]
		*n = min(*n*10+int(b-'0'), maxParam)
	case b == ';' && len(p.params) < maxParams:
		p.param()
	case b == ':' && len(p.params[len(p.params)-1]) < maxParams:
		p.params[len(p.params)-1] = append(p.params[len(p.params)-1], 0)
	case b >= '<' && b <= '?':
		p.prefix = b
	case b >= 0x20 && b < 0x30:
		p.middle = b
	case b >= 0x40 && b < 0x7f:
		p.state = ground
		s.obey(sequenceOf{p.prefix, p.middle, b}, p.params)
	case b >= 0x80:
		p.state = ground
		p.character(s, b)
	}
}

// param begins the next parameter, in the memory of earlier ones.
func (p *parser) param() {
	n := len(p.params)
	if n == cap(p.params) {
		p.params = append(p.params, nil)
	}
	p.params = p.params[:n+1]
	p.params[n] = append(p.params[n][:0], 0)
}

// escaped obeys a sequence of ESC alone.
func (s *Screen) escaped(middle, b byte) {
	p := s.page()
	switch middle {
	case '(', ')':
		s.sets[middle-'('] = b
		return
	case '#':
		if b == '8' {
			for y := range p.lines {
				for x := range p.lines[y] {
					p.lines[y][x] = cell{r: 'E'}
				}
			}
		}
		return
	case 0:
	default:
		return
	}
	switch b {
	case '7':
		s.save()
	case '8':
		s.restore()
	case 'D':
		s.lineFeed()
	case 'E':
		p.x = 0
		s.lineFeed()
	case 'M':
		s.reverseFeed()
	case 'H':
		s.tabs[p.x] = true
	case '=':
		s.keypad = true
	case '>':
		s.keypad = false
	case 'Z':
		s.answer("\x1b[?62;22c")
	case 'c':
		s.reset()
	}
}

// sequenceOf names a control sequence.
type sequenceOf struct{ prefix, middle, final byte }

// obey does what a control sequence says; what is not known does nothing.
func (s *Screen) obey(c sequenceOf, params [][]int) {
	arg := func(i, least int) int {
		if i < len(params) {
			return max(params[i][0], least)
		}
		return least
	}
	switch c {
	case sequenceOf{'?', 0, 'h'}, sequenceOf{'?', 0, 'l'}:
		for _, p := range params {
			s.private(p[0], c.final == 'h')
		}
		return
	case sequenceOf{0, ' ', 'q'}:
		s.shape = arg(0, 0)
		return
	case sequenceOf{0, '!', 'p'}:
		s.softReset()
		return
	case sequenceOf{'>', 0, 'c'}:
		s.answer("\x1b[>1;10;0c")
		return
	case sequenceOf{'?', '$', 'p'}:
		s.tellMode(arg(0, 0))
		return
	case sequenceOf{'?', 0, 'n'}:
		if arg(0, 0) == 6 {
			p := s.page()
			s.answer(fmt.Sprintf("\x1b[?%d;%dR", p.y+1, p.x+1))
		}
		return
	case sequenceOf{'?', 0, 'J'}, sequenceOf{'?', 0, 'K'}: // selective erase, of which nothing is protected
	default:
		if c.prefix != 0 || c.middle != 0 {
			return
		}
	}
	s.plain(c.final, params, arg)
}

// plain obeys a sequence without prefix.
func (s *Screen) plain(final byte, params [][]int, arg func(i, least int) int) {
	p := s.page()
	n := arg(0, 1)
	switch final {
	case '@':
		s.insertCells(n)
	case 'A':
		s.vertical(-n)
	case 'B', 'e':
		s.vertical(n)
	case 'C', 'a':
		s.horizontal(n)
	case 'D':
		s.horizontal(-n)
	case 'E':
		s.vertical(n)
		p.x = 0
	case 'F':
		s.vertical(-n)
		p.x = 0
	case 'G', '`':
		s.horizontal(n - 1 - p.x)
	case 'H', 'f':
		s.move(arg(1, 1)-1, n-1)
	case 'I':
		s.tab(n)
	case 'Z':
		s.tab(-n)
	case 'J':
		s.eraseDisplay(arg(0, 0))
	case 'K':
		s.eraseLine(arg(0, 0))
	case 'L', 'M':
		if p.y < p.top || p.y > p.bottom {
			return
		}
		if final == 'L' {
			s.scrollDown(p.y, n)
		} else {
			s.rotate(p.y, n)
		}
		p.x, p.wrap = 0, false
	case 'P':
		s.deleteCells(n)
	case 'S':
		s.scrollUp(n)
	case 'T':
		s.scrollDown(p.top, n)
	case 'X':
		s.erase(p.y, p.x, min(p.x+n, s.size.Cols))
	case 'b':
		if s.last != 0 {
			for range min(n, s.size.Cols*s.size.Rows) {
				s.print(s.last)
			}
		}
	case 'c':
		s.answer("\x1b[?62;22c")
	case 'd':
		s.move(p.x, n-1)
	case 'g':
		if arg(0, 0) == 3 {
			clear(s.tabs)
		} else {
			s.tabs[p.x] = false
		}
	case 'h', 'l':
		for _, m := range params {
			switch m[0] {
			case 4:
				s.insert = final == 'h'
			case 20:
				s.newline = final == 'h'
			}
		}
	case 'm':
		s.pen.set(params)
	case 'n':
		switch arg(0, 0) {
		case 5:
			s.answer("\x1b[0n")
		case 6:
			y := p.y
			if s.modes[origin] {
				y -= p.top
			}
			s.answer(fmt.Sprintf("\x1b[%d;%dR", y+1, p.x+1))
		}
	case 'r':
		top, bottom := n-1, arg(1, 0)-1
		if bottom < 0 || bottom >= s.size.Rows {
			bottom = s.size.Rows - 1
		}
		if top < bottom {
			p.top, p.bottom = top, bottom
			s.move(0, 0)
		}
	case 's':
		s.save()
	case 'u':
		s.restore()
	}
}

func (s *Screen) eraseDisplay(what int) {
	p := s.page()
	switch what {
	case 0:
		s.erase(p.y, p.x, s.size.Cols)
		s.eraseLines(p.y+1, s.size.Rows)
	case 1:
		s.eraseLines(0, p.y)
		s.erase(p.y, 0, p.x+1)
	case 2:
		s.eraseLines(0, s.size.Rows)
	case 3:
		s.history = history{}
	}
	p.wrap = p.wrap && what == 3
}

func (s *Screen) eraseLine(what int) {
	p := s.page()
	switch what {
	case 0:
		s.erase(p.y, p.x, s.size.Cols)
	case 1:
		s.erase(p.y, 0, p.x+1)
	case 2:
		s.erase(p.y, 0, s.size.Cols)
	}
	p.wrap = false
}

// The private modes that this room itself looks at. wrapOff and hidden are kept
// as what differs from a fresh terminal.
const (
	origin  = 6
	wrapOff = 7
	hidden  = 25
)

// kept are the other private modes that a replay sets again: cursor keys,
// reversed screen, mouse, focus, pasting.
func kept() []int {
	return []int{1, 5, 9, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 2004}
}

func (s *Screen) setMode(mode int, on bool) {
	if on {
		s.modes[mode] = true
	} else {
		delete(s.modes, mode)
	}
}

// private sets one private mode.
func (s *Screen) private(mode int, on bool) {
	switch mode {
	case origin:
		s.setMode(origin, on)
		s.move(0, 0)
	case wrapOff, hidden:
		s.setMode(mode, !on)
	case 47, 1047, 1049:
		s.alternate(mode, on)
	case 1048:
		if on {
			s.save()
		} else {
			s.restore()
		}
	default:
		if slices.Contains(kept(), mode) {
			s.setMode(mode, on)
		}
	}
}

// alternate changes between the two screens.
func (s *Screen) alternate(mode int, on bool) {
	if on == s.alt {
		return
	}
	if on && mode == 1049 {
		s.save()
	}
	from := *s.page()
	s.alt = on
	p := s.page()
	p.x, p.y, p.wrap = from.x, from.y, false
	p.top, p.bottom = 0, s.size.Rows-1
	if on {
		p.lines = blank(s.size, s.pen)
	}
	if !on && mode == 1049 {
		s.restore()
	}
}

func (s *Screen) softReset() {
	s.insert, s.keypad, s.pen, s.shape = false, false, pen{}, 0
	s.sets, s.shift = [2]byte{'B', 'B'}, 0
	for _, m := range []int{origin, wrapOff, hidden, 1} {
		delete(s.modes, m)
	}
	p := s.page()
	p.top, p.bottom, p.saved = 0, s.size.Rows-1, saved{}
}

// tellMode answers DECRQM.
func (s *Screen) tellMode(mode int) {
	state := 0
	on := s.modes[mode]
	switch {
	case mode == wrapOff || mode == hidden:
		state = 2
		if !on {
			state = 1
		}
	case mode == 47 || mode == 1047 || mode == 1049:
		state = 2
		if s.alt {
			state = 1
		}
	case mode == origin || slices.Contains(kept(), mode):
		state = 2
		if on {
			state = 1
		}
	}
	s.answer(fmt.Sprintf("\x1b[?%d;%d$y", mode, state))
}

func (s *Screen) answer(text string) {
	if s.reply != nil {
		s.reply([]byte(text))
	}
}
