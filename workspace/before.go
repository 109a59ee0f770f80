package workspace

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"cloister/host/resolve"
	"cloister/workspace/gitdir"
	"cloister/workspace/hostgit"
)

// Before is what lies in a project when a session begins.
type Before struct {
	// AutoRun is what programs of the host run or obey.
	AutoRun []string
	// Linked are the files that are hard links to something outside of the project: what
	// the payload writes there is written outside as well. They are whole paths.
	Linked []string
	// Whole tells that all of the project was looked at.
	Whole bool
}

// LookBefore finds it in one walk. Single objects of a repository are not looked at
// (LookedBefore): there are many, and git makes nothing there that a program obeys.
func LookBefore(ctx context.Context, root string) Before {
	w := &walk{ctx: ctx, root: root, view: unheld{}, links: &links{files: map[inode]*seenLinks{}}}
	w.folder("", false, false)
	found := Before{AutoRun: w.list(), Whole: !w.truncated}
	if found.Whole { // of a part of them, some names would only not have been seen yet
		found.Linked = w.links.outside(root)
	}
	return found
}

// With is what was found, and what lies in further folders, by whole paths.
func (b Before) With(ctx context.Context, dirs []string) Before {
	b.AutoRun = slices.Clone(b.AutoRun)
	for _, dir := range dirs {
		w := &walk{ctx: ctx, root: dir, view: unheld{}}
		w.folder("", false, false)
		b.AutoRun, b.Whole = append(b.AutoRun, w.absolute()...), b.Whole && !w.truncated
	}
	return b
}

// LookedBefore reports whether LookBefore looks where a path lies.
func LookedBefore(rel string) bool {
	parts := strings.Split(rel, "/")
	for i, part := range parts[:len(parts)-1] {
		if part == "objects" && gitdir.Fanout(parts[i+1]) {
			return false
		}
	}
	return true
}

// links counts the names of files that have more than one.
type links struct {
	files  map[inode]*seenLinks
	seen   int
	shared string // a folder of objects, with a slash
}

type inode struct{ dev, ino uint64 }

type seenLinks struct {
	path  string
	found uint64
	links uint64
}

// look counts one name.
func (l *links) look(root, rel, full string, e fs.DirEntry) {
	if l.seen++; l.seen > hostgit.MaxWalk || l.shared != "" && strings.HasPrefix(rel, l.shared) {
		return
	}
	if e.IsDir() && e.Name() == "objects" {
		if dir := filepath.Join(root, filepath.Dir(rel)); filepath.Base(dir) == ".git" || gitdir.Looks(dir) {
			l.shared = rel + "/" // clones on one disk share their objects, which nobody rewrites
		}
	}
	if !e.Type().IsRegular() {
		return
	}
	st, err := resolve.Lstat(full, e)
	if err != nil || st.Links < 2 { // gone, or one name
		return
	}
	key := inode{st.Dev, st.Ino}
	if l.files[key] == nil {
		l.files[key] = &seenLinks{path: rel, links: st.Links}
	}
	l.files[key].found++
}

// outside are the files of which a name lies elsewhere.
func (l *links) outside(root string) []string {
	var out []string
	for _, f := range l.files {
		if f.found < f.links {
			out = append(out, filepath.Join(root, f.path))
		}
	}
	slices.Sort(out)
	return out
}
