package workspace

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/host/resolve"
	"cloister/internal/realpath"
)

// Changed lists the auto-run files below the project's top that a session may
// have changed, relative to it. It goes by the inode's change time, which the
// payload cannot set; where a whole folder was moved into place, all in it
// counts, unless view held it in its place. A change of a protected file is
// listed too: it was the host's own, or the protection was lost. A folder that cannot be
// looked into is listed itself. truncated tells that there was no time for all.
func Changed(ctx context.Context, root string, since time.Time, view Holder) (paths []string, truncated bool) {
	w := &walk{ctx: ctx, root: root, since: since, view: view}
	w.folder("", nil, false, false)
	return w.listed(), w.truncated
}

// ChangedBeside is Changed for what git keeps outside the project's top: the
// repository of a linked working tree, with its own folder and submodules, whose
// settings git obeys as it does the repository's own. The paths are absolute.
func ChangedBeside(ctx context.Context, p Project, since time.Time, view Holder) (paths []string, truncated bool) {
	w, err := besides(ctx, p, since, view)
	if w == nil {
		return nil, err != nil
	}
	return w.absolute(), w.truncated
}

// besides walks what git keeps outside the project's top; nil where there is nothing.
func besides(ctx context.Context, p Project, since time.Time, view Holder) (*walk, error) {
	if p.Git == nil || realpath.Inside(p.Git.Dir, string(p.Root)) {
		return nil, nil
	}
	top := filepath.Dir(p.Git.Common)
	if at := strings.Index(p.Git.Common+"/", "/.git/"); at > 0 {
		top = p.Git.Common[:at] // a submodule's lies deep in it
	}
	w := &walk{ctx: ctx, root: top, since: since, view: elsewhere{view, string(p.Root), top}, beside: true}
	for _, dir := range []string{p.Git.Common, p.Git.Dir} {
		rel, err := filepath.Rel(top, dir)
		if err != nil {
			return nil, err
		}
		w.others = filepath.Join(rel, "worktrees") // those of others are not written inside
		w.folder(rel, nil, false, false)
	}
	return w, nil
}

// maxTold is how long a path may be that a person is shown, in bytes; of a longer one a
// folder above is named.
const maxTold = 1024

func shortened(rel string) string {
	for len(rel) > maxTold {
		rel = filepath.Dir(rel)
	}
	return rel
}

// sampleHook tells of a hook by a name that git never runs: clones of submodules
// come with a dozen.
func sampleHook(path string) bool {
	return filepath.Ext(path) == ".sample" && filepath.Base(filepath.Dir(path)) == "hooks"
}

// inGit reports whether a path lies in a git folder.
func inGit(rel string) bool {
	return slices.Contains(strings.Split(filepath.Dir(rel), string(filepath.Separator)), ".git")
}

// shapeOf tells of a folder's names what makes a repository. It is bare where git takes it
// for one without its .git, or for the common part of one: a HEAD beside a commondir is
// enough, and what that leads to needs no HEAD.
func shapeOf(entries []resolve.Entry) (head, objects, bare bool) {
	var refs, anyHead, anyCommon, anyObjects, anyRefs bool // any: on a file system that folds case
	for i := range entries {
		name := entries[i].Name()
		head, objects, refs = head || name == "HEAD", objects || name == "objects", refs || name == "refs"
		anyHead, anyCommon = anyHead || strings.EqualFold(name, "HEAD"), anyCommon || strings.EqualFold(name, "commondir")
		anyObjects, anyRefs = anyObjects || strings.EqualFold(name, "objects"), anyRefs || strings.EqualFold(name, "refs")
	}
	return head, objects, objects && refs || anyHead && (anyCommon || anyObjects && anyRefs)
}

// RunsByItself reports whether programs of the host run or obey a file of that path,
// relative to a project's top, without another word from a person.
func RunsByItself(rel string) bool { return autoRunPath(rel) }
