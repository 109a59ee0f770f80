package protect

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Pattern is a line of gitignore's: https://git-scm.com/docs/gitignore.
type Pattern struct {
	Text     string
	under    string // where the project lies in the one whose rule it is; empty in its own
	list     int    // which of the lists it is of
	parts    []string
	not      bool // it takes back what an earlier one matched
	dir      bool // it matches folders only
	anywhere bool // it matches at any level
}

// ParsePattern reads a pattern of paths inside a project. One that begins with ./ has
// to match from the top.
func ParsePattern(text string) (Pattern, error) {
	p := Pattern{Text: text}
	rest := text
	if strings.HasPrefix(rest, "!") {
		p.not, rest = true, rest[1:]
	}
	anchored := strings.HasPrefix(rest, "./")
	rest = strings.TrimPrefix(rest, "./")
	if strings.HasSuffix(rest, "/") {
		p.dir, rest = true, strings.TrimRight(rest, "/")
	}
	p.anywhere = !anchored && !strings.Contains(rest, "/")
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			return p, fmt.Errorf("pattern %q leads out of the project", text)
		}
		part = strings.ReplaceAll(part, "[!", "[^")
		if _, err := path.Match(part, ""); err != nil {
			return p, fmt.Errorf("pattern %q: %w", text, err)
		}
		p.parts = append(p.parts, part)
	}
	if len(p.parts) == 0 {
		return p, fmt.Errorf("pattern %q is the whole project", text)
	}
	return p, nil
}

// literal is the one path that a pattern without wildcards has at the top; empty for
// others.
func (p Pattern) literal() string {
	if p.not || slices.ContainsFunc(p.parts, func(s string) bool { return strings.ContainsAny(s, `*?[\`) }) {
		return ""
	}
	at := filepath.Join(p.parts...)
	if p.under == "" {
		return at
	}
	if rel, below := strings.CutPrefix(at, p.under+"/"); below && !p.anywhere {
		return rel
	}
	return ""
}

// Match reports whether a path relative to the top is one that the pattern names.
func (p Pattern) Match(rel string, dir bool) bool {
	if p.dir && !dir {
		return false
	}
	if p.under != "" {
		rel = p.under + "/" + rel
	}
	names := strings.Split(rel, "/")
	if p.anywhere {
		return matchPart(p.parts[0], names[len(names)-1])
	}
	return matchParts(p.parts, names)
}

func matchParts(parts, names []string) bool {
	for len(parts) > 0 {
		if parts[0] != "**" {
			if len(names) == 0 || !matchPart(parts[0], names[0]) {
				return false
			}
			parts, names = parts[1:], names[1:]
			continue
		}
		for len(parts) > 1 && parts[1] == "**" {
			parts = parts[1:] // each one more would double the ways
		}
		if len(parts) == 1 {
			return len(names) > 0 // everything inside
		}
		for i := range names {
			if matchParts(parts[1:], names[i:]) {
				return true
			}
		}
		return false
	}
	return len(names) == 0
}

func matchPart(part, name string) bool {
	ok, err := path.Match(part, name)
	return err == nil && ok
}

// Patterns are those of one list: the last that matches decides.
type Patterns []Pattern

// ParsePatterns reads a list.
func ParsePatterns(list []string) (Patterns, error) {
	var out Patterns
	for _, text := range list {
		p, err := ParsePattern(text)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Match gives the place of the pattern that names a path; -1 for none. What one list
// takes back, another may still name.
func (l Patterns) Match(rel string, dir bool) int {
	back := -1
	for i, v := range slices.Backward(l) {
		if v.list == back || !v.Match(rel, dir) {
			continue
		}
		if !v.not {
			return i
		}
		back = v.list
	}
	return -1
}
