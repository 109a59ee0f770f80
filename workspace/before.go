package workspace

import (
	"context"
	"maps"
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

	own  map[string]bool  // in the project
	seen map[string]*seen // by the top of the walk
}

// Everything is the same for a look that leaves out nothing, the session's own stubs included.
func (b Before) Everything() Before {
	b.own = nil
	return b
}

// LookBefore finds it in one walk. Single objects of a repository are not looked at
// (LookedBefore): there are many, and git makes nothing there that a program obeys. own are
// the stubs that the session made and holds (View.Own): they are empty.
func LookBefore(ctx context.Context, root string, own map[string]bool) Before {
	w := &walk{ctx: ctx, root: root, view: unheld{}, own: own, seeing: newSeen(root)}
	w.links = &links{files: map[inode]*seenLinks{}}
	w.folder("", nil, false, false)
	found := Before{AutoRun: w.listed(), Whole: !w.truncated, own: own, seen: map[string]*seen{root: w.seeing}}
	if found.Whole { // of a part of them, some names would only not have been seen yet
		found.Linked = w.links.outside(root)
	}
	return found
}

// With is what was found, and what lies in further folders, by whole paths.
func (b Before) With(ctx context.Context, dirs []string) Before {
	b.AutoRun, b.seen = slices.Clone(b.AutoRun), maps.Clone(b.seen)
	for _, dir := range dirs {
		w := &walk{ctx: ctx, root: dir, view: unheld{}, seeing: newSeen(dir)}
		w.folder("", nil, false, false)
		b.AutoRun, b.Whole, b.seen[dir] = append(b.AutoRun, w.absolute()...), b.Whole && !w.truncated, w.seeing
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
func (l *links) look(root, rel string, e *resolve.Entry) {
	if l.seen++; l.seen > hostgit.MaxWalk || l.shared != "" && strings.HasPrefix(rel, l.shared) {
		return
	}
	if e.IsDir() && e.Name() == "objects" {
		if dir := filepath.Join(root, filepath.Dir(rel)); filepath.Base(dir) == ".git" || gitdir.Looks(dir) {
			l.shared = rel + "/" // clones on one disk share their objects, which are never rewritten
		}
	}
	if !e.Type().IsRegular() {
		return
	}
	st, err := e.Stat()
	if err != nil || st.Links < 2 { // gone, or one name
		return
	}
	key := inode{st.Dev, st.Ino}
	if l.files[key] == nil {
		l.files[key] = &seenLinks{path: rel, links: st.Links}
	}
	l.files[key].found++
	l.files[key].path = min(l.files[key].path, rel)
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
