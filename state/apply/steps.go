package apply

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"cloister/state/layers"
)

// Steps orders changes so that each can be made when its turn comes: removals from the
// deepest up, then folders from the top down, then files, then modes of folders.
func Steps(stack *layers.Stack, changes []layers.Change) []Step {
	var gone, folders, files, modes []Step
	for _, c := range changes {
		content := func() (io.ReadCloser, error) { return stack.OpenNew(c) }
		switch {
		case c.Op == layers.Deleted:
			gone = append(gone, Step{Path: c.Path, Old: c.Old})
		case c.Op == layers.Renamed:
			gone = append(gone, Step{Path: c.From, Old: c.Old})
			files = append(files, Step{Path: c.Path, New: c.New, Open: content})
		case c.Op == layers.Mode && c.New.Kind == layers.Dir:
			modes = append(modes, Step{Path: c.Path, Old: c.Old, New: c.New})
		case c.Op == layers.Mode:
			files = append(files, Step{Path: c.Path, Old: c.Old, New: c.New, ModeOnly: true})
		case c.New.Kind == layers.Dir:
			folders = append(folders, Step{Path: c.Path, New: c.New})
		default:
			step := Step{Path: c.Path, Old: c.Old, New: c.New}
			if c.New.Kind == layers.File {
				step.Open = content
			}
			files = append(files, step)
		}
	}
	slices.SortStableFunc(gone, func(a, b Step) int { return cmp.Compare(depth(b), depth(a)) })
	slices.SortStableFunc(folders, func(a, b Step) int { return cmp.Compare(depth(a), depth(b)) })
	slices.SortStableFunc(modes, func(a, b Step) int { return cmp.Compare(depth(b), depth(a)) })
	return slices.Concat(gone, folders, files, modes)
}

func depth(s Step) int { return strings.Count(s.Path, "/") }
