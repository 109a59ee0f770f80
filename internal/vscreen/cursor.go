package vscreen

// move puts the cursor somewhere; with origin mode rows count from the region's
// top.
func (s *Screen) move(x, y int) {
	p := s.page()
	lowest := s.size.Rows - 1
	if s.modes[origin] {
		y, lowest = y+p.top, p.bottom
	}
	p.x, p.y, p.wrap = min(max(x, 0), s.size.Cols-1), min(max(y, 0), lowest), false
}

// vertical moves the cursor by dy, and not out of the region that it is in.
func (s *Screen) vertical(dy int) {
	p := s.page()
	top, bottom := 0, s.size.Rows-1
	if p.y >= p.top {
		top = p.top
	}
	if p.y <= p.bottom {
		bottom = p.bottom
	}
	if dy < 0 {
		p.y = max(p.y+dy, min(top, p.y))
	} else {
		p.y = min(p.y+dy, max(bottom, p.y))
	}
	p.wrap = false
}

func (s *Screen) horizontal(dx int) {
	p := s.page()
	p.x, p.wrap = min(max(p.x+dx, 0), s.size.Cols-1), false
}

func (s *Screen) tab(n int) {
	p := s.page()
	for ; n > 0 && p.x < s.size.Cols-1; n-- {
		for p.x++; p.x < s.size.Cols-1 && !s.tabs[p.x]; p.x++ {
		}
	}
	for ; n < 0 && p.x > 0; n++ {
		for p.x--; p.x > 0 && !s.tabs[p.x]; p.x-- {
		}
	}
	p.wrap = false
}

func (s *Screen) save() {
	p := s.page()
	p.saved = saved{p.x, p.y, s.pen, s.sets, s.shift, s.modes[origin]}
}

func (s *Screen) restore() {
	p := s.page()
	v := p.saved
	if v.sets == [2]byte{} {
		v.sets = [2]byte{'B', 'B'}
	}
	s.pen, s.sets, s.shift = v.pen, v.sets, v.shift
	s.setMode(origin, v.origin)
	p.x, p.y, p.wrap = v.x, v.y, false
}
