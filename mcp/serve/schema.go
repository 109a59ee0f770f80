package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A schema is JSON Schema as far as the arguments of the tools need it.
type schema struct {
	Type        string            `json:"type"`
	Description string            `json:"description,omitempty"`
	Properties  map[string]schema `json:"properties,omitempty"`
	Required    []string          `json:"required,omitempty"`
	Items       *schema           `json:"items,omitempty"`
	// Additional is false for an object of known members, and the schema of the values of a map.
	Additional any `json:"additionalProperties,omitempty"`
}

// schemaOf describes a type: a field is called as in JSON, its tag doc describes it, and it
// is required unless its JSON may leave it out.
func schemaOf(t reflect.Type) schema {
	switch t.Kind() {
	case reflect.String:
		return schema{Type: "string"}
	case reflect.Bool:
		return schema{Type: "boolean"}
	case reflect.Int, reflect.Int64:
		return schema{Type: "integer"}
	case reflect.Float64:
		return schema{Type: "number"}
	case reflect.Slice:
		items := schemaOf(t.Elem())
		return schema{Type: "array", Items: &items}
	case reflect.Map:
		return schema{Type: "object", Additional: schemaOf(t.Elem())}
	case reflect.Struct:
		s := schema{Type: "object", Properties: map[string]schema{}, Additional: false}
		for f := range t.Fields() {
			name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
			p := schemaOf(f.Type)
			p.Description = f.Tag.Get("doc")
			s.Properties[name] = p
			if rest != "omitempty" {
				s.Required = append(s.Required, name)
			}
		}
		return s
	default:
		panic("no schema for " + t.String())
	}
}

// decode reads arguments into v, a pointer to what s describes. A member has its exact name.
func (s schema) decode(arguments json.RawMessage, v any) error {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	m, err := members(arguments)
	if err != nil {
		return fmt.Errorf("its arguments: %w", err)
	}
	for name, value := range m {
		p, known := s.Properties[name]
		switch {
		case !known:
			return fmt.Errorf("there is no argument %q", name)
		case p.null(value):
			return fmt.Errorf("%s is null, or holds one, which is no %s", name, p.Type)
		}
	}
	for _, name := range s.Required {
		if _, there := m[name]; !there {
			return fmt.Errorf("%s is missing", name)
		}
	}
	err = json.Unmarshal(arguments, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field, _, _ := strings.Cut(wrong.Field, ".")
		return fmt.Errorf("%s is a %s, not the %s that it has to be", field, wrong.Value, s.Properties[field].Type)
	}
	return err
}

// null reports whether a value is null or holds one where s has something else.
func (s schema) null(value json.RawMessage) bool {
	null := func(v json.RawMessage) bool { return string(v) == "null" }
	var list []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case null(value):
		return true
	case s.Type == "array" && json.Unmarshal(value, &list) == nil:
		return slices.ContainsFunc(list, null)
	case s.Type == "object" && json.Unmarshal(value, &object) == nil:
		return slices.ContainsFunc(slices.Collect(maps.Values(object)), null)
	default:
		return false
	}
}
