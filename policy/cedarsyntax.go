package policy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// cedar-go says places and words only in the text of its errors. They are read
// to show a person the place; nothing is decided by them.
var (
	inputPlace  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<input>:([0-9]+):([0-9]+)`) })
	wantedToken = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:exact )?got (.*) want (.+)$`) })
	wrongEffect = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^unexpected effect: (.*)$`) })
	wrongCall   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^`(.+)` is (?:not )?a (function|method)") })
	wrongText   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("failed to parse as (?:an? )?(.+): `(\".*\")`$") })
	wrongType   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^unexpected type: expected (.+) but saw (.+)$`) })
	absent      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^attribute `(.+)` in context for (.+) not found$") })
	unguarded   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("access to optional attribute `(.+)` in context") })
	wrongTwice  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^duplicate (annotation|key): @?(.*)$`) })
)

// A mistake is a syntax error that is put into a person's words.
type mistake struct {
	toks []token
	at   int    // the wrong word
	want string // what the parser would have taken; empty where it is a kind of thing
	e    *SyntaxError
}

// parseError puts cedar-go's message into ours, with the place of the wrong word and
// the nearest right thing. cedar-go tells the word after the wrong one where it has
// read on.
func parseError(file string, toks []token, err error) *SyntaxError {
	m := &mistake{toks: toks, at: len(toks), e: &SyntaxError{File: file}}
	if p := inputPlace().FindStringSubmatch(err.Error()); p != nil {
		m.e.Line, _ = strconv.Atoi(p[1])
		m.e.Column, _ = strconv.Atoi(p[2])
		m.at, _ = slices.BinarySearchFunc(toks, m.e, func(t token, e *SyntaxError) int {
			if t.line != e.Line {
				return t.line - e.Line
			}
			return t.column - e.Column
		})
	}
	inner := err
	for next := errors.Unwrap(inner); next != nil; next = errors.Unwrap(inner) {
		inner = next
	}
	m.read(inner.Error())
	if m.e.Hint == "" {
		m.hint()
	}
	m.place()
	return m.e
}

// read makes our words of cedar-go's.
func (m *mistake) read(said string) {
	if w := wantedToken().FindStringSubmatch(said); w != nil {
		m.want = w[2]
		m.back(w[1], 3)
		m.e.Msg = fmt.Sprintf("expected %q, found %s", m.want, m.found())
		return
	}
	if w := wrongEffect().FindStringSubmatch(said); w != nil {
		m.want = "permit"
		m.back(w[1], 3)
		m.e.Msg = "expected permit or forbid, found " + m.found()
		return
	}
	if w := wrongCall().FindStringSubmatch(said); w != nil {
		m.back(w[1], len(m.toks))
		m.call(w[1])
		return
	}
	if w := wrongTwice().FindStringSubmatch(said); w != nil {
		m.back(w[2], len(m.toks))
		m.e.Msg = fmt.Sprintf("the %s %s stands twice", w[1], w[2])
		return
	}
	switch {
	case strings.Contains(said, "literal not terminated"):
		m.e.Msg, m.e.Hint = "the text that begins here has no end", `close it with "`
	case strings.Contains(said, "invalid char escape"):
		m.back("", 0)
		m.e.Msg, m.e.Hint = "a text with an escape that there is not", `a backslash is written \\`
	case strings.Contains(said, "comment not terminated"):
		m.e.Msg = "the comment that begins here has no end"
	case strings.Contains(said, "out of range"):
		m.at = slices.IndexFunc(m.toks, func(t token) bool {
			_, err := strconv.ParseInt(t.text, 10, 64)
			return errors.Is(err, strconv.ErrRange)
		})
		m.e.Msg, m.e.Hint = "a number that is too large", "the largest is 9223372036854775807"
	case strings.HasPrefix(said, "expected "):
		m.at--
		m.e.Msg = "expected " + map[string]string{
			"ident": "a name", "ident or reserved keyword": "the name of an annotation", "string": "a text in double quotes",
			"string literal": "a text in double quotes", "ident or string": "a name or a text in double quotes", "ident after dot": "a name behind the dot",
		}[strings.TrimPrefix(said, "expected ")] + ", found " + m.found()
	case said == "unexpected token", said == "invalid primary":
		m.at--
		m.e.Msg = "expected a value, found " + m.found()
	default:
		m.e.Msg = "syntax: " + inputPlace().ReplaceAllString(strings.TrimPrefix(said, "parser error: "), "here")
	}
}

