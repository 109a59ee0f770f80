// Package pathglob matches paths with patterns, in time that grows with both and never faster.
//
// In a pattern * is any text of one name, ? is one character of it, and ** as a name of its own is
// any number of names. Every other character means itself. A pattern names what it matches with all
// that lies below.
//
// It looks at no file system. Most readers want [Parse] and [Pattern.Match].
package pathglob

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// Bounds of a pattern.
const (
	maxText  = 1024
	maxParts = 64
)

// Pattern is one pattern of paths.
type Pattern struct {
	parts []part
	whole bool // it begins at /
}

// A part matches one name, or any number of them.
type part struct {
	text string
	kind kind
}

type kind uint8

const (
	plain kind = iota // the name itself
	wild              // with * or ?
	many              // any number of names
)

// Parse reads a pattern. One that does not begin with / is for a folder that In names.
func Parse(text string) (Pattern, error) {
	p := Pattern{whole: strings.HasPrefix(text, "/")}
	switch {
	case text == "" || len(text) > maxText:
		return p, fmt.Errorf("a pattern has between 1 and %d bytes", maxText)
	case strings.ContainsAny(text, "\x00\n") || !utf8.ValidString(text):
		return p, fmt.Errorf("%q is no text of one line", text)
	}
	for name := range strings.SplitSeq(text, "/") {
		switch {
		case name == "" || name == ".":
		case name == "..":
			return p, fmt.Errorf("%q leads upwards", text)
		case name == "**":
			p.parts = append(p.parts, part{kind: many})
		case strings.Contains(name, "**"):
			return p, fmt.Errorf("%q: ** stands for whole names, as in a/**/b", text)
		case strings.ContainsAny(name, "*?"):
			p.parts = append(p.parts, part{name, wild})
		default:
			p.parts = append(p.parts, part{text: name})
		}
	}
	switch {
	case len(p.parts) == 0 || len(p.parts) > maxParts:
		return p, fmt.Errorf("%q: a pattern has between 1 and %d names", text, maxParts)
	case p.whole && p.parts[0].kind != plain:
		return p, fmt.Errorf("%q: a pattern that begins with / begins with the name of a folder", text)
	case p.parts[len(p.parts)-1].kind == many:
		return p, fmt.Errorf("%q names a whole folder: Dir:: does", text)
	}
	return p, nil
}

// Whole reports whether a pattern begins at /.
func (p Pattern) Whole() bool { return p.whole }

// In is a pattern in a folder, an absolute path: one of a single name at any depth, as gitignore
// has it. One that begins at / stays as it is.
func (p Pattern) In(folder string) Pattern {
	if p.whole {
		return p
	}
	out := Pattern{whole: true}
	for name := range strings.SplitSeq(path.Clean(folder), "/") {
		if name != "" {
			out.parts = append(out.parts, part{text: name})
		}
	}
	if len(p.parts) == 1 {
		out.parts = append(out.parts, part{kind: many})
	}
	out.parts = append(out.parts, p.parts...)
	return out
}

// Folder is the folder in which all lies that a whole pattern names.
func (p Pattern) Folder() string {
	at := "/"
	for i, part := range p.parts {
		if part.kind != plain || i == len(p.parts)-1 {
			break
		}
		at = path.Join(at, part.text)
	}
	return at
}

// Match reports whether a whole pattern names a clean absolute path, or a folder above it.
func (p Pattern) Match(at string) bool { return p.match(at, true) }

// Names reports whether it names the path itself.
func (p Pattern) Names(at string) bool { return p.match(at, false) }

// match goes back to the last ** alone, since an earlier one could match no more than that.
func (p Pattern) match(at string, below bool) bool {
	if !p.whole || !strings.HasPrefix(at, "/") || at == "/" {
		return false
	}
	names := strings.Split(at[1:], "/")
	i, n, star, from := 0, 0, -1, 0
	for n < len(names) {
		switch {
		case i == len(p.parts) && below:
			return true
		case i < len(p.parts) && p.parts[i].kind == many:
			star, from = i, n
			i++
		case i < len(p.parts) && p.parts[i].matches(names[n]):
			i, n = i+1, n+1
		case star >= 0:
			from++
			i, n = star+1, from
		default:
			return false
		}
	}
	return i == len(p.parts)
}

// Gains reports whether something below a folder could be named by the pattern, and not any more when
// the folder lies at another path: both are clean and absolute.
func (p Pattern) Gains(from, to string) bool {
	old, now := p.reached(from), p.reached(to)
	for i := range old {
		if old[i] && !now[i] {
			return true
		}
	}
	return false
}

// reached tells how many of its parts a path may have used up, so that more names may follow.
func (p Pattern) reached(at string) []bool {
	now := p.skip(make([]bool, len(p.parts)+1), 0)
	for name := range strings.SplitSeq(strings.Trim(at, "/"), "/") {
		next := make([]bool, len(p.parts)+1)
		for i, here := range now {
			switch {
			case !here:
			case i == len(p.parts):
				next[i] = true // it names all that is below
			case p.parts[i].kind == many:
				next = p.skip(next, i)
			case p.parts[i].matches(name):
				next = p.skip(next, i+1)
			}
		}
		now = next
	}
	return now
}

// skip is at a part, and behind each ** from there on, which may stand for nothing.
func (p Pattern) skip(at []bool, i int) []bool {
	for at[i] = true; i < len(p.parts) && p.parts[i].kind == many; i++ {
		at[i+1] = true
	}
	return at
}

func (p part) matches(name string) bool {
	if p.kind == plain {
		return p.text == name
	}
	return matches(p.text, name)
}

// matches matches one name. It goes back to the last * alone, as above.
func matches(pattern, name string) bool {
	i, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, from = i, n
			i++
		case i < len(pattern) && pattern[i] == '?':
			_, size := utf8.DecodeRuneInString(name[n:])
			i, n = i+1, n+size
		case i < len(pattern) && pattern[i] == name[n]:
			i, n = i+1, n+1
		case star >= 0:
			from++
			i, n = star+1, from
		default:
			return false
		}
	}
	for i < len(pattern) && pattern[i] == '*' {
		i++
	}
	return i == len(pattern)
}
