package cedartext

import (
	"fmt"
	"slices"
	"strings"

	"cloister/internal/nearest"
)

// hint is the nearest right thing.
func (m *mistake) hint() {
	got, before := m.text(m.at), m.text(m.at-1)
	for _, f := range []func(got, before string) string{m.wordHint, m.entityHint, m.placeHint} {
		if m.e.Hint = f(got, before); m.e.Hint != "" {
			return
		}
	}
}

// wordHint is by the wrong word alone: what other languages write.
func (m *mistake) wordHint(got, before string) string {
	switch got {
	case "=":
		return "did you mean ==?"
	case "and", "AND", "&":
		return "did you mean &&?"
	case "or", "OR", "|":
		return "did you mean ||?"
	case "not", "NOT":
		return "did you mean !?"
	case "True", "TRUE", "False", "FALSE":
		return "did you mean " + strings.ToLower(got) + "?"
	case "allow", "grant":
		if m.want == "permit" {
			return `did you mean "permit"?`
		}
	case "deny", "block":
		if m.want == "permit" {
			return `did you mean "forbid"?`
		}
	case "#":
		return "a comment begins with //"
	case "'":
		return "texts stand in double quotes"
	case "?":
		return "templates are not known here: name the entity"
	case "{", "[":
		if m.at == 0 {
			return "this looks like JSON; policies are written in Cedar's own text"
		}
	}
	if before == "." && got != "" && strings.Trim(got, "0123456789") == "" {
		return "numbers are whole"
	}
	return ""
}

// entityHint is for what should have been TYPE::"NAME".
func (m *mistake) entityHint(got, before string) string {
	compared := m.text(m.at-1) == "==" || m.text(m.at-1) == "in" || m.text(m.at-1) == "["
	switch {
	case m.want == "::" && got == ":":
		return "did you mean ::?"
	case m.want == "::" && slices.Contains(m.actions, before):
		return fmt.Sprintf("write Action::%q", before)
	case m.want == "::":
		return `an entity is written TYPE::"NAME", such as Host::"api.example.com"`
	case compared && strings.HasPrefix(got, `"`):
		kind := "Host"
		for i := m.at; i >= 0 && m.text(i) != "("; i-- {
			if m.text(i) == "action" {
				kind = "Action"
			}
			if m.text(i) == "principal" {
				kind = "Agent"
			}
			if m.text(i) == "," {
				break
			}
		}
		return "write " + kind + "::" + clipped(got)
	}
	return ""
}

// placeHint is by where it stands.
func (m *mistake) placeHint(got, before string) string {
	words := []string{"permit", "forbid", "principal", "action", "resource", "context", "when", "unless", "like", "has",
		"is", "in"}
	switch {
	case m.want == "{" && (before == "when" || before == "unless"):
		return "a condition stands in braces: " + before + " { ... }"
	case m.want == ";" && m.at >= len(m.toks):
		return "a policy ends with ;"
	case m.want == ";" && (got == "if" || got == "where" || got == "{"):
		return "a condition begins with when or unless"
	case before == "like":
		return `such as like "*.example.com"`
	case before == "{" && got == "}":
		return "the condition is empty: leave it out, or say what must hold"
	case len(got) > 2 && !slices.Contains(words, got):
		if hint := nearest.Hint(got, words); strings.HasPrefix(hint, "did") {
			return hint
		}
	}
	if m.want == "}" && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, got) {
		return "comparisons are joined with && or ||"
	}
	if m.want == "}" && (got == ";" || m.at >= len(m.toks)) {
		return "a brace that was opened is not closed"
	}
	return ""
}
