package reading

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// Why what a body gives to others cannot be read.
var (
	errCodedMetadata = errors.New("it is compressed, and may give others a right to the object")
	errTypedMetadata = errors.New("its type or charset is none in which JSON is read here, and it may give others a " +
		"right to the object")
	errPartMetadata = errors.New("a part of it has a charset, a transfer encoding or a field without end, and may give " +
		"others a right to the object")
)

// Giving is the request as one whose body gives others a right to the object, for Leaves.
// Who judges it otherwise than the request itself looks for that in the body (Grants).
func (r *Request) Giving() Request {
	out := *r
	out.gives = "its body gives others a right to the object (acl)"
	return out
}

// holdsMetadata tells of a request of Google's JSON API whose body says what an object is,
// who may use it included. The body of an upload of content alone is the object.
func (r *Request) holdsMetadata(upload bool) bool {
	if !upload {
		return true
	}
	var types []string
	session := false
	for key, value := range pairs(r.Query) {
		switch strings.Trim(strings.ReplaceAll(strings.ToLower(key), "_", ""), "$") {
		case "uploadtype":
			types = append(types, unescaped(value))
		case "uploadid":
			session = session || value != ""
		case "uploadprotocol":
			return true
		}
	}
	if r.Header != nil {
		for name := range r.Header {
			if strings.HasPrefix(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "x-goog-upload-") {
				return true
			}
		}
	}
	return !(r.Method == "PUT" && session) && !slices.Equal(types, []string{"media"})
}

// Grants is how to look into the body of a request for a member acl of JSON, in whatever
// part and depth; nil where there is no body, and where no reading has a bucket in its path
// as that interface writes it. Write calls found for each.
func (r *Request) Grants() *Form {
	r.Read()
	if !r.Body || r.found == nil && (r.BadPath != nil || !strings.Contains(r.Path.String(), "/b/")) {
		return nil
	}
	c := r.Content()
	f := &Form{scans: []scan{&members{}}}
	if strings.HasPrefix(c.Type, "multipart/") {
		f.scans = append(f.scans, &partFields{})
	}
	readable := c.Type == "" || strings.Contains(c.Type, "json") || strings.HasPrefix(c.Type, "text/") ||
		strings.HasPrefix(c.Type, "multipart/")
	switch {
	case c.Coded:
		f.coded = errCodedMetadata
	case c.Odd != "" || !readable || !c.Plain():
		f.odd = errTypedMetadata
	}
	return f
}

// members finds the name acl before a colon. It follows neither parts nor strings, about
// whose ends readers differ: any word acl counts, in each letter's spelling, with quotes of
// both kinds or none, and in UTF-16 and UTF-32.
type members struct {
	escape []byte // an escape that has not ended
	word   bool   // the character before belongs to a word
	at     int    // how many letters of the name came
	named  bool   // the name came, and nothing but white space and quotes since
	quoted bool   // a quote came since
}

func (m *members) write(p []byte, found func(string) error) error {
	for _, c := range p {
		if c == 0 {
			continue
		}
		if done, err := m.unescape(c, found); done || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := m.next(c, found); err != nil {
			return err
		}
	}
	return nil
}

// unescape takes a character that may belong to an escape; false where it does not.
func (m *members) unescape(c byte, found func(string) error) (bool, error) {
	switch n := len(m.escape); {
	case n == 0 && c != '\\':
		return false, nil
	case n == 0, n == 1 && c == 'u', n > 1 && isHex(c):
		m.escape = append(m.escape, c)
		if n < 5 {
			return true, nil
		}
		value := unescaped("%" + string(m.escape[4:]))
		if string(m.escape[2:4]) != "00" || len(value) != 1 {
			value = "?"
		}
		m.escape = m.escape[:0]
		return true, m.next(value[0], found)
	}
	held := m.escape
	m.escape = m.escape[:0]
	for _, h := range held {
		if err := m.next(h, found); err != nil {
			return true, err
		}
	}
	return m.unescape(c, found)
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// next takes one character as it is meant.
func (m *members) next(c byte, found func(string) error) error {
	if m.named {
		switch {
		case c == ':', m.quoted && (c == '/' || c == '#'): // a comment
			m.named = false
			return found("acl")
		case c == '"' || c == '\'':
			m.quoted = true
			return nil
		case c <= ' ':
			return nil
		}
		m.named = false
	}
	switch {
	case c|0x20 == "acl"[m.at] && (m.at > 0 || !m.word):
		m.at++
	default:
		m.at = 0
	}
	m.word = c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("_$-.", c) >= 0
	if m.at == len("acl") {
		m.at, m.named, m.quoted = 0, true, false
	}
	return nil
}

func (m *members) end(func(string) error) error { return nil }
func (m *members) held() int                    { return 0 }

// partFields finds parts that are not written in the bytes of ASCII: each line that begins
// as such a field does counts.
type partFields struct {
	line  []byte
	other bool // the line is no such field
	ended bool // the line is over, and another may go on with it
}

// maxField bounds a field of a part.
const maxField = 1 << 10

func (b *partFields) write(p []byte, found func(string) error) error {
	for len(p) > 0 {
		if b.ended {
			switch p[0] {
			case '\r', '\n':
				p = p[1:]
				continue
			case ' ', '\t':
			default:
				if err := b.end(found); err != nil {
					return err
				}
				b.other = p[0]|0x20 != 'c'
			}
			b.ended = false
		}
		piece, i := p, bytes.IndexAny(p, "\r\n")
		if i >= 0 {
			piece = p[:i]
		}
		if !b.other {
			if b.line = append(b.line, piece[:min(len(piece), maxField)]...); len(b.line) >= len("content-transfer-encoding") &&
				!b.tells() {
				b.other, b.line = true, b.line[:0]
			}
			if len(b.line) >= maxField {
				return errPartMetadata
			}
		}
		if i < 0 {
			return nil
		}
		b.ended, p = true, p[i+1:]
	}
	return nil
}

// tells reports whether the line is a field that says how a part is written.
func (b *partFields) tells() bool {
	line := bytes.ToLower(b.line[:min(len(b.line), len("content-transfer-encoding"))])
	return bytes.HasPrefix(line, []byte("content-type")) || bytes.HasPrefix(line, []byte("content-transfer-encoding"))
}

func (b *partFields) end(func(string) error) error {
	line := strings.ToLower(string(b.line))
	b.line = b.line[:0]
	_, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch {
	case strings.HasPrefix(line, "content-transfer-encoding") &&
		!slices.Contains([]string{"binary", "7bit", "8bit"}, value):
		return errPartMetadata
	case strings.HasPrefix(line, "content-type") && strings.Contains(value, "charset"):
		_, charset, _ := strings.Cut(value, "charset")
		charset, _, _ = strings.Cut(strings.TrimLeft(charset, "= \t"), ";")
		if c := (Content{Charset: strings.Trim(charset, "\"' \t")}); !c.Plain() {
			return errPartMetadata
		}
	}
	return nil
}

func (b *partFields) held() int { return 0 }
