package config

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"

	"cloister/internal/nearest"
)

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
