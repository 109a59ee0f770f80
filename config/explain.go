package config

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Value is one effective setting.
type Value struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	File  string `json:"file,omitempty"` // empty: the built-in default
	Line  int    `json:"line,omitempty"`
}

// Explain lists every effective value in the order of the file's format, each
// with where it came from. A list has one entry for each item.
func (c *Config) Explain() []Value {
	return c.explain(nil, reflect.ValueOf(*c), "")
}

func (c *Config) explain(out []Value, v reflect.Value, key string) []Value {
	if r, ok := reflect.TypeAssert[Rule](v); ok {
		return append(out, c.valued(key, r.String()))
	}
	if w, ok := reflect.TypeAssert[Rewrite](v); ok {
		return append(out, c.valued(key, w.String()))
	}
	if s, ok := reflect.TypeAssert[Secret](v); ok {
		return append(out, c.valued(key, s.String()))
	}
	if m, ok := reflect.TypeAssert[encoding.TextMarshaler](v); ok {
		text, err := m.MarshalText()
		if err != nil || v.IsZero() {
			text = []byte("unlimited")
		}
		if key == "hostexec.limits.memory" && v.IsZero() {
			text = []byte("three quarters of the machine's")
		}
		return append(out, c.valued(key, string(text)))
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Tag.Get("json"); name != "" && name != "-" {
				out = c.explain(out, v.Field(i), join(key, name))
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			return append(out, c.valued(key, "[]"))
		}
		for i := range v.Len() {
			out = c.explain(out, v.Index(i), at(key, i))
		}
	case reflect.Map:
		if v.Len() == 0 {
			return append(out, c.valued(key, "{}"))
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			out = c.explain(out, v.MapIndex(k), join(key, k.String()))
		}
	default:
		text := fmt.Sprint(v.Interface())
		if (key == "resources.cpus" || strings.HasPrefix(key, "proxy.rate_limit.")) && v.IsZero() {
			text = "unlimited"
		}
		return append(out, c.valued(key, text))
	}
	return out
}

func (c *Config) valued(key, text string) Value {
	p := c.places[key]
	return Value{Key: key, Value: text, File: p.File, Line: p.Line}
}

// String writes the rule on one line: *.example.org ports 443,8443.
func (r Rule) String() string {
	words := []string{r.Domain + r.CIDR}
	add := func(key string, list ...string) {
		if len(list) > 0 {
			words = append(words, key+" "+strings.Join(list, ","))
		}
	}
	ports := make([]string, len(r.Ports))
	for i, p := range r.Ports {
		ports[i] = strconv.Itoa(int(p))
	}
	add("ports", ports...)
	add("methods", r.Methods...)
	add("paths", r.Paths...)
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		add("header", name+"="+r.Headers[name])
	}
	for _, key := range slices.Sorted(maps.Keys(r.Query)) {
		add("query", key+"="+r.Query[key])
	}
	if r.Objects != "" {
		add("objects", string(r.Objects))
	}
	if r.Bytes > 0 {
		add("bytes", r.Bytes.String())
	}
	if r.Protocol != "" {
		add("protocol", string(r.Protocol))
		add("users", r.Users...)
		add("databases", r.Databases...)
		add("repositories", r.Repositories...)
		add("git", r.Git...)
		add("commands", r.Commands...)
		if r.Identity != "" {
			add("identity", r.Identity)
		}
		if r.Use != "" {
			add("use", string(r.Use))
		}
		add("host_keys", r.HostKeys...)
	}
	if r.TLS != "" {
		add("tls", string(r.TLS))
	}
	return strings.Join(words, " ")
}

// String writes the rule on one line.
func (w Rewrite) String() string {
	words := []string{w.Rule().String()}
	for _, name := range slices.Sorted(maps.Keys(w.Set)) {
		words = append(words, "set "+name+"="+w.Set[name])
	}
	if len(w.Remove) > 0 {
		words = append(words, "remove "+strings.Join(w.Remove, ","))
	}
	return strings.Join(words, " ")
}
