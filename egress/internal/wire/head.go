package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Field is one header line, its name as it was spelled.
type Field struct{ Name, Value string }

// A Header keeps order and spelling.
type Header []Field

// Get gives the value of the only field of that name; n says how many there are.
func (h Header) Get(name string) (value string, n int) {
	for _, f := range h {
		if strings.EqualFold(f.Name, name) {
			if n == 0 {
				value = f.Value
			}
			n++
		}
	}
	return value, n
}

// All gives each field in order.
func (h Header) All(yield func(name, value string) bool) {
	for _, f := range h {
		if !yield(f.Name, f.Value) {
			return
		}
	}
}

// Tokens gives the comma-separated members of all fields of that name, lower case.
func (h Header) Tokens(name string) []string {
	var out []string
	for _, f := range h {
		if !strings.EqualFold(f.Name, name) {
			continue
		}
		for part := range strings.SplitSeq(f.Value, ",") {
			if part = strings.ToLower(strings.Trim(part, " \t")); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

// Without gives h less the fields that drop names.
func (h Header) Without(drop func(name string) bool) Header {
	out := make(Header, 0, len(h))
	for _, f := range h {
		if !drop(strings.ToLower(f.Name)) {
			out = append(out, f)
		}
	}
	return out
}

// Append writes the fields in wire form, without the empty line.
func (h Header) Append(b []byte) []byte {
	for _, f := range h {
		b = f.Append(b)
	}
	return b
}

// Append writes the line.
func (f Field) Append(b []byte) []byte {
	b = append(append(b, f.Name...), ": "...)
	return append(append(b, f.Value...), "\r\n"...)
}

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

// A Response is a response head.
type Response struct {
	Minor  int
	Status int
	Reason string
	Header Header
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

// ParseResponse parses a complete response head to a request of that method.
func ParseResponse(head []byte, method string) (*Response, error) {
	first, header, err := split(head)
	if err != nil {
		return nil, err
	}
	r := &Response{Header: header}
	version, rest, _ := strings.Cut(first, " ")
	if r.Minor, err = parseVersion(version); err != nil {
		return nil, err
	}
	code, reason, _ := strings.Cut(rest, " ")
	if len(code) != 3 || strings.Trim(code, "0123456789") != "" || code[0] < '1' || code[0] > '5' {
		return nil, bad("a status that is no number from 100 to 599")
	}
	r.Status, _ = strconv.Atoi(code)
	r.Reason = reason
	chunked, length, err := framing(header, r.Minor)
	if err != nil {
		return nil, err
	}
	switch {
	case method == "HEAD" || r.Status < 200 || r.Status == 204 || r.Status == 304:
		r.Body = NoBody // RFC 9112 6.3, whatever the fields say
	case chunked:
		r.Body = Chunked
	case length >= 0:
		r.Body, r.Length = Length, length
	default:
		r.Body = UntilClose
	}
	return r, nil
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

// ParseField parses one field line without its line end.
func ParseField(line string) (Field, error) {
	if line == "" {
		return Field{}, bad("an empty line among the fields")
	}
	if line[0] == ' ' || line[0] == '\t' {
		return Field{}, bad("a folded field")
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return Field{}, bad("a field without colon")
	}
	if trimmed := strings.TrimRight(name, " \t"); trimmed != name {
		return Field{}, bad("whitespace before the colon of a field")
	}
	if !isToken(name) {
		return Field{}, bad("a field name that is no token")
	}
	if err := checkLine(value); err != nil {
		return Field{}, err
	}
	if err := checkAlias(name); err != nil {
		return Field{}, err
	}
	return Field{Name: name, Value: strings.Trim(value, " \t")}, nil
}

// checkAlias refuses names which CGI-style servers cannot tell from the ones
// that say where a message ends or goes (HTTP_TRANSFER_ENCODING).
func checkAlias(name string) error {
	if !strings.Contains(name, "_") {
		return nil
	}
	switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
	case "content-length", "transfer-encoding":
		return bad("a field that spells %s with an underscore", strings.ReplaceAll(name, "_", "-"))
	}
	return nil
}

// checkLine holds text to what RFC 9110 5.5 lets a value have: visible ASCII,
// space, tab, and bytes over 0x7f.
func checkLine(s string) error {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return bad("the control byte 0x%02x", c)
		}
	}
	return nil
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
