package review

import (
	"path/filepath"
	"slices"
	"strings"

	"cloister/workspace/gitdir"
)

// Revertible is the error for a change that no revert may undo: of what git needs, and
// where what lay there before is not known.
func (e Entry) Revertible() error {
	switch {
	case NeededByGit(e.Path):
		return &Needed{e.Path}
	case e.Before == nil:
		return &NoCopy{e.Path}
	}
	return nil
}

// Needed is the error for a path without which git finds no repository, or another one.
type Needed struct{ Path string }

func (e *Needed) Error() string {
	return "revert " + e.Path + ": git needs it: without it the host's git finds no repository here, or one around it"
}

// Hints are the words of what to do.
func (e *Needed) Hints() []string {
	return []string{"look at it with git (git status, git fsck), put it right with git, then: cloister review --keep"}
}

// gitNeeds are the names of a git folder that git must find, or in which it keeps what
// nothing else has.
var gitNeeds = []string{"HEAD", "objects", "refs", "index", "packed-refs", "reftable", "logs", "shallow"}

// NeededByGit reports whether a path is a project's .git or a part of a git folder that
// git needs. What git makes none of, such as a repository planted among the objects,
// and what makes it show other objects than it is asked for, is none of that.
func NeededByGit(path string) bool {
	path = filepath.Clean(path)
	parts := strings.Split(path, "/")
	git := slices.IndexFunc(parts, func(p string) bool { return strings.EqualFold(p, ".git") })
	if git < 0 {
		// What lies beside a project belongs to the repository of a linked working tree.
		return filepath.IsAbs(path) && slices.ContainsFunc(parts, needs) && gitdir.Looks(before(path, parts))
	}
	rest := parts[git+1:]
	if len(rest) == 0 {
		return git == 0 || filepath.IsAbs(path)
	}
	at := slices.IndexFunc(rest, needs)
	if at < 0 {
		return len(rest) == 2 && (rest[0] == "modules" || rest[0] == "worktrees")
	}
	if at > 0 && !slices.Contains([]string{"modules", "worktrees"}, rest[0]) {
		return false // a name of a hook, of a setting, of a planted repository
	}
	switch name, below := rest[at], rest[at+1:]; {
	case len(below) == 0:
		return true
	case strings.EqualFold(name, "refs"):
		return below[0] != "replace"
	case strings.EqualFold(name, "objects"):
		rel := strings.Join(below, "/")
		return rel != "info/alternates" && rel != "info/http-alternates" &&
			(gitdir.KnownObject(rel, false) || gitdir.KnownObject(rel, true))
	}
	return true
}

func needs(name string) bool {
	return slices.ContainsFunc(gitNeeds, func(n string) bool { return strings.EqualFold(n, name) })
}

// before is the folder above the first part of a path that git needs.
func before(path string, parts []string) string {
	at := slices.IndexFunc(parts, needs)
	if at <= 0 {
		return filepath.Dir(path)
	}
	return "/" + strings.TrimPrefix(strings.Join(parts[:at], "/"), "/")
}
