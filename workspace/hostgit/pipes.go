package hostgit

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"cloister/host/resolve"
)

// A Pipe stands where git reads a file: git would wait there until someone
// writes, for ever.
type Pipe struct{ Path string }

func (e *Pipe) Error() string { return fmt.Sprintf("git would wait at %q, a pipe", e.Path) }

// Hints are the words of what to do.
func (e *Pipe) Hints() []string { return []string{"an agent may have made it: remove it"} }

// TooMany says that a folder has more names than are looked at for a [Pipe]: behind
// them there may be one.
type TooMany struct {
	Path string
	Most int
}

func (e *TooMany) Error() string {
	return fmt.Sprintf("%q has more than %d names: among them may be a pipe, at which git would wait", e.Path, e.Most)
}

// Hints are the words of what to do.
func (e *TooMany) Hints() []string {
	return []string{"an agent may have made them: look what they are"}
}

// MaxWalk bounds a walk over a whole project.
const MaxWalk = 500_000

// NoPipe looks for pipes in a working tree, before git does.
func NoPipe(tree string) error { return noPipe(tree, true, MaxWalk) }

// noPipe looks for pipes where git may read: in a git folder but for its objects, or
// in a working tree, where any folder may be a submodule's. It looks at so many names.
func noPipe(root string, tree bool, most int) error {
	seen := 0
	return resolve.Walk(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone, or not to be read: git will say so
		}
		if seen++; seen > most {
			return &TooMany{root, most}
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case e.IsDir() && !tree && filepath.Dir(rel) == "objects" && len(filepath.Base(rel)) == 2:
			return fs.SkipDir // single objects, and many
		case e.Type()&fs.ModeNamedPipe == 0:
			return nil
		}
		return &Pipe{path}
	})
}
