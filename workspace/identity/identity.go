// Package identity holds a project to what it was at its first use.
//
// The promise: a start that would have another root, another git folder or another
// inode than the one a person used before is distinguished, by what was and what is. A
// payload can break a repository, or make one, so that the folder of a start belongs to
// something else than before.
//
// It neither asks nor writes: the pins are those of host/taint, and whatever starts a session
// enters the new one.
//
// Most readers want [Check].
package identity

import (
	"fmt"
	"os"
	"path/filepath"

	"cloister/host/taint"
	"cloister/internal/realpath"
	"cloister/workspace"
)

// Otherwise says that a start resolves to another project than one before.
type Otherwise struct {
	Root string      // of this start
	Was  taint.Place // of the start before
	Now  string      // where the folder of Was is, where it moved and is not Root
	Gone bool        // Was is no project of its own any more
	Why  string
}

func (e *Otherwise) Error() string {
	return fmt.Sprintf("use %s as the project: %s", e.Root, e.Why)
}

// Question is what a person is asked.
func (e *Otherwise) Question() string {
	return fmt.Sprintf("%s. Use %s as the project from now on?", e.Why, e.Root)
}

// Check compares a project with the pins around the folder of a start.
func Check(places *taint.Register, p workspace.Project) error {
	pins := places.Pins(string(p.Dir))
	if len(pins) == 0 {
		return moved(places, p)
	}
	root := string(p.Root)
	fi, err := taint.Look(root)
	if err != nil {
		return fmt.Errorf("use %s as the project: %w", root, err)
	}
	was := pins[0]
	other := func(gone bool, format string, args ...any) error {
		return &Otherwise{Root: root, Was: was, Gone: gone, Why: fmt.Sprintf(format, args...)}
	}
	switch {
	case was.Path == root:
		return same(was, fi, p)
	case realpath.Inside(was.Path, root):
		if was.Pin.Git != "" {
			return other(true, "%s was a project of its own; its repository %s is none any more (%s)", was.Path, was.Pin.Git,
				missing(was.Pin.Git))
		}
		return other(true, "%s was a project of its own; now the repository %s is around it", was.Path, root)
	case p.Git != nil && p.Git.Dir != p.Git.Common && known(places, string(p.Main)):
		return nil // a worktree of a known repository, which points to it
	case p.Git != nil:
		return other(false, "it is a repository inside the project %s, and was not used as a project before", was.Path)
	case was.Pin.Git != "":
		return other(false, "it lies inside the project %s, whose repository %s is none any more (%s)", was.Path, was.Pin.Git,
			missing(was.Pin.Git))
	}
	return nil // a folder inside a folder, as the person chose; the rules of both hold
}

// known reports whether a repository's main working tree is pinned, as it is now.
func known(places *taint.Register, main string) bool {
	was, ok := places.Pinned(main)
	if !ok {
		return false
	}
	fi, err := taint.Look(main)
	return err == nil && fi.ID.Same(was.ID)
}

func same(was taint.Place, fi taint.Info, p workspace.Project) error {
	now := workspace.PinOf(p)
	other := func(format string, args ...any) error {
		return &Otherwise{Root: was.Path, Was: was, Why: fmt.Sprintf(format, args...)}
	}
	switch {
	case !fi.Same(was.ID):
		return other("it is another folder than at its last use (restored, or replaced by another)")
	case now == was.Pin:
		return nil
	case was.Pin.Git == "" && now.Git == filepath.Join(was.Path, ".git") && now.Main == was.Path:
		return nil // git init: nothing inside can make that folder
	case now.Git == "":
		return other("its repository %s is none any more (%s)", was.Pin.Git, missing(was.Pin.Git))
	case was.Pin.Git == "":
		return other("its repository is now %s, and it had none before", now.Git)
	case now.Git != was.Pin.Git:
		return other("its repository is now %s, and was %s", now.Git, was.Pin.Git)
	}
	return other("it is now a worktree of %s, and was one of %s", now.Main, was.Pin.Main)
}

// moved tells a project that has another path than before: what the person said of
// it is kept by that. It may also be one around the folder of a start, in which a payload
// made a repository.
func moved(places *taint.Register, p workspace.Project) error {
	for at := string(p.Dir); at != filepath.Dir(at); at = filepath.Dir(at) {
		fi, err := taint.Look(at)
		if err != nil {
			return fmt.Errorf("use %s as the project: %w", p.Root, err)
		}
		was, ok := places.Moved(fi.ID, at)
		if !ok {
			continue
		}
		if now, err := taint.Look(was.Path); err == nil && now.Same(was.ID) {
			continue // it is still there too: another mount of it
		}
		if at == string(p.Root) {
			return &Otherwise{
				Root: at, Was: was, Gone: true,
				Why: fmt.Sprintf("it was %s at its last use; your settings for it, its private home and your trust are kept by "+
					"that path", was.Path),
			}
		}
		return &Otherwise{
			Root: string(p.Root), Was: was, Now: at,
			Why: fmt.Sprintf("%s %s, which was the project %s; your settings for that one are kept by that path",
				around(at, string(p.Root)), at, was.Path),
		}
	}
	return nil
}

// around says how a project lies to a folder that was one.
func around(at, root string) string {
	if realpath.Inside(at, root) {
		return "it is around"
	}
	return "it lies inside"
}

// missing names what of a git folder is not there.
func missing(git string) string {
	for _, name := range []string{"", "HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(git, name)); err != nil {
			return filepath.Join(git, name) + " is missing"
		}
	}
	return "it does not point back"
}
