package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "write what is generated")

// TestSchema holds the schema to the types that it is made from.
func TestSchema(t *testing.T) {
	want, err := makeSchema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(Schema(), want) {
		t.Error("schema.json is not what the types say: go generate ./config")
	}
}

func makeSchema() ([]byte, error) {
	s, err := jsonschema.For[Config](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Duration]():  {Type: "string", Pattern: `^[0-9.]+(ns|us|ms|s|m|h)([0-9.]+(ns|us|ms|s|m|h))*$`},
		reflect.TypeFor[Size]():      {Types: []string{"string", "integer"}, Pattern: `^[0-9.]+ ?([kKmMgGtT](i?[bB])?|[bB])?$`},
		reflect.TypeFor[Isolation](): oneOf(Isolation("").words()),
		reflect.TypeFor[Mode]():      oneOf(Mode("").words()),
		reflect.TypeFor[Workspace](): oneOf(Workspace("").words()),
		reflect.TypeFor[TLS]():       oneOf(TLS("").words()),
		reflect.TypeFor[Use]():       oneOf(Use("").words()),
		reflect.TypeFor[Unlisted]():  oneOf(Unlisted("").words()),
	}})
	if err != nil {
		return nil, fmt.Errorf("make schema: %w", err)
	}
	docs, err := fieldDocs()
	if err != nil {
		return nil, err
	}
	describe(s, reflect.TypeFor[Config](), docs)
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "Cloister configuration"
	optional(s)
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write schema: %w", err)
	}
	return append(out, '\n'), nil
}

// fieldDocs are the first paragraphs of the comments of this package's fields, by TYPE.FIELD: what
// a person is told of a key. Further paragraphs are for readers of the code.
func fieldDocs() (map[string]string, error) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		return nil, err
	}
	docs := map[string]string{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			t, is := n.(*ast.TypeSpec)
			if !is {
				return true
			}
			if of, is := t.Type.(*ast.StructType); is {
				for _, f := range of.Fields.List {
					first, _, _ := strings.Cut(f.Doc.Text(), "\n\n")
					for _, name := range f.Names {
						docs[t.Name.Name+"."+name.Name] = strings.Join(strings.Fields(first), " ")
					}
				}
			}
			return false
		})
	}
	return docs, nil
}

// describe puts what the comments say into a schema of a type.
func describe(s *jsonschema.Schema, t reflect.Type, docs map[string]string) {
	switch {
	case t.Kind() == reflect.Slice && s.Items != nil:
		describe(s.Items, t.Elem(), docs)
	case t.Kind() == reflect.Map && s.AdditionalProperties != nil:
		describe(s.AdditionalProperties, t.Elem(), docs)
	case t.Kind() == reflect.Pointer:
		describe(s, t.Elem(), docs)
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if p := s.Properties[name]; p != nil {
				p.Description = docs[t.Name()+"."+f.Name]
				describe(p, f.Type, docs)
			}
		}
	}
}

func oneOf(words []string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, w := range words {
		s.Enum = append(s.Enum, w)
	}
	return s
}

// optional takes off what the library adds for Go's sake: every key has a
// default, and a section may stand there empty.
func optional(s *jsonschema.Schema) {
	s.Required = nil
	if s.Type == "object" || s.Type == "array" {
		s.Types, s.Type = []string{s.Type, "null"}, ""
	}
	for _, p := range s.Properties {
		optional(p)
	}
	if s.Items != nil {
		optional(s.Items)
	}
	if s.Properties == nil && s.AdditionalProperties != nil {
		optional(s.AdditionalProperties)
	}
}
