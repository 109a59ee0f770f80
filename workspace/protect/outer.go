package protect

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Outer is what a project says of the files of another one inside it.
type Outer struct {
	Root          string // of the project around
	Under         string // where the inner project lies in it, relative to Root
	Hide, Protect []string
}

// Whole says that a project around hides or protects all of this one.
type Whole struct {
	Root, Outer   string
	List, Pattern string
}

func (e *Whole) Error() string {
	return fmt.Sprintf("use %s as the project: the project %s around it has it in filesystem.%s (%q)", e.Root, e.Outer,
		e.List, e.Pattern)
}

// Hints are the words of what to do.
func (e *Whole) Hints() []string {
	return []string{"start in the project around it: -C " + e.Outer,
		"or take the pattern out of its rules: cloister project edit " + e.Outer}
}

// rules reads the patterns of a project and of those around it.
func (t *Tree) rules(hide, protect []string, outer []Outer) (*search, error) {
	l := &search{root: t.root}
	for _, list := range []struct {
		key  string
		to   *Patterns
		own  []string
		from func(Outer) []string
	}{
		{"hide", &l.hide, hide, func(o Outer) []string { return o.Hide }},
		{"protect", &l.protect, protect, func(o Outer) []string { return o.Protect }},
	} {
		var err error
		if *list.to, err = ParsePatterns(list.own); err != nil {
			return nil, err
		}
		for i, o := range outer {
			more, err := ParsePatterns(list.from(o))
			if err != nil {
				return nil, fmt.Errorf("rules of the project %s: %w", o.Root, err)
			}
			for at := o.Under; at != "." && at != ""; at = filepath.Dir(at) {
				if by := more.Match(at, true); by >= 0 {
					return nil, &Whole{Root: t.root, Outer: o.Root, List: list.key, Pattern: more[by].Text}
				}
			}
			for j := range more {
				more[j].under, more[j].list = strings.Trim(o.Under, "/"), i+1
			}
			*list.to = append(*list.to, more...)
		}
	}
	return l, nil
}
