package wire

import (
	"bytes"
	"errors"
	"strings"
)

// A Guess says what a connection on a port without fixed protocol speaks.
type Guess uint8

// The kinds of first bytes.
const (
	Raw Guess = iota
	TLS
	HTTP
)

// GuessProtocol looks at the first bytes. ErrShort asks for more. A line that
// ends in HTTP/x.y, and a beginning of CR or LF (some servers skip those), are
// HTTP for every server that would answer them; a control byte in the first
// line is HTTP for none.
func GuessProtocol(b []byte) (Guess, error) {
	if len(b) == 0 {
		return Raw, ErrShort
	}
	if b[0] == '\r' || b[0] == '\n' {
		return HTTP, nil
	}
	if is, err := LooksLikeTLS(b); err != nil {
		return Raw, err
	} else if is {
		return TLS, nil
	}
	before, _, ok := bytes.Cut(b, []byte{'\n'})
	line := b
	if ok {
		line = before
	}
	for _, c := range line {
		if (c < ' ' && (c < '\t' || c > '\r')) || c == 0x7f {
			return Raw, nil
		}
	}
	if !ok {
		if len(b) >= MaxHead {
			return Raw, errors.New("first line: longer than 65536 bytes")
		}
		return Raw, ErrShort
	}
	if endsInVersion(bytes.TrimRight(line, " \t\v\f\r")) {
		return HTTP, nil
	}
	return Raw, nil
}

// endsInVersion looks for HTTP/x.y at the end of a line, in any case and with
// any digits, since lenient servers exist.
func endsInVersion(line []byte) bool {
	i := bytes.LastIndexByte(line, '/')
	if i < 4 || !strings.EqualFold(string(line[i-4:i]), "http") {
		return false
	}
	return len(line) > i+1 && strings.Trim(string(line[i+1:]), "0123456789.") == ""
}
