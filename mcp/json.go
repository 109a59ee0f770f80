package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
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

// A value is one of JSON, as it stands in its frame.
type value struct {
	kind  kind
	raw   []byte // from its first to its last byte
	names []string
	items []value // of an array, or of the names
}

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

func (v *value) has(key string, seen map[string]bool) bool {
	if seen != nil {
		return seen[key]
	}
	return slices.Contains(v.names, key)
}

// note keeps a set of names once there are more than a few.
func note(seen map[string]bool, names []string) map[string]bool {
	if len(names) <= few {
		return nil
	}
	if seen == nil {
		seen = make(map[string]bool, 4*few)
		for _, n := range names {
			seen[n] = true
		}
	}
	seen[names[len(names)-1]] = true
	return seen
}

// text passes over a string and checks it.
func (s *scanner) text() error {
	s.at++
	for s.at < len(s.in) {
		switch c := s.in[s.at]; {
		case c == '"':
			s.at++
			return nil
		case c < ' ':
			return s.bad("a control character in a string")
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < utf8.RuneSelf:
			s.at++
		default:
			r, n := utf8.DecodeRune(s.in[s.at:])
			if r == utf8.RuneError && n == 1 {
				return s.bad("not UTF-8")
			}
			s.at += n
		}
	}
	return s.bad("a string without end")
}

func (s *scanner) escape() error {
	s.at++
	switch s.next() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at++
		return nil
	case 'u':
	default:
		s.at--
		return s.bad("an escape that JSON does not have")
	}
	r, err := s.unit()
	if err != nil || !utf16.IsSurrogate(r) {
		return err
	}
	// A half is another character, or none, to each reader.
	half := s.at - 6
	if s.next() == '\\' && s.at+1 < len(s.in) && s.in[s.at+1] == 'u' {
		s.at++
		low, err := s.unit()
		if err != nil {
			return err
		}
		if utf16.DecodeRune(r, low) != utf8.RuneError {
			return nil
		}
	}
	s.at = half
	return s.bad("half of a surrogate pair")
}

// unit reads uXXXX.
func (s *scanner) unit() (rune, error) {
	if s.at+5 > len(s.in) {
		return 0, s.bad("an escape without end")
	}
	n, err := strconv.ParseUint(string(s.in[s.at+1:s.at+5]), 16, 16)
	if err != nil {
		return 0, s.bad("an escape that is no number")
	}
	s.at += 5
	return rune(n), nil
}

func (s *scanner) number() error {
	if s.next() == '-' {
		s.at++
	}
	switch c := s.next(); {
	case c == '0':
		s.at++
	case c >= '1' && c <= '9':
		s.digits()
	default:
		return s.bad("a number without digits")
	}
	if s.next() == '.' {
		s.at++
		if !s.digits() {
			return s.bad("a number without digits behind its point")
		}
	}
	if c := s.next(); c == 'e' || c == 'E' {
		s.at++
		if c := s.next(); c == '+' || c == '-' {
			s.at++
		}
		if !s.digits() {
			return s.bad("a number without digits in its exponent")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	from := s.at
	for s.next() >= '0' && s.next() <= '9' {
		s.at++
	}
	return s.at > from
}

// decode is a string that was checked.
func decode(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var out string
	_ = json.Unmarshal(raw, &out) // it was checked
	return out
}

// get is what an object holds by that name; nil for none, and of what is no object.
func (v *value) get(name string) *value {
	if v == nil || v.kind != object {
		return nil
	}
	for i, n := range v.names {
		if n == name {
			return &v.items[i]
		}
	}
	return nil
}

// str is a string's text; false for what is none.
func (v *value) str() (string, bool) {
	if v == nil || v.kind != text {
		return "", false
	}
	return decode(v.raw), true
}

// plain is what encoding/json would make of it, numbers as json.Number.
func (v *value) plain() any {
	switch v.kind {
	case boolean:
		return v.raw[0] == 't'
	case number:
		return json.Number(v.raw)
	case text:
		return decode(v.raw)
	case array:
		out := make([]any, len(v.items))
		for i := range v.items {
			out[i] = v.items[i].plain()
		}
		return out
	case object:
		out := make(map[string]any, len(v.items))
		for i, n := range v.names {
			out[n] = v.items[i].plain()
		}
		return out
	case null:
	}
	return nil
}
