package secret

import (
	"encoding/json"
	"strings"
	"time"
)

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
