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

// Ended is [Changed] at the end of a session. It also has git of the host look again at each
// file that changed since a time, the first of all sessions, where the index of a repository
// changed: an index is the payload's, and could say of a changed file that it is as it was.
// An index that cannot be put right is listed.
func Ended(ctx context.Context, root string, since, first time.Time, view Holder) (paths []string, truncated bool) {
	w := &walk{ctx: ctx, root: root, since: since, view: view}
	w.folder("", false, false)
	w.reread(first, Project{})
	return w.list(), w.truncated
}

// EndedBeside is [ChangedBeside] in the same way.
func EndedBeside(ctx context.Context, p Project, since, first time.Time, view Holder) (paths []string, truncated bool) {
	w, err := besides(ctx, p, since, view)
	if w == nil {
		return nil, err != nil
	}
	w.reread(first, p)
	return w.absolute(), w.truncated
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
