package config

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"cloister/internal/nearest"
	"cloister/internal/source"
)

// Bounds of one file. The parser's cost grows with the square of the depth, so
// depth is bounded before it sees a token: 64,000 open brackets cost seconds.
const (
	MaxFile   = 1 << 20
	maxDepth  = 32
	maxTokens = 100_000
	maxErrors = 20
)

// reader walks the tree of one file beside the Go value it fills, and gathers
// what is wrong.
type reader struct {
	file     string
	places   map[string]source.Position
	problems []*source.Problem
	joined   bool // its lists are joined to those of config.yaml, which stand before them
}

func newReader(name string) *reader { return &reader{file: name, places: map[string]source.Position{}} }

// decode fills out from the one document in text.
func (r *reader) decode(text []byte, out any) {
	if root := r.parse(text); root != nil {
		r.value(root, reflect.ValueOf(out).Elem(), "")
	}
}

// parse returns the one document of the text, or nil where it is empty or
// wrong.
func (r *reader) parse(text []byte) ast.Node {
	if len(text) > MaxFile {
		r.problem(source.Position{}, "", "larger than %d bytes", MaxFile)
		return nil
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if at, what := foreignByte(text); what != "" {
		r.problem(at, "save the file as plain UTF-8 text", "%s", what)
		return nil
	}
	tokens := lexer.Tokenize(string(text))
	if !r.bounded(tokens) {
		return nil
	}
	f, err := parser.Parse(tokens, 0)
	if err != nil {
		r.syntax(err)
		return nil
	}
	var root ast.Node
	for _, doc := range f.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if root != nil {
			r.problem(r.placeOf(doc.Body.GetToken()), "keep one document in a file", "a second document begins here")
			return nil
		}
		root = doc.Body
	}
	if root != nil && root.Type() == ast.NullType {
		return nil
	}
	return root
}

// worded is a string that may only be one of a few words.
type worded interface{ words() []string }

func (r *reader) value(n ast.Node, v reflect.Value, path string) {
	n = bare(n)
	r.places[path] = r.placeOf(first(n))
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		if text, ok := r.scalar(n, path); ok {
			if err := u.UnmarshalText([]byte(text)); err != nil {
				r.problem(r.places[path], "", "%s: %v", path, err)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		r.mapping(n, v, path)
	case reflect.Map:
		r.dictionary(n, v, path)
	case reflect.Slice:
		r.list(n, v, path)
	case reflect.String:
		r.text(n, v, path)
	case reflect.Int, reflect.Int64, reflect.Uint16:
		r.integer(n, v, path)
	case reflect.Float64:
		r.float(n, v, path)
	case reflect.Bool:
		r.truth(n, v, path)
	default:
		panic("config: no reader for " + v.Type().String())
	}
}

// bare takes wrappers off a node.
func bare(n ast.Node) ast.Node {
	for {
		m, ok := n.(*ast.MappingKeyNode)
		if !ok || m.Value == nil {
			return n
		}
		n = m.Value
	}
}

// first is the token where a node begins: that of a block of keys and values
// would be its first colon.
func first(n ast.Node) *token.Token {
	switch m := n.(type) {
	case *ast.MappingValueNode:
		return m.Key.GetToken()
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return m.Values[0].Key.GetToken()
		}
	}
	return n.GetToken()
}

func (r *reader) entries(n ast.Node, path string) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	case *ast.NullNode:
		return nil // a section whose keys are all commented out
	default:
		r.mistyped(n, path, keysAndValues)
		return nil
	}
}

// keyed calls f for each entry that has a usable key of its own.
func (r *reader) keyed(n ast.Node, path string, f func(key string, at source.Position, value ast.Node)) {
	seen := map[string]bool{}
	for _, e := range r.entries(n, path) {
		k := bare(e.Key)
		at := r.placeOf(k.GetToken())
		s, ok := k.(ast.ScalarNode)
		if !ok || k.GetToken() == nil || e.Value == nil {
			r.problem(at, "", "not a key")
			continue
		}
		key := fmt.Sprint(s.GetValue())
		if seen[key] {
			r.problem(at, "", "the key %q stands here twice", key)
			continue
		}
		seen[key] = true
		f(key, at, e.Value)
	}
}

// mapping fills a struct. Its Place stays zero where a part of it was wrong, so
// that nothing more is said about a value that is not there.
func (r *reader) mapping(n ast.Node, v reflect.Value, path string) {
	place, before := -1, len(r.problems)
	fields := map[string]int{}
	var names []string
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("json")
		switch {
		case v.Type().Field(i).Type == reflect.TypeFor[source.Position]():
			place = i
		case name != "" && name != "-":
			fields[name] = i
			names = append(names, name)
		}
	}
	r.keyed(n, path, func(key string, at source.Position, value ast.Node) {
		i, ok := fields[key]
		if !ok {
			r.unknown(key, at, names, path)
			return
		}
		r.value(value, v.Field(i), join(path, key))
	})
	if place >= 0 && len(r.problems) == before {
		v.Field(place).Set(reflect.ValueOf(r.places[path]))
	}
}

func (r *reader) unknown(key string, at source.Position, names []string, path string) {
	where := "at the top"
	if path != "" {
		where = "in " + path
	}
	hint := where + " the keys are " + strings.Join(names, ", ")
	if near := nearest.Word(key, names); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	r.problem(at, hint, "unknown key %q %s", key, where)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (r *reader) dictionary(n ast.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeMap(v.Type()))
	r.keyed(n, path, func(key string, at source.Position, value ast.Node) {
		item := reflect.New(v.Type().Elem()).Elem()
		r.value(value, item, join(path, key))
		v.SetMapIndex(reflect.ValueOf(key), item)
	})
}

func (r *reader) list(n ast.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // [] replaces the default; it does not mean the default
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		if n.Type() != ast.NullType {
			r.mistyped(n, path, list)
		}
		return
	}
	for i, item := range seq.Values {
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		r.value(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

// How a message calls a mapping and a sequence.
const (
	keysAndValues = "keys and values"
	list          = "a list"
)
