package vscreen

import "slices"

func (s *Screen) insertCells(n int) {
	p := s.page()
	line := p.lines[p.y]
	n = min(n, len(line)-p.x)
	cut(line, p.x)
	cut(line, len(line)-n)
	copy(line[p.x+n:], line[p.x:])
	s.erase(p.y, p.x, p.x+n)
}

func (s *Screen) deleteCells(n int) {
	p := s.page()
	line := p.lines[p.y]
	n = min(n, len(line)-p.x)
	cut(line, p.x)
	cut(line, p.x+n)
	copy(line[p.x:], line[p.x+n:])
	s.erase(p.y, len(line)-n, len(line))
}

// erase clears the cells from x to before end.
func (s *Screen) erase(y, x, end int) {
	line := s.page().lines[y]
	cut(line, x)
	cut(line, end)
	for ; x < end; x++ {
		line[x] = cell{pen: s.pen.background()}
	}
}

func (s *Screen) eraseLines(y, end int) {
	for ; y < end; y++ {
		s.erase(y, 0, s.size.Cols)
	}
}

// lineFeed goes down, and scrolls at the end of the region.
func (s *Screen) lineFeed() {
	p := s.page()
	switch {
	case p.y == p.bottom:
		s.scrollUp(1)
	case p.y < s.size.Rows-1:
		p.y++
	}
	p.wrap = false
}

func (s *Screen) reverseFeed() {
	p := s.page()
	switch {
	case p.y == p.top:
		s.scrollDown(p.top, 1)
	case p.y > 0:
		p.y--
	}
	p.wrap = false
}

// scrollUp moves the region's lines up. What leaves the main screen at its top
// is remembered.
func (s *Screen) scrollUp(n int) {
	p := s.page()
	n = min(n, p.bottom-p.top+1)
	if !s.alt && p.top == 0 {
		s.keep(p.lines[:n])
	}
	s.rotate(p.top, n)
}

// rotate takes n lines away at from, and adds blank ones at the region's end.
func (s *Screen) rotate(from, n int) {
	p := s.page()
	n = min(n, p.bottom-from+1)
	gone := slices.Clone(p.lines[from : from+n])
	copy(p.lines[from:p.bottom+1], p.lines[from+n:p.bottom+1])
	copy(p.lines[p.bottom+1-n:], gone)
	s.eraseLines(p.bottom+1-n, p.bottom+1)
}

// scrollDown moves the lines from a place to the region's end down.
func (s *Screen) scrollDown(from, n int) {
	p := s.page()
	n = min(n, p.bottom-from+1)
	gone := slices.Clone(p.lines[p.bottom+1-n : p.bottom+1])
	copy(p.lines[from+n:p.bottom+1], p.lines[from:p.bottom+1-n])
	copy(p.lines[from:], gone)
	s.eraseLines(from, from+n)
}
