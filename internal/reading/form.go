package reading

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// A Form finds, in a body that passes, what asks for another method: the key _method and
// its kin, which Rack, Laravel, Symfony, Spring, Phoenix, Slim, Yii and Express obey in
// forms of both kinds, some of them in JSON.
//
// It holds no body: the keys of a form and the strings of JSON are looked at as they come,
// and of each as much as the longest key needs. It does not follow the boundary of a
// multipart body, about which readers differ: each line that begins as a
// Content-Disposition does counts.
type Form struct {
	coded, odd error
	scans      []scan
}

// A scan reads one kind of body. found is called with each method that is asked for.
type scan interface {
	write(p []byte, found func(value string) error) error
	end(found func(value string) error) error
	// held is how many of the last bytes belong to a value that has not ended.
	held() int
}

// Why a body's method has no single reading.
var (
	errCodedForm = errors.New("it is compressed, and may ask for another method")
	errOddForm   = errors.New("its charset is not ASCII's, and it may ask for another method")
	errLongForm  = errors.New("it asks for another method with a name that has no end")
	errEncoded   = errors.New("it asks for another method in a transfer encoding")
)

// Form is how to look into the body of a request; nil where its type is none in which
// servers look for a method, or where there is no body.
func (r *Request) Form() *Form {
	if !r.Body {
		return nil
	}
	c := r.Content()
	f := &Form{}
	multipart := strings.HasPrefix(c.Type, "multipart/")
	isJSON := strings.Contains(c.Type, "json")
	if multipart || c.Odd != "" {
		f.scans = append(f.scans, &parts{})
	}
	if c.IsForm() && !multipart || c.Type == "" { // Rack takes a body without a type for a form
		f.scans = append(f.scans, &keys{})
	}
	if isJSON || c.Type == "" || strings.HasPrefix(c.Type, "text/") {
		f.scans = append(f.scans, &names{})
	}
	switch {
	case len(f.scans) == 0:
		return nil
	case c.Coded && !strings.HasPrefix(c.Type, "text/"):
		f.coded = errCodedForm
	case !c.Plain() && (c.IsForm() || isJSON):
		f.odd = errOddForm
	}
	return f
}

// Unreadable is why the body cannot be looked into; nil where it can.
func (f *Form) Unreadable() error {
	if f.coded != nil {
		return f.coded
	}
	return f.odd
}

// Write looks at more of the body; found is called with each method that it asks for, and
// its error is given back. The last held bytes may be part of such a method, and must
// wait for what follows.
func (f *Form) Write(p []byte, found func(method string) error) (held int, err error) {
	for _, s := range f.scans {
		if err := s.write(p, found); err != nil {
			return 0, err
		}
		held = max(held, s.held())
	}
	return min(held, maxName), nil
}

// End says that the body is over.
func (f *Form) End(found func(method string) error) error {
	for _, s := range f.scans {
		if err := s.end(found); err != nil {
			return err
		}
	}
	return nil
}

// maxName bounds what is kept of a key or a value, as it is written: each letter of
// X-HTTP-Method-Override can be six characters.
const maxName = 256

// asksMethod reports whether a key, decoded, names another method.
func asksMethod(key string) bool { return isMethodKey(key) || kindOf(key) == method }

// keys reads application/x-www-form-urlencoded.
type keys struct {
	text  []byte // of the key or the value, as it is written
	value bool   // of a key that asks
	skip  bool   // what comes is of no interest until the next pair
}

func (k *keys) write(p []byte, found func(string) error) error {
	for len(p) > 0 {
		stops := "&;="
		if k.value || k.skip {
			stops = "&;"
		}
		piece, i := p, bytes.IndexAny(p, stops)
		if i >= 0 {
			piece = p[:i]
		}
		if err := k.add(piece); err != nil {
			return err
		}
		if i < 0 {
			return nil
		}
		if p[i] == '=' {
			k.value = asksMethod(unescaped(string(k.text)))
			k.skip, k.text = !k.value, k.text[:0]
		} else if err := k.end(found); err != nil {
			return err
		}
		p = p[i+1:]
	}
	return nil
}

func (k *keys) add(piece []byte) error {
	for !k.skip && len(piece) > 0 {
		n := min(len(piece), maxName-len(k.text))
		k.text, piece = append(k.text, piece[:n]...), piece[n:]
		if len(piece) == 0 {
			break
		}
		switch {
		case k.value:
			return errLongForm
		case strings.Trim(unescaped(string(k.text[:maxName-4])), " ") == "": // PHP drops spaces before a key
			k.text = append(k.text[:0], k.text[maxName-4:]...)
		case asksMethod(unescaped(string(k.text))): // it ends at a NUL
			return errLongForm
		default:
			k.skip = true
		}
	}
	return nil
}

func (k *keys) end(found func(string) error) error {
	value := k.value
	k.value, k.skip = false, false
	text := unescaped(string(k.text))
	if k.text = k.text[:0]; value {
		return found(text)
	}
	return nil
}

func (k *keys) held() int {
	if !k.value {
		return 0
	}
	return len(k.text)
}

// parts reads multipart bodies, line by line.
type parts struct {
	line    []byte
	long    bool // the line has more than was kept
	after   byte // the last byte, where a line ended
	asks    bool // the fields of a part that asks
	value   bool // its value is next
	encoded bool
}

// maxLine bounds the fields of a part: a name may stand behind a long file name.
const maxLine = 8 << 10

