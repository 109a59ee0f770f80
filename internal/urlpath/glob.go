package urlpath

import (
	"errors"
	"strings"
)

// A Glob is a pattern of paths: * stands for any characters of one segment, **
// alone between slashes for any number of segments, none included. So /a/**
// is /a and everything below it. A slash at the end of either side means
// nothing. A star behind a backslash is itself: no path that is compared has a
// backslash.
type Glob struct {
	text       string
	head, tail []string // the segments before and after **
	deep       bool     // there is a **
}

// ParseGlob reads a pattern. It is held to the spelling that Parse makes, since
// another would never match.
func ParseGlob(text string) (Glob, error) {
	if text == "" || text[0] != '/' {
		return Glob{}, errors.New("a path begins with a slash")
	}
	if strings.ContainsAny(text, "?#") {
		return Glob{}, errors.New("a path ends before ? and #; write query: for what follows")
	}
	if strings.Contains(text, "%") {
		return Glob{}, errors.New("write the path decoded, without percent signs")
	}
	if strings.Contains(text, "//") {
		return Glob{}, errors.New("empty segments are dropped before paths are compared: write one slash")
	}
	p := Glob{text: text}
	for _, s := range split(text) {
		switch {
		case s == "." || s == "..":
			return Glob{}, errors.New("dot segments are resolved before paths are compared: leave them out")
		case s == "**" && p.deep:
			return Glob{}, errors.New("only one ** in a path")
		case s == "**":
			p.deep = true
		case strings.Contains(strings.ReplaceAll(s, `\*`, ""), "**"):
			return Glob{}, errors.New("** stands alone between slashes")
		case strings.ContainsAny(strings.ReplaceAll(s, `\*`, ""), "\\;") ||
			strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return Glob{},
				errors.New(`a backslash (but before a star), semicolon or control character is in no path that is compared`)
		case p.deep:
			p.tail = append(p.tail, s)
		default:
			p.head = append(p.head, s)
		}
	}
	return p, nil
}

// String is the pattern as it was written.
func (g Glob) String() string { return g.text }

// Parts are the patterns of the segments before and after **; deep reports whether
// there is one.
func (g Glob) Parts() (head, tail []string, deep bool) { return g.head, g.tail, g.deep }

// Match reports whether a path is one of the pattern's.
func (g Glob) Match(p Path) bool { return g.match(p, segment) }

// MatchFold tells that of a path in any case: some servers do not tell upper case from
// lower.
func (g Glob) MatchFold(p Path) bool {
	return g.match(p, func(pattern, text string) bool { return segment(strings.ToLower(pattern), strings.ToLower(text)) })
}

// Escape is the pattern that matches a path's text alone.
func Escape(path string) string { return strings.ReplaceAll(path, "*", `\*`) }

func (g Glob) match(p Path, wild func(pattern, text string) bool) bool {
	n := len(g.head) + len(g.tail)
	if len(p.segments) < n || !g.deep && len(p.segments) > n {
		return false
	}
	for i, s := range g.head {
		if !wild(s, p.segments[i]) {
			return false
		}
	}
	after := p.segments[len(p.segments)-len(g.tail):]
	for i, s := range g.tail {
		if !wild(s, after[i]) {
			return false
		}
	}
	return true
}

// segment is Wild with stars that are themselves behind a backslash: on both sides they
// become a byte that no path has.
func segment(pattern, text string) bool {
	if strings.Contains(pattern, `\*`) {
		pattern, text = strings.ReplaceAll(pattern, `\*`, "\x00"), strings.ReplaceAll(text, "*", "\x00")
	}
	return Wild(pattern, text)
}

// Wild matches a text against a pattern in which * stands for any characters.
// It takes time linear in the text for each star.
func Wild(pattern, text string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	if !ok {
		return false
	}
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, part)
		}
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text, rest = text[i+len(part):], after
	}
}
