package cedartext

import (
	"fmt"

	"cloister/internal/source"
)

// A Name is what a statement is called.
type Name struct {
	Name string
	Word string // with which a person accepts that nothing keeps it
	Own  bool   // given by an @id; otherwise it is the statement's place
	At   source.Position
}

// Twice refuses statements whose @id is the name of another one: what is answered, counted or accepted of one would be
// taken for the other's.
func Twice(list []Name) []error {
	names, words := map[string]source.Position{}, map[string]source.Position{}
	for _, n := range list {
		if !n.Own {
			names[n.Name], words[n.Word] = n.At, n.At
		}
	}
	var errs []error
	for _, n := range list {
		if !n.Own {
			continue
		}
		first, twice := names[n.Name]
		if !twice {
			first, twice = words[n.Word]
		}
		if !twice {
			names[n.Name], words[n.Word] = n.At, n.At
			continue
		}
		errs = append(errs, &source.Problem{Position: n.At,
			Msg:  fmt.Sprintf("the name %q is that of another statement already, at %s", n.Name, first),
			Hint: "give each statement an @id of its own: an answer or a count of one would be taken for the other's"})
	}
	return errs
}
