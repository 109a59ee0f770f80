package secret

import (
	"encoding/json"
	"strings"
	"time"
)

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

// A Scrubber takes real values out of streams.
type Scrubber struct {
	auto  *automaton
	lower *automaton // the values in small letters, as HTTP/2 writes the names of fields
}

// Scrubbed is one value that must not pass, and the placeholder in its place.
type Scrubbed struct {
	Value       Value
	Placeholder string
}

// minScrubbed is the length from which a value is looked for: a shorter one would
// be found where no one wrote it.
const minScrubbed = 8

// NewScrubber takes these values out; nil where there is nothing to look for.
func NewScrubber(values []Scrubbed) *Scrubber {
	var all, lower []needle
	for i, s := range values {
		if text := s.Value.Reveal(); len(text) >= minScrubbed {
			all = append(all, needles(text, s.Placeholder, i)...)
			lower = append(lower, needle{text: strings.ToLower(text), owner: i})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &Scrubber{newAutomaton(all), newAutomaton(lower)}
}

// InName reports whether the name of a field has a value in it, in letters of any case:
// HTTP/2 writes names in small ones, and libraries begin each word with a capital.
func (c *Scrubber) InName(name string) bool {
	if len(name) < c.auto.shortest {
		return false
	}
	small, row, end := c.lower, int32(0), false
	for i := range len(name) {
		b := name[i]
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		if row, end = small.step(row, b); end {
			return true
		}
	}
	_, n := c.Text(name)
	return n > 0
}

// Pieces are a value and the parts of it that give access alone: the texts of one that
// is an object of JSON, such as a login's tokens, and the long lines of a key's file.
func Pieces(v Value) []Value {
	const text, line = 16, 32 // bytes from which a part is looked for
	whole := strings.TrimSpace(v.Reveal())
	out := []Value{Seal(whole)}
	var leaves func(at any)
	leaves = func(at any) {
		switch at := at.(type) {
		case map[string]any:
			for _, inner := range at {
				leaves(inner)
			}
		case []any:
			for _, inner := range at {
				leaves(inner)
			}
		case string:
			if _, err := time.Parse(time.RFC3339, at); err != nil && len(at) >= text {
				out = append(out, Seal(at))
			}
		}
	}
	var object map[string]any
	if json.Unmarshal([]byte(whole), &object) == nil {
		leaves(object)
	}
	if rows := strings.Fields(whole); len(rows) > 1 && object == nil {
		for _, row := range rows {
			if len(row) >= line {
				out = append(out, Seal(row))
			}
		}
	}
	return out
}

// Text is text without the values, and how many there were.
func (c *Scrubber) Text(text string) (string, int) {
	s := c.Stream()
	out := s.Write(nil, []byte(text))
	out = s.Flush(out)
	if s.Count == 0 {
		return text, 0
	}
	return string(out), s.Count
}

// Stream begins to scrub a stream.
func (c *Scrubber) Stream() *Scrub { return &Scrub{auto: c.auto} }

// A Scrub is a stream being scrubbed. It is as long after as before.
type Scrub struct {
	auto  *automaton
	row   int32
	held  []byte // what may be the beginning of a value
	since int    // bytes behind the last value that was taken out
	Count int    // of values taken out
}

// Write appends to out what of the stream can go on: all but what may be the
// beginning of a value.
func (s *Scrub) Write(out, p []byte) []byte {
	start := len(out)
	out = append(append(out, s.held...), p...)
	a := s.auto
	row, end := s.row, false
	for i := start + len(s.held); i < len(out); i++ {
		s.since++
		if row, end = a.step(row, out[i]); end {
			s.since = 0
			n := a.at(row)
			// What has gone of it (Yield) cannot be taken back.
			from := i + 1 - int(a.lengths[n])
			copy(out[max(from, start):], a.replaced[n][max(start-from, 0):])
			s.Count++
		}
	}
	s.row = row
	keep := min(int(a.depth[int(row)/a.classes]), len(out)-start)
	s.held = append(s.held[:0], out[len(out)-keep:]...)
	return out[:len(out)-keep]
}

// Pass is all of p with the values replaced: p itself where there are none, else a copy.
// Nothing of it waits: of a value that began in an earlier piece, only what comes from
// here on can still be taken out.
func (s *Scrub) Pass(p []byte) []byte {
	a, before := s.auto, s.row
	row, end := s.row, false
	for _, b := range p {
		if row, end = a.step(row, b); end {
			s.row = before
			return s.Yield(s.Write(make([]byte, 0, len(p)), p))
		}
	}
	s.row = row
	return p
}

// Yield appends what is held, and goes on: of a value that is in the middle of it,
// only what comes later can still be taken out.
func (s *Scrub) Yield(out []byte) []byte {
	out = append(out, s.held...)
	s.held = s.held[:0]
	return out
}

// mostCut is how much of a value the end of a stream may show: more of it was cut off
// on purpose or by a limit, as in the reason of a WebSocket's close.
const mostCut = 24

// Flush appends what is left at the end.
func (s *Scrub) Flush(out []byte) []byte {
	if len(s.held) > mostCut && s.since >= len(s.held) {
		s.held = append(s.held[:0], padded("", len(s.held))...)
		s.Count++
	}
	out = append(out, s.held...)
	s.held, s.row = s.held[:0], 0
	return out
}
