package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/token"

	"cloister/internal/source"
	"cloister/internal/yamlbound"
)

func (r *reader) err() error {
	slices.SortStableFunc(r.problems, func(a, b *source.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := make([]error, 0, len(r.problems))
	for i, p := range r.problems {
		if i == maxErrors {
			errs = append(errs, &source.Problem{Position: source.Position{File: r.file},
				Msg: fmt.Sprintf("%d more problems", len(r.problems)-i)})
			break
		}
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

func (r *reader) problem(at source.Position, hint, format string, args ...any) {
	r.problems = append(r.problems, &source.Problem{
		Position: source.Position{File: r.file, Line: at.Line, Column: at.Column},
		Msg:      fmt.Sprintf(format, args...), Hint: hint,
	})
}

func (r *reader) placeOf(tk *token.Token) source.Position {
	if tk == nil || tk.Position == nil {
		return source.Position{File: r.file}
	}
	return source.Position{File: r.file, Line: tk.Position.Line, Column: tk.Position.Column}
}

// foreignByte finds what is no text: YAML 1.2 has no NUL or other control
// characters, and the scanner would pass some of them on.
func foreignByte(text []byte) (source.Position, string) {
	for i, line, start := 0, 1, 0; i < len(text); {
		c, n := utf8.DecodeRune(text[i:])
		what := ""
		switch {
		case c == utf8.RuneError && n == 1:
			what = "not valid UTF-8"
		case c == '\n':
			line, start = line+1, i+1
		case c < ' ' && c != '\t' && c != '\r', c == 0x7f:
			what = fmt.Sprintf("control character %#02x", c)
		}
		if what != "" {
			return source.Position{Line: line, Column: utf8.RuneCount(text[start:i]) + 1}, what
		}
		i += n
	}
	return source.Position{}, ""
}

// bounded refuses what makes a file slow or hard to read. Anchors, aliases and
// tags go because every rule must have its own line for explanations to name.
func (r *reader) bounded(tokens token.Tokens) bool {
	at, err := yamlbound.Check(tokens, maxTokens, maxDepth, token.AnchorType, token.AliasType, token.TagType,
		token.MergeKeyType, token.DirectiveType)
	place := source.Position{}
	if at != nil {
		place = r.placeOf(at)
	}
	switch {
	case errors.Is(err, yamlbound.ErrRefused):
		r.problem(place, "write the value out", "anchors, aliases, tags and directives are not used here")
	case err != nil:
		r.problem(place, "", "%v", err)
	}
	return err == nil
}

func (r *reader) syntax(err error) {
	var y yaml.Error
	if !errors.As(err, &y) {
		r.problem(source.Position{}, "", "not YAML: %v", firstLine(err.Error()))
		return
	}
	hint := ""
	if tk := y.GetToken(); tk != nil && strings.Contains(tk.Origin, "\t") {
		hint = "indent with spaces; YAML allows no tab there"
	}
	r.problem(r.placeOf(y.GetToken()), hint, "not YAML: %s", firstLine(y.GetMessage()))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
