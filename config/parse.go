package config

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"cloister/internal/nearest"
	"cloister/internal/source"
	"cloister/internal/yamlbound"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
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

func (r *reader) err() error {
	slices.SortStableFunc(r.problems, func(a, b *source.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := make([]error, 0, len(r.problems))
	for i, p := range r.problems {
		if i == maxErrors {
			errs = append(errs, &source.Problem{Position: source.Position{File: r.file},
				Msg: fmt.Sprintf("%d more problems", len(r.problems)-i)})
			break
		}
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

func (r *reader) problem(at source.Position, hint, format string, args ...any) {
	r.problems = append(r.problems, &source.Problem{
		Position: source.Position{File: r.file, Line: at.Line, Column: at.Column},
		Msg:      fmt.Sprintf(format, args...), Hint: hint,
	})
}

func (r *reader) placeOf(tk *token.Token) source.Position {
	if tk == nil || tk.Position == nil {
		return source.Position{File: r.file}
	}
	return source.Position{File: r.file, Line: tk.Position.Line, Column: tk.Position.Column}
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

// foreignByte finds what is no text: YAML 1.2 has no NUL or other control
// characters, and the scanner would pass some of them on.
func foreignByte(text []byte) (source.Position, string) {
	for i, line, start := 0, 1, 0; i < len(text); {
		c, n := utf8.DecodeRune(text[i:])
		what := ""
		switch {
		case c == utf8.RuneError && n == 1:
			what = "not valid UTF-8"
		case c == '\n':
			line, start = line+1, i+1
		case c < ' ' && c != '\t' && c != '\r', c == 0x7f:
			what = fmt.Sprintf("control character %#02x", c)
		}
		if what != "" {
			return source.Position{Line: line, Column: utf8.RuneCount(text[start:i]) + 1}, what
		}
		i += n
	}
	return source.Position{}, ""
}

// bounded refuses what makes a file slow or hard to read. Anchors, aliases and
// tags go because every rule must have its own line for explanations to name.
func (r *reader) bounded(tokens token.Tokens) bool {
	at, err := yamlbound.Check(tokens, maxTokens, maxDepth, token.AnchorType, token.AliasType, token.TagType,
		token.MergeKeyType, token.DirectiveType)
	place := source.Position{}
	if at != nil {
		place = r.placeOf(at)
	}
	switch {
	case errors.Is(err, yamlbound.ErrRefused):
		r.problem(place, "write the value out", "anchors, aliases, tags and directives are not used here")
	case err != nil:
		r.problem(place, "", "%v", err)
	}
	return err == nil
}

func (r *reader) syntax(err error) {
	var y yaml.Error
	if !errors.As(err, &y) {
		r.problem(source.Position{}, "", "not YAML: %v", firstLine(err.Error()))
		return
	}
	hint := ""
	if tk := y.GetToken(); tk != nil && strings.Contains(tk.Origin, "\t") {
		hint = "indent with spaces; YAML allows no tab there"
	}
	r.problem(r.placeOf(y.GetToken()), hint, "not YAML: %s", firstLine(y.GetMessage()))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
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

// scalar returns a string, or a number as it was written.
func (r *reader) scalar(n ast.Node, path string) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode:
		return strings.TrimSpace(n.GetToken().Value), true
	default:
		r.mistyped(n, path, "a word")
		return "", false
	}
}

func (r *reader) text(n ast.Node, v reflect.Value, path string) {
	var s string
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	default:
		r.mistyped(n, path, "text")
		return
	}
	if w, ok := reflect.TypeAssert[worded](v); ok && !slices.Contains(w.words(), s) {
		hint := "write one of: " + strings.Join(w.words(), ", ")
		if near := nearest.Word(s, w.words()); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		r.problem(r.places[path], hint, "%s: %q is not a value of this key", path, s)
		return
	}
	if s == "" {
		r.problem(r.places[path], "", "%s: empty", path)
		return
	}
	if strings.ContainsRune(s, 0) {
		r.problem(r.places[path], "", "%s: holds a NUL", path)
		return
	}
	v.SetString(s)
}

// plainInt keeps YAML's other spellings out: 010 is eight to some readers and
// ten to others.
var plainInt = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(0|[1-9][0-9]*)$`) })

func (r *reader) integer(n ast.Node, v reflect.Value, path string) {
	num, ok := n.(*ast.IntegerNode)
	if !ok {
		r.mistyped(n, path, "a whole number")
		return
	}
	written := strings.TrimSpace(num.GetToken().Value)
	i, err := strconv.ParseInt(written, 10, 64)
	if err != nil || !plainInt().MatchString(written) {
		r.problem(r.places[path], "", "%s: %q is not a plain positive whole number", path, written)
		return
	}
	if v.CanUint() {
		if i > math.MaxUint16 {
			r.problem(r.places[path], "", "%s: %d is larger than %d", path, i, math.MaxUint16)
			return
		}
		v.SetUint(uint64(i))
		return
	}
	v.SetInt(i)
}

func (r *reader) float(n ast.Node, v reflect.Value, path string) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
	default:
		r.mistyped(n, path, "a number")
		return
	}
	written := strings.TrimSpace(n.GetToken().Value)
	f, err := strconv.ParseFloat(written, 64)
	if err != nil || strings.Trim(written, "0123456789.") != "" {
		r.problem(r.places[path], "", "%s: %q is not a plain positive number", path, written)
		return
	}
	v.SetFloat(f)
}

func (r *reader) truth(n ast.Node, v reflect.Value, path string) {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		r.mistyped(n, path, "true or false")
		return
	}
	v.SetBool(b.Value)
}

func (r *reader) mistyped(n ast.Node, path, want string) {
	hint := ""
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		switch want {
		case "text", "a word":
			hint = fmt.Sprintf("put it in quotes: %q", strings.TrimSpace(n.GetToken().Value))
		case list:
			hint = "write [" + strings.TrimSpace(n.GetToken().Value) + "]"
		}
	case *ast.StringNode:
		hint = asWritten(n.GetToken().Value, path, want)
	case *ast.MappingNode, *ast.MappingValueNode:
		switch want {
		case "text":
			hint = "put it in quotes if it is one text with a colon"
		case list:
			hint = "write [{...}], or begin it with a hyphen"
		}
	case *ast.NullNode:
		hint = "give it a value, or take the key away for the default"
	}
	if path == "" {
		path = "the file"
	}
	are := "is"
	if want == keysAndValues {
		are = "are"
	}
	r.problem(r.placeOf(first(n)), hint, "%s: %s where %s %s expected", path, kindName(n), want, are)
}

// How a message calls a mapping and a sequence.
const (
	keysAndValues = "keys and values"
	list          = "a list"
)

// asWritten is how a text is written that stands where more than text belongs.
func asWritten(text, path, want string) string {
	if quoted := strconv.Quote(text); strings.Trim(text,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		text = quoted
	}
	rules := strings.HasPrefix(path, "proxy.allow[") || strings.HasPrefix(path, "proxy.ask[") ||
		strings.HasPrefix(path, "proxy.deny[")
	switch {
	case want == list:
		return "write [" + text + "]"
	case want == keysAndValues && rules && strings.HasSuffix(path, "]"):
		return "write {domain: " + text + "}"
	}
	return ""
}

func kindName(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return keysAndValues
	case *ast.SequenceNode:
		return list
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode:
		return "nothing"
	default:
		return "something else"
	}
}
