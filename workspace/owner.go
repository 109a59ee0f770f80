package workspace

import (
	"fmt"
	"path/filepath"
	"strings"

	"cloister/host/resolve"
	"cloister/host/taint"
	"cloister/internal/realpath"
	"cloister/workspace/gitdir"
)

// NotYours says that a repository belongs to another user. Git does not work in such
// a one, since its owner chooses what git runs there; no cloister does either.
type NotYours struct {
	Root, Path string
	UID        uint32
}

func (e *NotYours) Error() string {
	return fmt.Sprintf("use the repository %s: %s belongs to another user (%d), so that git refuses it too", e.Root,
		e.Path, e.UID)
}

// Hints are the words of what to do.
func (e *NotYours) Hints() []string {
	return []string{"if you trust that user: git config --global --add safe.directory " + e.Root}
}

// Owned holds a repository to what git asks of it (safe.directory): its working tree,
// its .git and its git folder belong to the user, or the user's own configuration of
// git names it, which no one else could have written.
func (p Project) Owned(uid int, home string, host *resolve.Resolver) error {
	if p.Git == nil {
		return nil
	}
	root := string(p.Root)
	for _, path := range []string{root, filepath.Join(root, ".git"), p.Git.Dir, p.Git.Common} {
		fi, err := taint.Look(path)
		if err != nil {
			return fmt.Errorf("use the repository %s: %w", root, err)
		}
		if fi.UID != uint32(uid) {
			if safeDirectory(root, home, host) {
				return nil
			}
			return &NotYours{Root: root, Path: path, UID: fi.UID}
		}
	}
	return nil
}

// safeDirectory reads safe.directory where git does: not in a repository.
func safeDirectory(root, home string, host *resolve.Resolver) bool {
	files := []string{"/etc/gitconfig"}
	if home != "" {
		files = append(files, filepath.Join(home, ".config/git/config"), filepath.Join(home, ".gitconfig"))
	}
	safe := false
	for _, file := range files {
		if host.Trusted(file) != nil {
			continue // it is absent, or a payload or another user could say there what is safe
		}
		for _, e := range gitdir.ReadOwn(file) {
			if e.Section != "safe" || e.Subsection != "" || e.Key != "directory" {
				continue
			}
			value := e.Value
			if rest, ok := strings.CutPrefix(value, "~/"); ok {
				value = filepath.Join(home, rest)
			}
			above, below := strings.CutSuffix(value, "/*")
			switch {
			case value == "":
				safe = false // what was named so far is taken back
			case value == "*", value == root, below && realpath.Inside(root, above) && root != above:
				safe = true
			default:
				if real, err := realpath.Of(filepath.Clean("/" + value)); err == nil && filepath.IsAbs(value) && real == root {
					safe = true
				}
			}
		}
	}
	return safe
}
