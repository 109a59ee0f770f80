package mcp

import (
	"bytes"
	"encoding/json"
	"slices"
)

// A value is one of JSON, as it stands in its frame.
type value struct {
	kind  kind
	raw   []byte // from its first to its last byte
	names []string
	items []value // of an array, or of the names
}

func (v *value) has(key string, seen map[string]bool) bool {
	if seen != nil {
		return seen[key]
	}
	return slices.Contains(v.names, key)
}

// note keeps a set of names once there are more than a few.
func note(seen map[string]bool, names []string) map[string]bool {
	if len(names) <= few {
		return nil
	}
	if seen == nil {
		seen = make(map[string]bool, 4*few)
		for _, n := range names {
			seen[n] = true
		}
	}
	seen[names[len(names)-1]] = true
	return seen
}

// decode is a string that was checked.
func decode(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var out string
	_ = json.Unmarshal(raw, &out) // it was checked
	return out
}

// get is what an object holds by that name; nil for none, and of what is no object.
func (v *value) get(name string) *value {
	if v == nil || v.kind != object {
		return nil
	}
	for i, n := range v.names {
		if n == name {
			return &v.items[i]
		}
	}
	return nil
}

// str is a string's text; false for what is none.
func (v *value) str() (string, bool) {
	if v == nil || v.kind != text {
		return "", false
	}
	return decode(v.raw), true
}

// plain is what encoding/json would make of it, numbers as json.Number.
func (v *value) plain() any {
	switch v.kind {
	case boolean:
		return v.raw[0] == 't'
	case number:
		return json.Number(v.raw)
	case text:
		return decode(v.raw)
	case array:
		out := make([]any, len(v.items))
		for i := range v.items {
			out[i] = v.items[i].plain()
		}
		return out
	case object:
		out := make(map[string]any, len(v.items))
		for i, n := range v.names {
			out[n] = v.items[i].plain()
		}
		return out
	case null:
	}
	return nil
}
