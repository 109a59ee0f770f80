package services

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cloister/devcontainer/jsonc"
)

// Left is a compose file without the keys that a judge refused: their names as it wrote
// them, such as services.db.volumes[0].
func Left(config jsonc.Value, refused []string) jsonc.Value {
	gone := map[string]bool{}
	for _, key := range refused {
		gone[key] = true
	}
	return left(config, "", gone)
}

func left(v jsonc.Value, at string, gone map[string]bool) jsonc.Value {
	switch v.Kind {
	case jsonc.Object:
		var kept []jsonc.Member
		for _, m := range v.Members {
			name := m.Name
			if at != "" {
				name = at + "." + m.Name
			}
			if gone[name] || m.Value.Kind != jsonc.Array && gone[name+"[0]"] {
				continue // of a single value a judge speaks as of a list
			}
			m.Value = left(m.Value, name, gone)
			kept = append(kept, m)
		}
		v.Members = kept
	case jsonc.Array:
		var kept []jsonc.Value
		for n, i := range v.Items {
			pair, _, _ := strings.Cut(i.Text, "=")
			name := fmt.Sprintf("%s[%d]", at, n)
			if gone[name] || i.Kind == jsonc.String && gone[at+"."+pair] {
				continue
			}
			kept = append(kept, left(i, name, gone))
		}
		v.Items = kept
	case jsonc.Null, jsonc.Bool, jsonc.Number, jsonc.String:
	}
	return v
}

// replacing are lists of which the later file's takes the place of the earlier one's.
var replacing = []string{"command", "entrypoint", "test"}

// Join lays a later file over an earlier one, as compose does: mappings key by key, lists one
// after the other, of anything else the later.
func Join(earlier, later jsonc.Value) jsonc.Value { return join("", earlier, later) }

func join(key string, a, b jsonc.Value) jsonc.Value {
	switch {
	case slices.Contains(replacing, key):
		return b
	case a.Kind == jsonc.Object && b.Kind == jsonc.Object:
		a.Members = slices.Clone(a.Members)
		for _, m := range b.Members {
			at := slices.IndexFunc(a.Members, func(o jsonc.Member) bool { return o.Name == m.Name })
			if at < 0 {
				a.Members = append(a.Members, m)
				continue
			}
			a.Members[at].Value = join(m.Name, a.Members[at].Value, m.Value)
		}
		return a
	case a.Kind == jsonc.Array && b.Kind == jsonc.Array:
		a.Items = slices.Concat(a.Items, b.Items)
		return a
	case a.Kind == jsonc.Array && b.Kind == jsonc.Object, a.Kind == jsonc.Object && b.Kind == jsonc.Array:
		return join(key, mapping(a), mapping(b))
	}
	return b
}

// mapping is a list of names or NAME=VALUE in the other form that compose has for it.
func mapping(v jsonc.Value) jsonc.Value {
	if v.Kind != jsonc.Array {
		return v
	}
	out := jsonc.Value{Kind: jsonc.Object, Line: v.Line, Column: v.Column}
	for _, i := range v.Items {
		name, value, set := strings.Cut(i.Text, "=")
		one := jsonc.Value{Kind: jsonc.Null, Line: i.Line, Column: i.Column}
		if set {
			one.Kind, one.Text = jsonc.String, value
		}
		out.Members = append(out.Members, jsonc.Member{Name: name, Line: i.Line, Column: i.Column, Value: one})
	}
	return out
}

var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$(?:\$|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])([^{}]*))?\}|)`)
})

// expanded replaces the variables of every text of a value, once.
func (r *reader) expanded(v jsonc.Value) (jsonc.Value, error) {
	switch v.Kind {
	case jsonc.String:
		text, err := r.expand(v)
		v.Text = text
		return v, err
	case jsonc.Array:
		v.Items = slices.Clone(v.Items)
		for n := range v.Items {
			var err error
			if v.Items[n], err = r.expanded(v.Items[n]); err != nil {
				return v, err
			}
		}
	case jsonc.Object:
		v.Members = slices.Clone(v.Members)
		for n := range v.Members {
			var err error
			if v.Members[n].Value, err = r.expanded(v.Members[n].Value); err != nil {
				return v, err
			}
		}
	case jsonc.Null, jsonc.Bool, jsonc.Number:
	}
	return v, nil
}

// expand replaces ${NAME}, ${NAME:-default} and $$ in a text. A variable that was not given
// and that has no default is an error: what it would be is this machine's.
func (r *reader) expand(v jsonc.Value) (string, error) {
	var bad error
	out := variable().ReplaceAllStringFunc(v.Text, func(whole string) string {
		m := variable().FindStringSubmatch(whole)
		name, operator, word := m[1]+m[2], m[3], m[4]
		if whole == "$$" {
			return "$"
		}
		value, set := "", false
		if name != "" && r.Variable != nil {
			value, set = r.Variable(name)
		}
		switch {
		case name == "":
			bad = &jsonc.Error{File: r.file, Line: v.Line, Column: v.Column, Msg: "a $ that begins no variable",
				Hint: "write $$"}
		case strings.HasSuffix(operator, "-") && (!set || operator == ":-" && value == ""):
			return word
		case strings.HasSuffix(operator, "+"):
			if set && (operator == "+" || value != "") {
				return word
			}
			return ""
		case !set:
			bad = &jsonc.Error{File: r.file, Line: v.Line, Column: v.Column,
				Msg:  "the variable " + name + " of this machine is not given",
				Hint: "give it: -e " + name + ", or a default: ${" + name + ":-VALUE}"}
		}
		return value
	})
	return out, bad
}
