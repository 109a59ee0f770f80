// Package urlpath gives the path of a request one spelling.
//
// Promise: Parse is called once, on what the program sent; rules are held
// against the Path, and its Wire form is what is sent on, so that judge and
// server read the same bytes. Dot segments are resolved, empty segments dropped,
// needless percent-encoding undone. A spelling that servers are known to read
// in two ways is an error.
//
// It does not know query strings or hosts, and does not touch the path of a
// request that no rule about requests speaks of: that is its caller's choice.
//
// Most readers want Parse and Glob.
package urlpath

import (
	"errors"
	"slices"
	"strings"
)

// A Path is a path in its one spelling. The zero value is "/".
type Path struct {
	segments []string // decoded, without dots and empty ones
	wire     string
	plain    string
}

// Most bounds the segments of a path; servers stop at less.
const Most = 512

// The spellings that are refused.
var (
	errStart     = errors.New("a path that does not begin with a slash")
	errEncoding  = errors.New("a percent sign in the path without two hexadecimal digits")
	errControl   = errors.New("a control byte in the path")
	errBackslash = errors.New("a backslash in the path, which some servers take for a slash")
	errAbove     = errors.New("a path that leads above its top")
	errHidden    = errors.New("a dot segment behind an encoded slash or before a semicolon")
	errSemicolon = errors.New("a semicolon in the path, at which some servers cut a segment off")
	errTwice     = errors.New("a dot, slash or backslash that is percent-encoded twice")
	errOverlong  = errors.New("a percent-encoded byte sequence in the path that is too long for its character, which " +
		"some servers take for another one")
	errLong = errors.New("a path of too many segments")
)

// Parse reads a path as it stands in a request, without its query.
func Parse(raw string) (Path, error) {
	if raw == "" || raw[0] != '/' {
		return Path{}, errStart
	}
	if isPlain(raw) {
		return Path{segments: split(raw), wire: raw, plain: strings.TrimRight(raw, "/")}, countOf(raw)
	}
	var wire, decoded []string
	trailing := false
	for part := range strings.SplitSeq(raw[1:], "/") {
		if strings.Contains(part, ";") {
			return Path{}, errSemicolon
		}
		text, kept, err := decode(part)
		if err != nil {
			return Path{}, err
		}
		trailing = false
		switch text {
		case "", ".":
			trailing = true
			continue
		case "..":
			if len(wire) == 0 {
				return Path{}, errAbove
			}
			wire, decoded, trailing = wire[:len(wire)-1], decoded[:len(decoded)-1], true
			continue
		}
		if err := check(text); err != nil {
			return Path{}, err
		}
		wire, decoded = append(wire, kept), append(decoded, text)
	}
	if len(wire) > Most {
		return Path{}, errLong
	}
	p := Path{wire: "/" + strings.Join(wire, "/"), plain: "/" + strings.Join(decoded, "/")}
	if trailing && len(wire) > 0 {
		p.wire += "/"
	}
	// An encoded slash separates for rules, as it does for many servers.
	p.segments = split(p.plain)
	p.plain = strings.TrimRight(p.plain, "/")
	if len(p.segments) > Most {
		return Path{}, errLong
	}
	return p, nil
}

// isPlain tells the common case, which costs one look at each byte.
func isPlain(raw string) bool {
	for i := range len(raw) {
		switch c := raw[i]; {
		case c == '%', c == '\\', c == ';', c < ' ', c >= 0x7f:
			return false
		case c == '/' && i+1 < len(raw) && (raw[i+1] == '/' || raw[i+1] == '.'):
			return false
		}
	}
	return true
}

func countOf(raw string) error {
	if strings.Count(raw, "/") > Most {
		return errLong
	}
	return nil
}

func split(plain string) []string {
	plain = strings.Trim(plain, "/")
	if plain == "" {
		return nil
	}
	return strings.Split(plain, "/")
}

// decode gives a segment's meaning, and its spelling with no more encoding than
// it needs (RFC 3986 6.2.2).
func decode(part string) (text, kept string, err error) {
	if !strings.Contains(part, "%") {
		return part, part, nil
	}
	var t, k strings.Builder
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c != '%' {
			t.WriteByte(c)
			k.WriteByte(c)
			continue
		}
		if i+2 >= len(part) {
			return "", "", errEncoding
		}
		hi, ok1 := unhex(part[i+1])
		lo, ok2 := unhex(part[i+2])
		if !ok1 || !ok2 {
			return "", "", errEncoding
		}
		c = hi<<4 | lo
		t.WriteByte(c)
		if unreserved(c) {
			k.WriteByte(c)
		} else {
			k.WriteString("%" + strings.ToUpper(part[i+1:i+3]))
		}
		i += 2
	}
	return t.String(), k.String(), nil
}

func unhex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// check refuses a decoded segment that means something else to another reader.
func check(text string) error {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c == 0x7f:
			return errControl
		case c == '\\':
			return errBackslash
		case i+1 < len(text) && overlong(c, text[i+1]):
			return errOverlong
		}
	}
	lower := strings.ToLower(text)
	for _, again := range []string{"%2e", "%2f", "%5c", "%00", "%25"} {
		if strings.Contains(lower, again) {
			return errTwice
		}
	}
	// Servers that decode first see further segments behind an encoded slash;
	// servers with parameters in segments cut at the semicolon first.
	for i, inner := range strings.Split(text, "/") {
		name, _, params := strings.Cut(inner, ";")
		if dots := strings.TrimRight(name, " "); dots == "." || dots == ".." { // Windows drops the spaces
			return errHidden
		}
		if inner == "" && (i > 0 || strings.HasPrefix(text, "/")) || params && name == "" {
			return errHidden
		}
	}
	return nil
}

// overlong tells of the beginning of a sequence of UTF-8 that stands for what fewer
// bytes say: a dot or a slash for old decoders (CVE-2008-2938, CVE-2000-0884).
func overlong(c, next byte) bool {
	return next&0xc0 == 0x80 && (c == 0xc0 || c == 0xc1 || c == 0xe0 && next < 0xa0 || c == 0xf0 && next < 0x90)
}

// Wire is the path as it is sent on.
func (p Path) Wire() string {
	if p.wire == "" {
		return "/"
	}
	return p.wire
}

// String is the decoded path without a slash at its end: what rules and people
// read. Bytes that are no text are as they are.
func (p Path) String() string {
	if p.plain == "" {
		return "/"
	}
	return p.plain
}

// Segments are the decoded parts between slashes.
func (p Path) Segments() []string { return slices.Clone(p.segments) }

// Depth is how many segments there are.
func (p Path) Depth() int { return len(p.segments) }
