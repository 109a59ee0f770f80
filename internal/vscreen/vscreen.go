// Package vscreen keeps the screen that a program's output draws.
//
// A Screen takes the bytes that a terminal would get and keeps what it would
// show: both screens, the lines that left at the top, cursor, pen and modes. It
// gives back the bytes that make another terminal show the same, whenever that
// one comes. The promise: any bytes at all are taken, in memory that is bounded
// by the size and maxHistory, and what is given back holds nothing but text,
// colours, cursor moves and the modes named here.
//
// It knows no program and no terminal, does not reflow lines when the size
// changes, and ignores titles, pictures and every other string. Its model is
// xterm; a cell holds one character with one mark on it.
//
// Most readers want [New], [Screen.Draw] and [Screen.Replay].
package vscreen

import "unicode/utf8"

// Size is of a screen, in characters.
type Size struct{ Cols, Rows int }

// MaxSide bounds both sides of a screen: a resize comes from outside.
const MaxSide = 1000

// within gives a size that a screen can have.
func (s Size) within() Size {
	return Size{min(max(s.Cols, 1), MaxSide), min(max(s.Rows, 1), MaxSide)}
}

// Screen is a terminal that no one looks at. It is not safe for use by several
// goroutines.
type Screen struct {
	size    Size
	pages   [2]page // the main one and the alternate
	alt     bool
	pen     pen
	tabs    []bool
	modes   map[int]bool // private modes that differ from a fresh terminal's
	insert  bool
	newline bool
	keypad  bool
	shape   int // of the cursor, as DECSCUSR numbers it
	sets    [2]byte
	shift   int // which of sets is in use
	last    rune
	history history
	parser  parser
	reply   func([]byte)
}

// page is one of a terminal's two screens.
type page struct {
	lines       [][]cell
	x, y        int
	wrap        bool // the next character goes to the next line
	top, bottom int  // the region that scrolls
	saved       saved
}

// saved is what DECSC keeps.
type saved struct {
	x, y   int
	pen    pen
	sets   [2]byte
	shift  int
	origin bool
}

// cell is one place on a screen. The second place of a wide character has the
// rune 0 behind a wide one.
type cell struct {
	r, mark rune
	pen     pen
}

// New gives an empty screen. Answers to what programs ask of a terminal go to
// reply, on the goroutine that writes.
func New(size Size, reply func([]byte)) *Screen {
	s := &Screen{reply: reply, size: size.within()}
	s.reset()
	return s
}

// reset makes it fresh, as RIS does; the history stays.
func (s *Screen) reset() {
	for i := range s.pages {
		s.pages[i] = page{lines: blank(s.size, pen{}), bottom: s.size.Rows - 1}
	}
	s.alt, s.pen, s.insert, s.newline, s.keypad, s.shape = false, pen{}, false, false, false, 0
	s.sets, s.shift, s.last = [2]byte{'B', 'B'}, 0, 0
	s.modes = map[int]bool{}
	s.resetTabs()
}

func (s *Screen) resetTabs() {
	s.tabs = make([]bool, s.size.Cols)
	for x := 8; x < len(s.tabs); x += 8 {
		s.tabs[x] = true
	}
}

func blank(size Size, p pen) [][]cell {
	lines := make([][]cell, size.Rows)
	for y := range lines {
		lines[y] = blankLine(size.Cols, p)
	}
	return lines
}

// blankLine has the background of the pen, as terminals erase.
func blankLine(cols int, p pen) []cell {
	line := make([]cell, cols)
	if p = p.background(); p != (pen{}) {
		for x := range line {
			line[x].pen = p
		}
	}
	return line
}

// Size is the present size.
func (s *Screen) Size() Size { return s.size }

// page is the one that is shown.
func (s *Screen) page() *page {
	if s.alt {
		return &s.pages[1]
	}
	return &s.pages[0]
}

