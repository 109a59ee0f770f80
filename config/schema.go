package config

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the JSON Schema (2020-12) of config.yaml, for editors. It says
// less than Parse does: whether a domain is one, no schema can tell.
func Schema() ([]byte, error) {
	s, err := jsonschema.For[Config](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Duration]():  {Type: "string", Pattern: `^[0-9.]+(ns|us|ms|s|m|h)([0-9.]+(ns|us|ms|s|m|h))*$`},
		reflect.TypeFor[Size]():      {Types: []string{"string", "integer"}, Pattern: `^[0-9.]+ ?([kKmMgGtT](i?[bB])?|[bB])?$`},
		reflect.TypeFor[Isolation](): oneOf(Isolation("").words()),
		reflect.TypeFor[Mode]():      oneOf(Mode("").words()),
		reflect.TypeFor[Workspace](): oneOf(Workspace("").words()),
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
	return out, nil
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
