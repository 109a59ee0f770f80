package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Framing says where a body ends.
type Framing uint8

// The ways a body ends.
const (
	NoBody     Framing = iota
	Length             // after a counted number of bytes
	Chunked            // after the last chunk and its trailers
	UntilClose         // with the connection; responses only
)

// A Request is a request head that has one meaning only.
type Request struct {
	Method string
	Target string // as sent
	Minor  int    // HTTP/1.Minor
	Header Header
	Host   string // value of the one Host field
	Body   Framing
	Length int64
}

// A SyntaxError is a head that is refused; Status is the answer it deserves.
type SyntaxError struct {
	Status int
	Msg    string
}

func (e *SyntaxError) Error() string { return "http head: " + e.Msg }

func bad(format string, args ...any) error {
	return &SyntaxError{Status: 400, Msg: fmt.Sprintf(format, args...)}
}

// A HeadScan finds the end of a head. It looks at each byte once.
type HeadScan struct{ off, line int }

// Next gives the length of the head with its empty line, once buf (the stream
// from the head's first byte) has it. A line feed that does not follow a
// carriage return, a carriage return without line feed, and a NUL are refused
// where they stand, so that no peer waits for an end that another program
// would have seen already.
func (s *HeadScan) Next(buf []byte) (int, error) {
	for ; s.off < len(buf) && s.off < MaxHead; s.off++ {
		switch c := buf[s.off]; {
		case c == 0:
			return 0, bad("a NUL byte")
		case c == '\n':
			if s.off == 0 || buf[s.off-1] != '\r' {
				return 0, bad("a line feed without carriage return")
			}
			if s.off-1 == s.line {
				if s.line == 0 {
					return 0, bad("an empty line where the first line belongs")
				}
				return s.off + 1, nil
			}
			s.line = s.off + 1
		case s.off > 0 && buf[s.off-1] == '\r':
			return 0, bad("a carriage return without line feed")
		}
	}
	if s.off >= MaxHead {
		return 0, &SyntaxError{Status: 431, Msg: fmt.Sprintf("longer than %d bytes", MaxHead)}
	}
	return 0, ErrShort
}

// ParseRequest parses a complete head, as HeadScan found it.
func ParseRequest(head []byte) (*Request, error) {
	first, header, err := split(head)
	if err != nil {
		return nil, err
	}
	r := &Request{Header: header}
	if err := r.requestLine(first); err != nil {
		return nil, err
	}
	host, n := header.Get("Host")
	switch {
	case n > 1:
		return nil, bad("%d Host fields", n)
	case n == 0 && r.Method != "CONNECT":
		return nil, bad("no Host field")
	}
	r.Host = host
	chunked, length, err := framing(header, r.Minor)
	if err != nil {
		return nil, err
	}
	switch {
	case chunked:
		r.Body = Chunked
	case length > 0:
		r.Body, r.Length = Length, length
	}
	return r, nil
}

func (r *Request) requestLine(line string) error {
	method, rest, ok1 := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(rest, " ")
	if !ok1 || !ok2 {
		return bad("a first line that is not METHOD TARGET HTTP/1.1")
	}
	if err := errors.Join(CheckMethod(method), CheckTarget(target)); err != nil {
		return err
	}
	minor, err := parseVersion(version)
	if err != nil {
		return err
	}
	r.Method, r.Target, r.Minor = method, target, minor
	return nil
}

// CheckMethod refuses a method, of whatever version of HTTP, with which a server that
// speaks HTTP/1.1 further on would begin another line than the one that was judged.
func CheckMethod(method string) error {
	if !isToken(method) || len(method) > 32 {
		return bad("a method that is no token")
	}
	return nil
}

// CheckTarget refuses a target, of whatever version of HTTP, that servers read in
// two ways: with a fragment, a space, a control or a byte that is no ASCII.
func CheckTarget(target string) error {
	if target == "" {
		return bad("an empty target")
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f {
			return bad("the byte 0x%02x in the target", c)
		} else if c == '#' {
			return bad("a fragment in the target")
		}
	}
	return nil
}

