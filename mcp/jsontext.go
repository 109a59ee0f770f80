package mcp

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

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
