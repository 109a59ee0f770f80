package cedartext

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"cloister/internal/nearest"
)

// cedar-go says places and words only in the text of its errors. They are read
// to show a person the place; nothing is decided by them.
var (
	inputPlace  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<input>:([0-9]+):([0-9]+)`) })
	wantedToken = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:exact )?got (.*) want (.+)$`) })
	wrongEffect = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^unexpected effect: (.*)$`) })
	wrongCall   = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("^`(.+)` is (?:not )?a (function|method)")
	})
	wrongTwice = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^duplicate (annotation|key): @?(.*)$`)
	})
)

// A mistake is a syntax error that is put into a person's words.
type mistake struct {
	toks    []Token
	at      int    // the wrong word
	want    string // what the parser would have taken; empty where it is a kind of thing
	e       *Complaint
	actions []string // that there are
}

// Explain puts cedar-go's message about a file into ours, with the place of the wrong
// word and the nearest right thing; actions are the names that the schema has. cedar-go
// tells the word after the wrong one where it has read on.
func Explain(file []byte, toks []Token, err error, actions []string) *Complaint {
	m := &mistake{toks: toks, at: len(toks), e: &Complaint{}, actions: actions}
	if p := inputPlace().FindStringSubmatch(err.Error()); p != nil {
		m.e.Line, _ = strconv.Atoi(p[1])
		m.e.Column, _ = strconv.Atoi(p[2])
		m.at, _ = slices.BinarySearchFunc(toks, m.e, func(t Token, e *Complaint) int {
			if t.Line != e.Line {
				return t.Line - e.Line
			}
			return t.Column - e.Column
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
	if m.e.Line == 0 {
		m.e.Line, m.e.Column = oddByte(file)
	}
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
		m.at = slices.IndexFunc(m.toks, func(t Token) bool {
			_, err := strconv.ParseInt(t.Text, 10, 64)
			return errors.Is(err, strconv.ErrRange)
		})
		m.e.Msg, m.e.Hint = "a number that is too large", "the largest is 9223372036854775807"
	case strings.HasPrefix(said, "expected "):
		m.at--
		m.e.Msg = "expected " + map[string]string{
			"ident": "a name", "ident or reserved keyword": "the name of an annotation", "string": "a text in double quotes",
			"string literal": "a text in double quotes", "ident or string": "a name or a text in double quotes",
			"ident after dot": "a name behind the dot",
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
	return m.toks[i].Text
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
		m.e.Line, m.e.Column = m.toks[m.at].Line, m.toks[m.at].Column
	case len(m.toks) > 0 && m.at >= len(m.toks):
		last := m.toks[len(m.toks)-1]
		m.e.Line, m.e.Column = last.Line, last.Column+len([]rune(last.Text))
	}
}

// call is a function or method that there is not.
func (m *mistake) call(name string) {
	functions := []string{"ip", "decimal", "datetime", "duration"}
	methods := []string{
		"contains", "containsAll", "containsAny", "isEmpty", "hasTag", "getTag", "isIpv4", "isIpv6", "isLoopback",
		"isMulticast", "isInRange",
		"lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual", "offset", "durationSince", "toDate", "toTime",
	}
	switch isMethod := m.text(m.at-1) == "."; {
	case isMethod && slices.Contains(functions, name):
		m.e.Msg, m.e.Hint = name+" is a function, not a method", "write "+name+`("...")`
	case isMethod:
		m.e.Msg, m.e.Hint = "there is no method "+name, nearest.Hint(name, methods)
	case slices.Contains(methods, name):
		m.e.Msg, m.e.Hint = name+" is a method, not a function", "write X."+name+"(...)"
	default:
		m.e.Msg, m.e.Hint = "there is no function "+name, nearest.Hint(name, functions)
	}
}

// oddByte is the place of the first byte that no text has: cedar-go refuses it
// before it counts lines. 0 where there is none.
func oddByte(text []byte) (line, column int) {
	i := bytes.IndexFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == utf8.RuneError
	})
	if i < 0 {
		return 0, 0
	}
	before := text[:i]
	return bytes.Count(before, []byte("\n")) + 1, i - bytes.LastIndexByte(before, '\n')
}