func parseVersion(v string) (int, error) {
	switch v {
	case "HTTP/1.1":
		return 1, nil
	case "HTTP/1.0":
		return 0, nil
	}
	if len(v) == 8 && strings.HasPrefix(v, "HTTP/") && v[6] == '.' {
		return 0, &SyntaxError{Status: 505, Msg: "a version other than HTTP/1.1 and HTTP/1.0"}
	}
	return 0, bad("a first line that does not end in HTTP/1.1")
}

// split cuts a head in its first line and its fields. Line ends were checked
// by HeadScan and are checked again: the parser must be safe alone.
func split(head []byte) (string, Header, error) {
	text, ok := bytes.CutSuffix(head, []byte("\r\n\r\n"))
	if !ok || len(head) > MaxHead {
		return "", nil, bad("no empty line at its end")
	}
	first, rest, more := strings.Cut(string(text), "\r\n")
	if err := checkLine(first); err != nil {
		return "", nil, err
	}
	header := make(Header, 0, bytes.Count(text, []byte{'\n'}))
	for more {
		var line string
		line, rest, more = strings.Cut(rest, "\r\n")
		f, err := ParseField(line)
		if err != nil {
			return "", nil, err
		}
		header = append(header, f)
	}
	return first, header, nil
}

// framing reads what the fields say about the body; length is -1 where they
// say nothing. One way of saying it, once, or none: everything else has been a
// smuggling bug somewhere (RFC 9112 6.1, 6.3, 11.2).
func framing(h Header, minor int) (chunked bool, length int64, err error) {
	if err := checkNamed(h); err != nil {
		return false, 0, err
	}
	te, nTE := h.Get("Transfer-Encoding")
	cl, nCL := h.Get("Content-Length")
	switch {
	case nTE > 0 && nCL > 0:
		return false, 0, bad("both Transfer-Encoding and Content-Length")
	case nTE > 1:
		return false, 0, bad("%d Transfer-Encoding fields", nTE)
	case nCL > 1:
		return false, 0, bad("%d Content-Length fields", nCL)
	case nTE == 1 && minor == 0:
		return false, 0, bad("Transfer-Encoding in HTTP/1.0")
	case nTE == 1 && !strings.EqualFold(te, "chunked"):
		return false, 0, bad("a Transfer-Encoding other than chunked")
	case nTE == 1:
		return true, -1, nil
	case nCL == 0:
		return false, -1, nil
	}
	if cl == "" || len(cl) > 18 || strings.Trim(cl, "0123456789") != "" {
		return false, 0, bad("a Content-Length that is no number")
	}
	length, err = strconv.ParseInt(cl, 10, 64)
	if err != nil {
		return false, 0, bad("a Content-Length that is no number")
	}
	return false, length, nil
}

// ParseChunkLine parses a chunk's first line without its line end. Extensions
// are checked for stray bytes, then dropped: none has a meaning for us.
func ParseChunkLine(line string) (int64, error) {
	if err := checkLine(line); err != nil {
		return 0, err
	}
	size, _, _ := strings.Cut(line, ";")
	size = strings.TrimRight(size, " \t") // BWS before an extension, RFC 9112 7.1.1
	if size == "" || len(size) > 15 || strings.Trim(size, "0123456789abcdefABCDEF") != "" {
		return 0, bad("a chunk size that is no hexadecimal number")
	}
	n, err := strconv.ParseInt(size, 16, 64)
	if err != nil {
		return 0, bad("a chunk size that is no hexadecimal number")
	}
	return n, nil
}

// TrailerAllowed reports whether a field may stand after the body: one that
// frames, routes or authenticates may not (RFC 9110 6.5.1), nor one that names another
// method or path, since rules have been asked by then.
func TrailerAllowed(name string) bool {
	switch strings.ReplaceAll(strings.ToLower(name), "_", "-") {
	case "transfer-encoding", "content-length", "host", "connection", "te", "trailer", "upgrade",
		"authorization", "proxy-authorization", "proxy-authenticate", "www-authenticate", "cookie",
		"set-cookie", "expect", "content-encoding", "content-type", "content-range", "cache-control",
		"range", "max-forwards", "location", "keep-alive", "proxy-connection",
		"x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url":
		return false
	}
	return true
}

func isToken(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if !tokenByte(s[i]) {
			return false
		}
	}
	return true
}

func tokenByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
