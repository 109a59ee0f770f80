// Package jsonc reads JSON with comments and trailing commas and keeps the line and
// column of every key and value.
//
// The promise: a text is read whole or refused with file, line and column; a key that
// stands twice in one object is refused, because two readers could take different ones;
// size and depth are bounded. It knows no key of any format and changes no file.
// Most readers want [Parse].
package jsonc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// MaxSize and MaxDepth bound a text.
const (
	MaxSize  = 1 << 20
	MaxDepth = 100
)

// Kind is what a value is.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"null", "true or false", "a number", "a string", "a list", "an object"}[k]
}

// Value is one value with its place.
type Value struct {
	Kind         Kind
	Line, Column int
	Text         string // of a string
	Number       json.Number
	Bool         bool
	Items        []Value
	Members      []Member
}

// Member is one key of an object with its value; the place is the key's.
type Member struct {
	Name         string
	Line, Column int
	Value        Value
}

// Error says where a text cannot be read.
type Error struct {
	File         string
	Line, Column int
	Msg          string
	Hint         string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg) }

// Hints are the words of what to do.
func (e *Error) Hints() []string {
	if e.Hint == "" {
		return nil
	}
	return []string{e.Hint}
}

// Parse reads a text; file names it in errors.
func Parse(file string, text []byte) (Value, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if len(text) > MaxSize {
		return Value{}, &Error{File: file, Line: 1, Column: 1, Msg: fmt.Sprintf("longer than %d bytes", MaxSize)}
	}
	r := reader{file: file, text: text}
	if at := tooDeep(text); at >= 0 {
		return Value{}, r.bad(at, fmt.Sprintf("nested deeper than %d", MaxDepth))
	}
	whole := text
	if last := text[bytes.LastIndexByte(text, '\n')+1:]; bytes.Contains(last, []byte("//")) {
		whole = append(bytes.Clone(text), '\n') // the library's parser wants the end of a comment's line
	}
	v, err := hujson.Parse(whole)
	if err != nil {
		return Value{}, r.syntax(err)
	}
	return r.value(v)
}

type reader struct {
	file string
	text []byte
}

// syntax gives the library's error in the house's form.
func (r *reader) syntax(err error) error {
	e := &Error{File: r.file, Line: 1, Column: 1, Msg: err.Error()}
	// The library has its place in the text alone.
	if _, scan := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &e.Line, &e.Column); scan == nil {
		if inner := errors.Unwrap(err); inner != nil {
			e.Msg = inner.Error()
		}
	}
	return e
}

func (r *reader) bad(offset int, msg string) error {
	line, column := r.place(offset)
	return &Error{File: r.file, Line: line, Column: column, Msg: msg}
}

// place counts lines and columns from 1, columns in bytes.
func (r *reader) place(offset int) (line, column int) {
	offset = min(offset, len(r.text))
	before := r.text[:offset]
	return 1 + bytes.Count(before, []byte("\n")), offset - bytes.LastIndexByte(before, '\n')
}

func (r *reader) value(v hujson.Value) (Value, error) {
	var out Value
	out.Line, out.Column = r.place(v.StartOffset)
	switch t := v.Value.(type) {
	case *hujson.Object:
		out.Kind = Object
		return r.object(out, t)
	case *hujson.Array:
		out.Kind = Array
		for _, e := range t.Elements {
			item, err := r.value(e)
			if err != nil {
				return out, err
			}
			out.Items = append(out.Items, item)
		}
	case hujson.Literal:
		switch t.Kind() {
		case 't', 'f':
			out.Kind, out.Bool = Bool, t.Bool()
		case '"':
			out.Kind, out.Text = String, t.String()
		case '0':
			out.Kind, out.Number = Number, json.Number(string(t))
		}
	}
	return out, nil
}

func (r *reader) object(out Value, o *hujson.Object) (Value, error) {
	seen := map[string]int{}
	for _, m := range o.Members {
		name, ok := m.Name.Value.(hujson.Literal)
		if !ok {
			return out, r.bad(m.Name.StartOffset, "a key must be a string")
		}
		member := Member{Name: name.String()}
		member.Line, member.Column = r.place(m.Name.StartOffset)
		if first, twice := seen[member.Name]; twice {
			e := r.bad(m.Name.StartOffset, fmt.Sprintf("%q stands at line %d already", member.Name, first))
			return out, e
		}
		seen[member.Name] = member.Line
		var err error
		if member.Value, err = r.value(m.Value); err != nil {
			return out, err
		}
		out.Members = append(out.Members, member)
	}
	return out, nil
}

// tooDeep is the offset at which a text nests deeper than it may; -1 where it does
// not. The library reads by recursion, so this is known before.
func tooDeep(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '/':
			i += comment(text[i:])
		case '{', '[':
			if depth++; depth > MaxDepth {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

// comment is how many bytes follow the slash of a comment that begins here.
func comment(text []byte) int {
	for open, end := range map[string]string{"//": "\n", "/*": "*/"} {
		if bytes.HasPrefix(text, []byte(open)) {
			if n := bytes.Index(text[2:], []byte(end)); n >= 0 {
				return 2 + n + len(end) - 1
			}
			return len(text)
		}
	}
	return 0
}

// Get is the value of an object's key.
func (v Value) Get(name string) (Value, bool) {
	m, ok := v.Member(name)
	return m.Value, ok
}

// Member is an object's key with its value.
func (v Value) Member(name string) (Member, bool) {
	at := slices.IndexFunc(v.Members, func(m Member) bool { return m.Name == name })
	if at < 0 {
		return Member{}, false
	}
	return v.Members[at], true
}

// Names are the keys of an object, in order.
func (v Value) Names() []string {
	var out []string
	for _, m := range v.Members {
		out = append(out, m.Name)
	}
	return out
}

// Any is the value in the types of encoding/json; numbers are json.Number.
func (v Value) Any() any {
	switch v.Kind {
	case Bool:
		return v.Bool
	case Number:
		return v.Number
	case String:
		return v.Text
	case Array:
		out := make([]any, 0, len(v.Items))
		for _, i := range v.Items {
			out = append(out, i.Any())
		}
		return out
	case Object:
		out := make(map[string]any, len(v.Members))
		for _, m := range v.Members {
			out[m.Name] = m.Value.Any()
		}
		return out
	case Null:
	}
	return nil
}

// Brief is a value on one line, as a person reads it in a list.
func (v Value) Brief() string {
	if v.Kind == String {
		return v.Text
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v.Any()); err != nil {
		return v.Kind.String()
	}
	return strings.TrimSpace(b.String())
}
