package apply

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"cloister/state/acl"
	"cloister/state/layers"
)

// Steps orders changes so that each can be made when its turn comes: removals from the
// deepest up, then folders from the top down, then files, then modes of folders.
func Steps(stack *layers.Stack, changes []layers.Change) ([]Step, error) {
	var gone, folders, files, modes []Step
	for _, c := range changes {
		keep, err := narrow(stack, &c)
		if err != nil {
			return nil, err
		}
		content := func() (io.ReadCloser, error) { return stack.OpenNew(c) }
		switch {
		case c.Op == layers.Deleted:
			gone = append(gone, Step{Path: c.Path, Old: c.Old})
		case c.Op == layers.Renamed:
			gone = append(gone, Step{Path: c.From, Old: c.Old})
			files = append(files, Step{Path: c.Path, New: c.New, Open: content, Keep: keep})
		case c.Op == layers.Mode && c.New.Kind == layers.Dir:
			modes = append(modes, Step{Path: c.Path, Old: c.Old, New: c.New})
		case c.Op == layers.Mode:
			files = append(files, Step{Path: c.Path, Old: c.Old, New: c.New, ModeOnly: true})
		case c.New.Kind == layers.Dir:
			folders = append(folders, Step{Path: c.Path, New: c.New})
		default:
			step := Step{Path: c.Path, Old: c.Old, New: c.New, Keep: keep}
			if c.New.Kind == layers.File {
				step.Open = content
			}
			files = append(files, step)
		}
	}
	slices.SortStableFunc(gone, func(a, b Step) int { return cmp.Compare(depth(b), depth(a)) })
	slices.SortStableFunc(folders, func(a, b Step) int { return cmp.Compare(depth(a), depth(b)) })
	slices.SortStableFunc(modes, func(a, b Step) int { return cmp.Compare(depth(b), depth(a)) })
	return slices.Concat(gone, folders, files, modes), nil
}

// Unmasked leaves out changes of a mode that come of access lists alone, which are not brought
// over, and narrows those that do in part. The list that it is given is used for that.
func Unmasked(stack *layers.Stack, changes []layers.Change) ([]layers.Change, error) {
	out := changes[:0]
	for _, c := range changes {
		if c.Op == layers.Mode {
			if _, err := narrow(stack, &c); err != nil {
				return nil, err
			}
			if c.New.Mode == c.Old.Mode {
				continue
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// narrow keeps what access lists say from becoming more. A list that a command set is not
// brought over; the mode beside it would give the group what the list gives others. That of
// the project's own file is kept, and the group bits, which are its mask, are not widened.
func narrow(stack *layers.Stack, c *layers.Change) (keep *acl.Lists, err error) {
	if c.Op == layers.Deleted || c.New.Kind != layers.File && c.New.Kind != layers.Dir {
		return nil, nil
	}
	if c.Old.Kind == c.New.Kind {
		mine, err := listsOf(stack, *c, true)
		if err != nil {
			return nil, err
		}
		if _, ok := mine.Group(); ok {
			c.New.Mode &= c.Old.Mode | ^uint32(groupBits)
			return mine, nil
		}
	}
	if c.New.Mode&groupBits == 0 {
		return nil, nil
	}
	its, err := listsOf(stack, *c, false)
	if err != nil {
		return nil, err
	}
	if may, ok := its.Group(); ok {
		c.New.Mode &= may | ^uint32(groupBits)
	}
	return nil, nil
}

const groupBits = 0o070

func listsOf(stack *layers.Stack, c layers.Change, old bool) (*acl.Lists, error) {
	dir, name, err := stack.Above(c, old)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	return acl.At(dir.Fd(), name)
}

func depth(s Step) int { return strings.Count(s.Path, "/") }
