package vscreen

import "fmt"

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
