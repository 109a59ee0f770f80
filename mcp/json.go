package mcp

import (
	"bytes"
	"fmt"
	"strconv"
)

// Bounds of one frame. What is over them is refused before it is built up in
// memory: a frame of n bytes costs at most a few times n.
const (
	MaxFrame  = 8 << 20 // bytes
	MaxDepth  = 64      // arrays and objects in one another
	maxValues = 100_000
	// MaxBatch bounds the messages of one frame.
	MaxBatch = 100
)

// kind is what a value is.
type kind uint8

const (
	null kind = iota + 1
	boolean
	number
	text
	array
	object
)

// SyntaxError is a frame that is no JSON, or is JSON that two readers could take
// for two things.
type SyntaxError struct {
	At  int // bytes before what is wrong
	Msg string
}

func (e *SyntaxError) Error() string { return "byte " + strconv.Itoa(e.At) + ": " + e.Msg }

// scanner reads strict JSON (RFC 8259): UTF-8 without a mark, no key twice in one
// object, no half of a surrogate pair, nothing behind the value.
type scanner struct {
	in     []byte
	at     int
	values int
}

func parse(in []byte) (value, error) {
	if len(in) > MaxFrame {
		return value{}, &SyntaxError{MaxFrame, fmt.Sprintf("more than %d bytes", MaxFrame)}
	}
	s := &scanner{in: in}
	s.space()
	v, err := s.value(0)
	if err != nil {
		return value{}, err
	}
	if s.space(); s.at < len(in) {
		return value{}, s.bad("something follows the value")
	}
	return v, nil
}

func (s *scanner) bad(format string, args ...any) error {
	return &SyntaxError{s.at, fmt.Sprintf(format, args...)}
}

func (s *scanner) space() {
	for s.at < len(s.in) {
		switch s.in[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// next is the byte that is next; 0 at the end, which no JSON has.
func (s *scanner) next() byte {
	if s.at < len(s.in) {
		return s.in[s.at]
	}
	return 0
}

func (s *scanner) value(depth int) (value, error) {
	if s.values++; s.values > maxValues {
		return value{}, s.bad("more than %d values", maxValues)
	}
	from := s.at
	v := value{}
	var err error
	switch c := s.next(); {
	case c == '{' || c == '[':
		if depth >= MaxDepth {
			return v, s.bad("nested more than %d deep", MaxDepth)
		}
		if c == '{' {
			v, err = s.object(depth)
		} else {
			v, err = s.array(depth)
		}
	case c == '"':
		v.kind = text
		err = s.text()
	case c == '-' || c >= '0' && c <= '9':
		v.kind = number
		err = s.number()
	case c == 't':
		v.kind, err = boolean, s.word("true")
	case c == 'f':
		v.kind, err = boolean, s.word("false")
	case c == 'n':
		v.kind, err = null, s.word("null")
	case s.at >= len(s.in):
		err = s.bad("it ends where a value is expected")
	default:
		err = s.bad("%q where a value is expected", c)
	}
	v.raw = s.in[from:s.at]
	return v, err
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.in[s.at:], []byte(w)) {
		return s.bad("no value begins so")
	}
	s.at += len(w)
	return nil
}

func (s *scanner) array(depth int) (value, error) {
	v := value{kind: array}
	s.at++
	if s.space(); s.next() == ']' {
		s.at++
		return v, nil
	}
	for {
		s.space()
		item, err := s.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, item)
		s.space()
		switch s.next() {
		case ',':
			s.at++
		case ']':
			s.at++
			return v, nil
		default:
			return v, s.bad("neither , nor ] follows a value")
		}
	}
}

func (s *scanner) object(depth int) (value, error) {
	v := value{kind: object}
	s.at++
	if s.space(); s.next() == '}' {
		s.at++
		return v, nil
	}
	var seen map[string]bool
	for {
		s.space()
		if s.next() != '"' {
			return v, s.bad("a key is expected")
		}
		from := s.at
		if err := s.text(); err != nil {
			return v, err
		}
		key := decode(s.in[from:s.at])
		if v.has(key, seen) {
			s.at = from
			return v, s.bad("the key %.60q stands twice in one object", key)
		}
		if s.space(); s.next() != ':' {
			return v, s.bad("no : follows a key")
		}
		s.at++
		s.space()
		item, err := s.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.names, v.items = append(v.names, key), append(v.items, item)
		seen = note(seen, v.names)
		s.space()
		switch s.next() {
		case ',':
			s.at++
		case '}':
			s.at++
			return v, nil
		default:
			return v, s.bad("neither , nor } follows a value")
		}
	}
}

// few are the names that are looked through one by one.
const few = 8
