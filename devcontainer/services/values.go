package services

import (
	"strconv"
	"strings"
	"time"

	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/metadata"
)

func (r *reader) text(v jsonc.Value) (string, error) {
	switch v.Kind {
	case jsonc.String:
		return v.Text, nil
	case jsonc.Number, jsonc.Bool:
		return brief(v), nil
	case jsonc.Null, jsonc.Array, jsonc.Object:
	}
	return "", r.bad(v, "it is %s, and must be a text", v.Kind)
}

func brief(v jsonc.Value) string {
	switch v.Kind {
	case jsonc.Number:
		return v.Number.String()
	case jsonc.Bool:
		return strconv.FormatBool(v.Bool)
	case jsonc.Null, jsonc.String, jsonc.Array, jsonc.Object:
	}
	return v.Text
}

// line is a command: a list, or a text that is split as a shell would.
func (r *reader) line(v jsonc.Value) ([]string, error) {
	if v.Kind == jsonc.Null {
		return nil, nil
	}
	if v.Kind == jsonc.Array {
		out := []string{}
		for _, i := range v.Items {
			word, err := r.text(i)
			if err != nil {
				return nil, err
			}
			out = append(out, word)
		}
		return out, nil
	}
	text, err := r.text(v)
	if err != nil {
		return nil, err
	}
	out, ok := words(text)
	if !ok {
		return nil, r.bad(v, "a quote is not closed")
	}
	return out, nil
}

// words splits a line as a shell does that expands nothing.
func words(line string) ([]string, bool) {
	out := []string{}
	var word strings.Builder
	quote, in := rune(0), false
	for rest := []rune(line); len(rest) > 0; rest = rest[1:] {
		switch c := rest[0]; {
		case quote != '\'' && c == '\\' && len(rest) > 1:
			rest = rest[1:]
			word.WriteRune(rest[0])
			in = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if in {
				out = append(out, word.String())
				word.Reset()
			}
			in = false
		default:
			word.WriteRune(c)
			in = true
		}
	}
	if in {
		out = append(out, word.String())
	}
	return out, quote == 0
}

// pairs are variables as a mapping or a list.
func (r *reader) pairs(v jsonc.Value) ([]string, error) {
	var out []string
	for _, m := range v.Members {
		text, err := r.text(m.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, m.Name+"="+text)
	}
	for _, i := range v.Items {
		if !strings.Contains(i.Text, "=") {
			return nil, r.bad(i, "%s has no value", i.Text)
		}
		out = append(out, i.Text)
	}
	return out, nil
}

func (r *reader) duration(v jsonc.Value) (time.Duration, error) {
	d, err := time.ParseDuration(brief(v))
	if err != nil || d < 0 {
		return 0, r.bad(v, "%q is no time such as 10s", brief(v))
	}
	return d, nil
}

func (r *reader) size(v jsonc.Value) (int64, error) {
	text := strings.ToLower(brief(v))
	if strings.Trim(text, "0123456789") != "" && !strings.HasSuffix(text, "b") {
		text += "b"
	}
	n := metadata.Size(text)
	if n <= 0 {
		return 0, r.bad(v, "%q is no size such as 512m", brief(v))
	}
	return int64(n), nil
}

func items(v jsonc.Value) []jsonc.Value {
	switch v.Kind {
	case jsonc.Array:
		return v.Items
	case jsonc.Null:
		return nil
	case jsonc.Bool, jsonc.Number, jsonc.String, jsonc.Object:
	}
	return []jsonc.Value{v}
}
