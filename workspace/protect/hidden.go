package protect

import (
	"path/filepath"

	"cloister/sandbox"
)

// Hidden reports what of a project looks empty inside, by its path from the root: what the
// view of a session covers, with where hidden links lead and what the projects around hide.
func Hidden(root string, hide []string, outer []Outer) (func(rel string, dir bool) bool, error) {
	patterns, err := ParsePatterns(hide)
	if err != nil {
		return nil, err
	}
	var covered List
	if err := New(&covered, root, "", true).Sockets(hide, nil, outer); err != nil {
		return nil, err
	}
	hidden := map[sandbox.GuestPath]bool{}
	for _, p := range covered.Protect {
		if p.Empty {
			hidden[p.Target] = true
		}
	}
	return func(rel string, dir bool) bool {
		return patterns.Match(rel, dir) >= 0 || hidden[sandbox.GuestPath(filepath.Join(root, rel))]
	}, nil
}