func (b *parts) write(p []byte, found func(string) error) error {
	for len(p) > 0 {
		if b.after == '\r' && p[0] == '\n' {
			b.after, p = 0, p[1:]
			continue
		}
		b.after = 0
		piece, i := p, bytes.IndexAny(p, "\r\n")
		if i >= 0 {
			piece = p[:i]
		}
		n := min(len(piece), maxLine-len(b.line))
		if b.long || len(b.line) == 0 && !b.value && !mayBegin(piece) {
			n = 0
		}
		b.line, b.long = append(b.line, piece[:n]...), b.long || n < len(piece)
		if b.value && len(b.line) > maxName {
			return errLongForm
		}
		if i < 0 {
			return nil
		}
		b.after, p = p[i], p[i+1:]
		if err := b.end(found); err != nil {
			return err
		}
	}
	return nil
}

// mayBegin reports whether a line that begins so may be a field of a part, or the rest of one.
func mayBegin(piece []byte) bool {
	return len(piece) == 0 || strings.IndexByte("cC \t", piece[0]) >= 0
}

func (b *parts) end(found func(string) error) error {
	line, long := strings.ToLower(string(b.line)), b.long
	written := string(b.line)
	b.line, b.long = b.line[:0], false
	if b.value {
		if strings.TrimSpace(written) == "" {
			return nil // what strips a value strips such lines
		}
		b.value, b.asks = false, false
		if b.encoded {
			return errEncoded
		}
		return found(strings.TrimSpace(written))
	}
	switch {
	case line == "" && !long:
		b.value = b.asks
	case strings.HasPrefix(line, "content-transfer-encoding"):
		b.encoded = true
	case strings.HasPrefix(line, "content-disposition"), line != "" && strings.IndexByte(" \t", line[0]) >= 0:
		if strings.HasPrefix(line, "content-disposition") {
			b.encoded = false
		}
		if named(line) {
			b.asks = true
		} else if long {
			return errLongForm
		}
	}
	return nil
}

func (b *parts) held() int {
	if !b.value {
		return 0
	}
	return len(b.line)
}

// named reports whether a Content-Disposition, or a line that goes on with one, may give a
// part a name that asks: readers differ about quotes, escapes and encodings.
func named(line string) bool {
	line = strings.NewReplacer(`\`, "", "=5f", "_").Replace(unescaped(strings.ReplaceAll(line, "+", "%2B")))
	between := func(c rune) bool { return strings.ContainsRune("=;\"'?, \t", c) }
	return slices.ContainsFunc(strings.FieldsFunc(line, between), asksMethod)
}

// names reads JSON: each string that a colon follows is a name, at whatever depth, since
// readers differ about comments and what else is no JSON.
type names struct {
	text   []byte
	in     byte // the quote of the string under way
	escape bool
	long   bool
	last   string // the string before, while nothing but white space came
	asks   bool   // a name that asks, and its colon, came before
}

func (n *names) write(p []byte, found func(string) error) error {
	for i := 0; i < len(p); i++ {
		c := p[i]
		if n.in == 0 {
			if n.last == "" && !n.asks {
				next := bytes.IndexByte(p[i:], '"')
				if next < 0 {
					return nil
				}
				i += next
				c = '"'
			}
			switch c {
			case '"':
				n.in, n.text, n.long = c, n.text[:0], false
			case ' ', '\t', '\r', '\n', 0:
			case '[': // of a list method-override takes the first
				n.last = ""
			case ':':
				n.asks, n.last = n.asks || asksMethod(n.last), ""
			default:
				n.last, n.asks = "", false
			}
			continue
		}
		if !n.escape && c != n.in && c != '\\' { // the bytes until one of them
			next := bytes.IndexAny(p[i:], `"\`)
			if next < 0 {
				next = len(p) - i
			}
			n.keep(p[i : i+next])
			i += next - 1
			continue
		}
		if !n.escape && c == n.in {
			if err := n.closed(found); err != nil {
				return err
			}
			continue
		}
		n.escape = !n.escape && c == '\\'
		n.keep(p[i : i+1])
	}
	return nil
}

func (n *names) keep(p []byte) {
	if len(n.text)+len(p) > maxName {
		n.long = true
		return
	}
	n.text = append(n.text, p...)
}

// closed ends a string.
func (n *names) closed(found func(string) error) error {
	n.in = 0
	asks := n.asks
	n.asks, n.last = false, ""
	if escaped := bytes.IndexByte(n.text, '\\') >= 0; !asks && !escaped &&
		(len(n.text) < len("_method") || n.text[0] >= 'a' && n.text[0] != 'x') {
		n.last = "another" // nearly always
		return nil
	}
	var text string
	if !n.long && json.Unmarshal([]byte(`"`+string(n.text)+`"`), &text) != nil {
		text = string(n.text)
	}
	switch {
	case asks && n.long:
		return errLongForm
	case asks:
		return found(text)
	}
	n.last = text
	return nil
}

func (n *names) end(func(string) error) error { return nil }
func (n *names) held() int                    { return 0 }

// With is the request with more methods that its body asks for.
func (r *Request) With(methods ...string) Request {
	out := Request{
		To: r.To, Method: r.Method, Path: r.Path, BadPath: r.BadPath, Raw: r.Raw, Query: r.Query, Header: r.Header,
		Body: r.Body,
	}
	for _, name := range methods {
		out.add(method, "a key of its body", "", name)
	}
	out.Read()
	return out
}