// Resize changes the size: lines are cut or lengthened, and what does not fit
// below leaves at the top.
func (s *Screen) Resize(size Size) {
	size = size.within()
	if size == s.size {
		return
	}
	for i := range s.pages {
		p := &s.pages[i]
		if over := p.y - (size.Rows - 1); over > 0 {
			if i == 0 {
				s.keep(p.lines[:over])
			}
			p.lines = p.lines[over:]
			p.y -= over
		}
		for len(p.lines) < size.Rows {
			p.lines = append(p.lines, blankLine(size.Cols, pen{}))
		}
		p.lines = p.lines[:size.Rows:size.Rows]
		for y, line := range p.lines {
			fit := blankLine(size.Cols, pen{})
			copy(fit, line)
			if last := fit[size.Cols-1].r; wide(last) {
				fit[size.Cols-1] = cell{}
			}
			p.lines[y] = fit
		}
		p.x, p.wrap = min(p.x, size.Cols-1), false
		p.saved.x, p.saved.y = min(p.saved.x, size.Cols-1), min(p.saved.y, size.Rows-1)
		p.top, p.bottom = 0, size.Rows-1
	}
	s.size = size
	tabs := s.tabs
	s.resetTabs()
	copy(s.tabs, tabs)
}

// Draw takes the next bytes of the output.
func (s *Screen) Draw(b []byte) {
	for _, c := range b {
		s.parser.step(s, c)
	}
}

// print puts one character at the cursor.
func (s *Screen) print(r rune) {
	if s.sets[s.shift] == '0' && r >= 0x5f && r <= 0x7e {
		r = lineDrawing[r-0x5f]
	}
	p := s.page()
	w := widthOf(r)
	if w == 0 {
		s.mark(r)
		return
	}
	if w > s.size.Cols {
		return
	}
	if p.wrap && !s.modes[wrapOff] {
		p.x = 0
		s.lineFeed()
	}
	p.wrap = false
	if p.x+w > s.size.Cols {
		if s.modes[wrapOff] {
			p.x = s.size.Cols - w
		} else {
			p.x = 0
			s.lineFeed()
		}
	}
	if s.insert {
		s.insertCells(w)
	}
	s.put(p, p.x, cell{r: r, pen: s.pen})
	if w == 2 {
		s.put(p, p.x+1, cell{pen: s.pen})
		p.lines[p.y][p.x].r = r // put took it for half of what it replaced
	}
	s.last = r
	p.x += w
	if p.x >= s.size.Cols {
		p.x, p.wrap = s.size.Cols-1, true
	}
}

// put replaces one cell. Half a wide character is none.
func (s *Screen) put(p *page, x int, c cell) {
	line := p.lines[p.y]
	if x > 0 && wide(line[x-1].r) {
		line[x-1].r, line[x-1].mark = 0, 0
	}
	if wide(line[x].r) && x+1 < len(line) {
		line[x+1].r = 0
	}
	line[x] = c
}

// mark puts a character without a width on the one before the cursor.
func (s *Screen) mark(r rune) {
	p := s.page()
	x := p.x
	if !p.wrap {
		x--
	}
	if x > 0 && p.lines[p.y][x].r == 0 && wide(p.lines[p.y][x-1].r) {
		x--
	}
	if x >= 0 && p.lines[p.y][x].r != 0 {
		p.lines[p.y][x].mark = r
	}
}

// cut makes x a border between characters: a wide one across it is gone.
func cut(line []cell, x int) {
	if x > 0 && x < len(line) && wide(line[x-1].r) {
		line[x-1].r, line[x-1].mark = 0, 0
	}
}

// control obeys one control character.
func (s *Screen) control(b byte) {
	p := s.page()
	switch b {
	case '\b':
		s.horizontal(-1)
	case '\t':
		s.tab(1)
	case '\n', '\v', '\f':
		if s.newline {
			p.x = 0
		}
		s.lineFeed()
	case '\r':
		p.x, p.wrap = 0, false
	case 0x0e:
		s.shift = 1
	case 0x0f:
		s.shift = 0
	}
}

// lineDrawing is the DEC special graphics set, from 0x5f on.
var lineDrawing = [...]rune{
	' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽', '├', '┤', '┴',
	'┬', '│', '≤', '≥', 'π', '≠', '£', '·',
}

// appendRune writes a cell's character; an empty one is a space.
func (c cell) appendRune(out []byte) []byte {
	if c.r == 0 {
		return append(out, ' ')
	}
	out = utf8.AppendRune(out, c.r)
	if c.mark != 0 {
		out = utf8.AppendRune(out, c.mark)
	}
	return out
}
