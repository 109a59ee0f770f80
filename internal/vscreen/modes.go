package vscreen

import (
	"fmt"
	"slices"
)

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