// back looks for a word at the place or up to so many words before it.
func (m *mistake) back(word string, most int) {
	for i := m.at; i >= 0 && i > m.at-most; i-- {
		if m.text(i) == word {
			m.at = i
			return
		}
	}
}

// text is one word of the file, empty beyond its ends.
func (m *mistake) text(i int) string {
	if i < 0 || i >= len(m.toks) {
		return ""
	}
	return m.toks[i].text
}

func (m *mistake) found() string {
	if m.at >= len(m.toks) {
		return "the end of the file"
	}
	return strconv.Quote(clipped(m.text(m.at)))
}

// clipped is a word that fits a line.
func clipped(s string) string {
	const most = 60
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// place puts the error at the wrong word, or behind the last one.
func (m *mistake) place() {
	switch {
	case m.at >= 0 && m.at < len(m.toks):
		m.e.Line, m.e.Column = m.toks[m.at].line, m.toks[m.at].column
	case len(m.toks) > 0 && m.at >= len(m.toks):
		last := m.toks[len(m.toks)-1]
		m.e.Line, m.e.Column = last.line, last.column+len([]rune(last.text))
	}
}

// call is a function or method that there is not.
func (m *mistake) call(name string) {
	functions := []string{"ip", "decimal", "datetime", "duration"}
	methods := []string{
		"contains", "containsAll", "containsAny", "isEmpty", "hasTag", "getTag", "isIpv4", "isIpv6", "isLoopback", "isMulticast", "isInRange",
		"lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual", "offset", "durationSince", "toDate", "toTime",
	}
	switch isMethod := m.text(m.at-1) == "."; {
	case isMethod && slices.Contains(functions, name):
		m.e.Msg, m.e.Hint = name+" is a function, not a method", "write "+name+`("...")`
	case isMethod:
		m.e.Msg, m.e.Hint = "there is no method "+name, didYouMean(name, methods)
	case slices.Contains(methods, name):
		m.e.Msg, m.e.Hint = name+" is a method, not a function", "write X."+name+"(...)"
	default:
		m.e.Msg, m.e.Hint = "there is no function "+name, didYouMean(name, functions)
	}
}

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
	case m.want == "::" && actionResources()[before] != nil:
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
	words := []string{"permit", "forbid", "principal", "action", "resource", "context", "when", "unless", "like", "has", "is", "in"}
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
		if hint := didYouMean(got, words); strings.HasPrefix(hint, "did") {
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

// mistyped are the words of the schema's validator, which tells each once for every
// action and knows no place.
func (l *loader) mistyped(err error) {
	lacking := map[string][]string{} // attributes of context, with the actions that have them not
	var told []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if w := absent().FindStringSubmatch(line); w != nil {
			lacking[w[1]] = append(lacking[w[1]], w[2])
		} else if !slices.Contains(told, line) {
			told = append(told, line)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		slices.Sort(lacking[name])
		l.badCondition(name, fmt.Sprintf("context.%s is not there for %s", name, strings.Join(slices.Compact(lacking[name]), ", ")),
			"name in the scope the actions that it is meant for")
	}
	for _, line := range told {
		if w := wrongText().FindStringSubmatch(line); w != nil {
			l.bad(w[2], w[2]+" is no "+w[1], map[string]string{"IP address": `such as ip("203.0.113.0/24")`}[w[1]])
		} else if w := wrongType().FindStringSubmatch(line); w != nil {
			l.bad("", fmt.Sprintf("a %s stands where a %s belongs", typeWord(w[2]), typeWord(w[1])), typeHint(w[1], w[2]))
		} else if w := unguarded().FindStringSubmatch(line); w != nil {
			l.bad("", "optional attribute context."+w[1]+" is read where it may be absent", "write context has "+w[1]+" && ...")
		} else {
			l.bad("", line, "")
		}
	}
}

// typeWord is a type without the validator's own marks.
func typeWord(s string) string {
	s, _, _ = strings.Cut(s, "<__cedar")
	return strings.ReplaceAll(s, "__cedar::internal::", "")
}

func typeHint(want, got string) string {
	switch {
	case strings.HasPrefix(want, "Set") && got == "String":
		return `part of a text is matched by like: context.hostname like "*.example.com"`
	case want == "Long" && got == "String":
		return "numbers stand without quotes; texts are not added"
	}
	return ""
}
