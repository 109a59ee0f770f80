package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cloister/workspace/gitdir"
)

// Ended lists, at the end of a session, the auto-run files that it may have changed since a
// time: in a project as [Changed] does, in what git keeps beside it ([ChangedBeside]) and in
// further folders. Paths outside the project are whole ones. It also has git of the host look
// again at each file that changed since first, the first of all sessions, where the index of
// a repository changed: an index is the payload's, and could say of a changed file that it is
// as it was. An index that cannot be put right is listed. before is what was known of the
// folders when the session began, and may be of none.
func Ended(
	ctx context.Context, p Project, also []string, since, first time.Time, view Holder, before Before,
) (paths []string, truncated bool) {
	root := string(p.Root)
	w := &walk{ctx: ctx, root: root, since: since, view: view, own: before.own, seen: before.seen[root]}
	w.folder("", nil, false, false)
	w.reread(first, Project{})
	paths, truncated = w.listed(), w.truncated
	if w, err := besides(ctx, p, since, view); w == nil {
		truncated = truncated || err != nil
	} else {
		w.reread(first, p)
		paths, truncated = append(paths, w.absolute()...), truncated || w.truncated
	}
	for _, dir := range also {
		w := &walk{ctx: ctx, root: dir, since: since, view: elsewhere{view, root, dir}, seen: before.seen[dir]}
		w.folder("", nil, false, false)
		w.reread(first, Project{})
		paths, truncated = append(paths, w.absolute()...), truncated || w.truncated
	}
	return paths, truncated
}

// reread has git look again at what changed indexes say. Linked is the project where its
// working tree is not where its git folder lies.
func (w *walk) reread(first time.Time, linked Project) {
	for _, rel := range w.indexes {
		file := filepath.Join(w.root, rel)
		tree := treeOf(filepath.Dir(file), linked)
		if tree == "" {
			continue // nothing of a working tree is shown by it
		}
		err := gitdir.Reread(file, func(path string) (changed, marked bool) {
			fi, err := os.Lstat(filepath.Join(tree, path))
			if err != nil {
				return true, false
			}
			st, ok := fi.Sys().(*syscall.Stat_t)
			if !ok {
				return true, false
			}
			at := changeTime(st)
			// A mark may be the person's own: it counts for what did not change just now.
			return !at.Before(first), !at.Before(w.since)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.found = append(w.found, rel)
		}
	}
}

// treeOf is the working tree of a git folder; empty where it has none, or another project's.
func treeOf(git string, linked Project) string {
	switch {
	case linked.Git != nil && git == linked.Git.Dir:
		return string(linked.Root)
	case filepath.Base(git) == ".git":
		return filepath.Dir(git)
	case filepath.Base(filepath.Dir(git)) == "worktrees" && strings.Contains(git, "/.git/"):
		return ""
	}
	tree := gitdir.Last(gitdir.Read(filepath.Join(git, "config")), "core", "worktree")
	if tree == "" || filepath.IsAbs(tree) {
		return tree
	}
	return filepath.Join(git, tree)
}
