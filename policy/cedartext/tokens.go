// Package cedartext says where in a Cedar file something is wrong, in a person's words.
//
// Promise: a file that could exhaust its reader is refused before it is parsed; a
// complaint has the place of the wrong word and, where there is one, the nearest right
// thing.
//
// It does not parse and decides nothing: cedar-go judges what is valid.
//
// Most readers want [Read], then [Explain].
package cedartext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a policy file, so that a file cannot exhaust the guardian: the
// parser below recurses once per bracket, and a Go stack that overflows ends
// the process.
const (
	maxCedarBytes   = 1 << 20
	maxCedarNesting = 64
	maxCedarIfs     = 256
	maxCedarUnary   = 8
	// maxCedarOps bounds a chain of operators, which becomes a tree as deep as
	// it is long.
	maxCedarOps = 4096
)

// Token is a word of Cedar text with its place. cedar-go keeps the place of
// whole policies only; messages need that of the word.
type Token struct {
	Text         string
	Offset       int
	Line, Column int // from 1, column in characters
}

// lex cuts text into words, leaving out space and comments. It knows just
// enough Cedar to find places: cedar-go judges what is valid.
func lex(text string) []Token {
	var out []Token
	line, column := 1, 1
	for i := 0; i < len(text); {
		n := wordLen(text[i:])
		word := text[i : i+n]
		if c := text[i]; !isSpace(c) && !strings.HasPrefix(word, "//") {
			out = append(out, Token{Text: word, Offset: i, Line: line, Column: column})
		}
		if nl := strings.Count(word, "\n"); nl > 0 {
			line += nl
			column = 1 + utf8.RuneCountInString(word[strings.LastIndexByte(word, '\n')+1:])
		} else {
			column += utf8.RuneCountInString(word)
		}
		i += n
	}
	return out
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// wordLen is the length of the word, comment or run of space that s, not
// empty, begins with.
func wordLen(s string) int {
	switch c := s[0]; {
	case isSpace(c):
		return len(s) - len(strings.TrimLeft(s, " \t\r\n"))
	case strings.HasPrefix(s, "//"):
		if i := strings.IndexByte(s, '\n'); i >= 0 {
			return i
		}
		return len(s)
	case c == '"':
		return stringLen(s)
	}
	for _, op := range []string{"::", "==", "!=", "<=", ">=", "&&", "||"} {
		if strings.HasPrefix(s, op) {
			return 2
		}
	}
	n := 0
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			break
		}
		n += size
	}
	if n == 0 {
		_, n = utf8.DecodeRuneInString(s)
	}
	return n
}

func stringLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// A Complaint is what is wrong at a place; Line 0 is none.
type Complaint struct {
	Line, Column int
	Msg, Hint    string
}

// Read cuts a file into its words, unless it must not reach the parser.
func Read(file []byte) ([]Token, *Complaint) {
	refuse := func(line, column int, msg, hint string) ([]Token, *Complaint) {
		return nil, &Complaint{Line: line, Column: column, Msg: msg, Hint: hint}
	}
	text := string(file)
	switch {
	case len(text) > maxCedarBytes:
		return refuse(0, 0, fmt.Sprintf("policy file has %d bytes", len(text)), fmt.Sprintf("the most is %d", maxCedarBytes))
	case strings.HasPrefix(text, "\ufeff"):
		return refuse(1, 1, "policy file starts with a byte order mark", "save it as UTF-8 without one")
	case strings.HasPrefix(text, "\xff\xfe"), strings.HasPrefix(text, "\xfe\xff"), !utf8.ValidString(text):
		return refuse(1, 1, "policy file is not UTF-8", "")
	}
	toks := lex(text)
	if len(toks) == 0 {
		return refuse(1, 1, "policy file has no policy",
			"an empty file would silently mean nothing; remove it, or write a permit or a forbid")
	}
	depth, ifs, unary, ops := 0, 0, 0, 0
	for _, t := range toks {
		switch t.Text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case "if":
			ifs++
		case ";":
			ifs, ops = 0, 0
		case "&&", "||", "+", "*", ".", "-", "when", "unless":
			ops++
		}
		if t.Text == "[" {
			ops++
		}
		if t.Text == "!" || t.Text == "-" {
			unary++
		} else {
			unary = 0
		}
		if depth > maxCedarNesting || ifs > maxCedarIfs || unary > maxCedarUnary || ops > maxCedarOps {
			return refuse(t.Line, t.Column, "policy is nested too deep or too long", "split it into several policies")
		}
	}
	return toks, nil
}
