// Package compose reads a compose file as a value whose every key has its line and column.
//
// The promise: a text is read whole or refused with its place. Aliases and merge keys stand
// as what they mean, each with the place where it was written; how much they come to is
// bounded. A key that stands twice and a tag are refused, since two readers could take them
// differently. It knows no key of the format, replaces no variable and follows no file.
//
// Most readers want [Parse].
package compose

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cloister/devcontainer/jsonc"
	"cloister/internal/yamlbound"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The bounds of one file: of its text, of its words, and of what it comes to with all
// aliases written out.
const (
	maxText   = 256 << 10
	maxTokens = 50_000
	maxDepth  = 32
	maxValues = 50_000
)

// Parse reads a text; file names it in errors.
func Parse(file string, text []byte) (jsonc.Value, error) {
	r := &reader{file: file, anchors: map[string]ast.Node{}}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if len(text) > maxText {
		return jsonc.Value{}, r.bad(nil, fmt.Sprintf("longer than %d bytes", maxText))
	}
	if !utf8.Valid(text) || bytes.ContainsFunc(text, func(c rune) bool {
		return c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f
	}) {
		return jsonc.Value{}, r.bad(nil, "not plain UTF-8 text")
	}
	tokens := lexer.Tokenize(string(text))
	if err := r.bounded(tokens); err != nil {
		return jsonc.Value{}, err
	}
	f, err := parser.Parse(tokens, 0)
	if err != nil {
		return jsonc.Value{}, r.syntax(err)
	}
	var root ast.Node
	for _, doc := range f.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if root != nil {
			return jsonc.Value{}, r.bad(doc.Body.GetToken(), "a second document begins here")
		}
		root = doc.Body
	}
	if root == nil {
		return jsonc.Value{Kind: jsonc.Object, Line: 1, Column: 1}, nil
	}
	return r.value(root, 0)
}

type reader struct {
	file    string
	anchors map[string]ast.Node
	count   int
}

func (r *reader) bad(tk *token.Token, msg string) error {
	e := &jsonc.Error{File: r.file, Line: 1, Column: 1, Msg: msg}
	if tk != nil && tk.Position != nil {
		e.Line, e.Column = tk.Position.Line, tk.Position.Column
	}
	return e
}

func (r *reader) syntax(err error) error {
	var y yaml.Error
	if !errors.As(err, &y) {
		return r.bad(nil, "not YAML")
	}
	msg, _, _ := strings.Cut(y.GetMessage(), "\n")
	return r.bad(y.GetToken(), "not YAML: "+msg)
}

// bounded refuses what would be slow to read.
func (r *reader) bounded(tokens token.Tokens) error {
	at, err := yamlbound.Check(tokens, maxTokens, maxDepth, token.TagType, token.DirectiveType)
	switch {
	case errors.Is(err, yamlbound.ErrRefused):
		return r.bad(at, "tags and directives are not used here")
	case err != nil:
		return r.bad(at, err.Error())
	}
	return nil
}

// value is a node with its place.
func (r *reader) value(n ast.Node, depth int) (jsonc.Value, error) {
	tk := n.GetToken()
	if r.count++; r.count > maxValues {
		return jsonc.Value{}, r.bad(tk, fmt.Sprintf("it comes to more than %d values", maxValues))
	}
	if depth > maxDepth {
		return jsonc.Value{}, r.bad(tk, fmt.Sprintf("nested more than %d deep", maxDepth))
	}
	v := jsonc.Value{}
	if tk != nil && tk.Position != nil {
		v.Line, v.Column = tk.Position.Line, tk.Position.Column
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		v.Kind, v.Bool = jsonc.Bool, n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		v.Kind, v.Text, v.Number = jsonc.Number, tk.Value, json.Number(tk.Value)
		if _, err := strconv.ParseFloat(tk.Value, 64); err != nil {
			v.Kind = jsonc.String // 0x10 and 1_000 are not JSON's numbers
		}
	case *ast.StringNode:
		v.Kind, v.Text = jsonc.String, n.Value
	case *ast.LiteralNode:
		v.Kind, v.Text = jsonc.String, n.Value.Value
	case *ast.InfinityNode, *ast.NanNode:
		v.Kind, v.Text = jsonc.String, tk.Value
	case *ast.AnchorNode:
		return r.anchor(n, depth)
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		to, ok := r.anchors[name]
		if !ok {
			return v, r.bad(tk, "no anchor "+name+" stands before it")
		}
		out, err := r.value(to, depth+1)
		out.Line, out.Column = v.Line, v.Column
		return out, err
	case *ast.SequenceNode:
		v.Kind = jsonc.Array
		for _, item := range n.Values {
			one, err := r.value(item, depth+1)
			if err != nil {
				return v, err
			}
			v.Items = append(v.Items, one)
		}
	case *ast.MappingNode:
		v.Kind = jsonc.Object
		err := r.members(&v, n.Values, depth)
		return v, err
	case *ast.MappingValueNode:
		v.Kind = jsonc.Object
		err := r.members(&v, []*ast.MappingValueNode{n}, depth)
		return v, err
	default:
		return v, r.bad(tk, "it is no value of a compose file")
	}
	return v, nil
}

func (r *reader) anchor(n *ast.AnchorNode, depth int) (jsonc.Value, error) {
	name := n.Name.GetToken().Value
	if _, known := r.anchors[name]; known && r.anchors[name] != n.Value {
		return jsonc.Value{}, r.bad(n.GetToken(), "the anchor "+name+" stands twice")
	}
	// It is known after its end, so that it never holds itself.
	v, err := r.value(n.Value, depth+1)
	r.anchors[name] = n.Value
	return v, err
}

// members are the keys of a mapping, with those that are merged into it.
func (r *reader) members(v *jsonc.Value, values []*ast.MappingValueNode, depth int) error {
	var merged []jsonc.Member
	for _, m := range values {
		tk := m.Key.GetToken()
		one, err := r.value(m.Value, depth+1)
		if err != nil {
			return err
		}
		if m.Key.IsMergeKey() {
			list := []jsonc.Value{one}
			if one.Kind == jsonc.Array {
				list = one.Items
			}
			for _, from := range list {
				if from.Kind != jsonc.Object {
					return r.bad(tk, "what is merged is no mapping")
				}
				merged = append(merged, from.Members...)
			}
			continue
		}
		name := tk.Value
		if slices.ContainsFunc(v.Members, func(o jsonc.Member) bool { return o.Name == name }) {
			return r.bad(tk, fmt.Sprintf("the key %q stands twice", name))
		}
		at := tk.Position
		v.Members = append(v.Members, jsonc.Member{Name: name, Line: at.Line, Column: at.Column, Value: one})
	}
	for _, m := range merged {
		if !slices.ContainsFunc(v.Members, func(o jsonc.Member) bool { return o.Name == m.Name }) {
			v.Members = append(v.Members, m)
		}
	}
	return nil
}
