package secret

// A Finder knows placeholders by their cores, plain and encoded.
type Finder struct{ auto *automaton }

// Sought is one core, and the index by which a Finder speaks of it.
type Sought struct {
	Core  string
	Index int
	Plain bool // as it is and not encoded
}

// NewFinder looks for each of the cores; it speaks of them by their index.
func NewFinder(cores []string) *Finder {
	list := make([]Sought, len(cores))
	for i, core := range cores {
		list[i] = Sought{Core: core, Index: i}
	}
	return FinderOf(list)
}

// FinderOf looks for each of a list.
func FinderOf(list []Sought) *Finder {
	var all []needle
	for _, s := range list {
		if s.Plain {
			all = append(all, needle{text: s.Core, owner: s.Index})
			continue
		}
		all = append(all, needles(s.Core, "", s.Index)...)
	}
	return &Finder{newAutomaton(all)}
}

// In is the index of the first core in a text, or -1. It reads the text as it is,
// and where these could make a difference with its percent and JSON escapes
// taken away.
func (f *Finder) In(text string) int {
	if len(text) < f.auto.shortest {
		return -1
	}
	row, escapes, end := int32(0), false, false
	for i := range len(text) {
		b := text[i]
		escapes = escapes || b == '%' || b == '\\'
		if row, end = f.auto.step(row, b); end {
			return f.auto.owner[f.auto.at(row)]
		}
	}
	if !escapes {
		return -1
	}
	s := f.Stream()
	return s.Write([]byte(text))
}

// InBytes is In of a text that no one copies.
func (f *Finder) InBytes(text []byte) int { return f.Stream().Write(text) }

// Stream begins to look through a stream.
func (f *Finder) Stream() *Search { return &Search{f: f} }

// A Search looks through one stream, however it is cut. It reads the bytes as they
// are, with percent escapes decoded, with JSON escapes decoded, and without white
// space, in which programs wrap base64.
type Search struct {
	f                        *Finder
	plain, percent, js, bare int32
	escape                   [6]byte // an escape that has begun
	held                     int
}

// Write looks at more of the stream. It gives the index of a core, or -1.
func (s *Search) Write(p []byte) int {
	a := s.f.auto
	for _, b := range p {
		at, end := a.step(s.plain, b)
		same := s.plain == s.percent && s.plain == s.js && s.plain == s.bare && s.held == 0
		if s.plain = at; end {
			return a.owner[a.at(at)]
		}
		space := b == ' ' || b == '\r' || b == '\n' || b == '\t'
		if same && !space && b != '%' && b != '\\' {
			s.percent, s.js, s.bare = at, at, at // all four read the same
			continue
		}
		if at := s.others(b, space); at >= 0 {
			return a.owner[a.at(at)]
		}
	}
	return -1
}

// others reads one byte in the other three ways. It gives the row where a text
// ends, or -1.
func (s *Search) others(b byte, space bool) int32 {
	if !space {
		at, end := s.f.auto.step(s.bare, b)
		if s.bare = at; end {
			return at
		}
	}
	return s.escaped(b)
}

// escaped reads one byte of the two decoded forms.
func (s *Search) escaped(b byte) int32 {
	if s.held == 0 && b != '%' && b != '\\' {
		return s.both(b, b)
	}
	if s.held > 0 && (b == '%' || b == '\\' && s.held > 1) {
		s.held = 0 // the one before was none
	}
	s.escape[s.held] = b
	s.held++
	switch {
	case s.escape[0] == '%' && s.held == 3:
		s.held = 0
		if c, ok := unhex(s.escape[1:3]); ok {
			return s.both(c, c)
		}
	case s.escape[0] == '\\' && s.held == 2 && b != 'u':
		s.held = 0
		return s.both('\\', b) // \/ and its like
	case s.escape[0] == '\\' && s.held == 6:
		s.held = 0
		high, ok1 := unhex(s.escape[2:4])
		if c, ok2 := unhex(s.escape[4:6]); ok1 && ok2 && high == 0 {
			return s.both('\\', c)
		}
	}
	return -1
}

// both gives one byte to each decoded form.
func (s *Search) both(percent, js byte) int32 {
	a := s.f.auto
	at, end := a.step(s.percent, percent)
	if s.percent = at; end {
		return at
	}
	at, end = a.step(s.js, js)
	if s.js = at; end {
		return at
	}
	return -1
}

func unhex(two []byte) (byte, bool) {
	var out byte
	for _, c := range two {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		out = out<<4 | c
	}
	return out, true
}
