// Package back brings what a cloister changed in a copy of a project to the project, as cloister
// apply does for a person who says no further word.
//
// The promise: what programs of the host run or obey is left out, as apply holds it. It is for the
// suite of drivers whose boxes are on another host. The call is [Apply].
package back

import (
	"context"
	"errors"
	"path"

	"cloister/state/apply"
	"cloister/state/held"
	"cloister/state/layers"
)

// Apply brings what an upper layer changed of a project into it. journals is a folder for apply's own
// files, and runs reports what programs of the host run or obey.
func Apply(ctx context.Context, project, upper, journals string, runs func(string) bool) (err error) {
	stack, err := layers.Open(project, []string{upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	changes, err := stack.Changes(ctx)
	if err == nil {
		changes, err = apply.Unmasked(stack, changes)
	}
	if err != nil {
		return err
	}
	kept, err := held.Find(project, changes, runs)
	if err != nil {
		return err
	}
	changes = without(changes, kept)
	steps, err := apply.Steps(stack, changes)
	if err != nil || len(steps) == 0 {
		return err
	}
	_, err = apply.Start(journals, project, "suite", steps)
	return err
}

// without leaves out what is held, with the folders that would be made or removed for it alone.
func without(changes []layers.Change, kept []held.Change) (out []layers.Change) {
	is := map[string]bool{}
	for _, k := range kept {
		is[k.Path] = true
	}
	some, rest := map[string]bool{}, map[string]bool{} // folders above what is held, and above the rest
	for _, c := range changes {
		if c.New.Kind == layers.Dir || c.Old.Kind == layers.Dir {
			continue
		}
		for _, name := range []string{c.Path, c.From} {
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				some[dir], rest[dir] = some[dir] || is[c.Path], rest[dir] || !is[c.Path]
			}
		}
	}
	for _, c := range changes {
		switch {
		case is[c.Path]:
		case c.Op == layers.Deleted && some[c.Path]:
		case c.New.Kind == layers.Dir && some[c.Path] && !rest[c.Path]:
		default:
			out = append(out, c)
		}
	}
	return out
}
