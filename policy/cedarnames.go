package policy

import (
	"fmt"

	"cloister/internal/source"
)

// once refuses a name that two statements have: what is answered, counted or accepted of one would be taken for the
// other's. A statement without an @id has its place for a name, which an @id cannot take either.
func once(list []*loader) []error {
	names, words := map[string]source.Position{}, map[string]source.Position{}
	note := func(l *loader) {
		names[l.name], words[l.residue()] = l.origin, l.origin
	}
	for _, l := range list {
		if !l.named {
			note(l)
		}
	}
	var errs []error
	for _, l := range list {
		if !l.named {
			continue
		}
		first, twice := names[l.name]
		if !twice {
			first, twice = words[l.residue()]
		}
		if !twice {
			note(l)
			continue
		}
		l.errs = nil
		l.bad("id", fmt.Sprintf("the name %q is that of another statement already, at %s", l.name, first),
			"give each statement an @id of its own: an answer or a count of one would be taken for the other's")
		errs = append(errs, l.errs...)
	}
	return errs
}

// residue is the word with which a person accepts that the statement is not kept.
func (l *loader) residue() string {
	st := Statement{Rule: l.name, Origin: l.origin}
	return st.Residue()
}
