package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
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
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "Cloister configuration"
	optional(s)
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write schema: %w", err)
	}
	return append(out, '\n'), nil
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
