package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"cloister/host/resolve"
	"cloister/workspace/stubs"
)

// listed is what was found.
func (w *walk) listed() []string {
	slices.Sort(w.found)
	return slices.Compact(w.found)
}

// absolute is what was found, by whole paths.
func (w *walk) absolute() []string {
	out := w.listed()
	for i, rel := range out {
		out[i] = filepath.Join(w.root, rel)
	}
	return out
}

// elsewhere is a Holder for paths relative to another top.
type elsewhere struct {
	Holder
	root, top string
}

func (e elsewhere) Held(rel string) bool {
	path, err := filepath.Rel(e.root, filepath.Join(e.top, rel))
	return err == nil && e.Holder.Held(path)
}

// Holder knows what was protected, by paths relative to a project's top. A View
// is one.
type Holder interface {
	Held(rel string) bool
}

type walk struct {
	ctx       context.Context
	root      string
	since     time.Time
	view      Holder
	others    string // a folder that is left out: no program inside can write there
	beside    bool   // all of it is git's own, also that of a bare repository, where no .git tells so
	found     []string
	indexes   []string // of repositories, that changed
	truncated bool
	links     *links          // takes hard links too; nil where they are not asked for
	own       map[string]bool // stubs of the session's own, which are left out
	seen      *seen           // what the look before the session knows of folders; nil for none
	seeing    *seen           // takes that
}

// folder looks at one folder. at is what it is, nil where that is not known. moved tells that
// it, or one above it, may have come from elsewhere, inBare that it lies in a repository
// without a .git.
func (w *walk) folder(rel string, at *resolve.Stat, moved, inBare bool) {
	// No number of names ends the walk: a payload could make as many.
	if w.ctx.Err() != nil {
		w.truncated = true
		return
	}
	// Another session in the same folder may exchange it for a link just now.
	full := filepath.Join(w.root, rel)
	self, entries, err := w.list(rel, full, at, inBare)
	if err != nil {
		w.unread(rel, moved, err)
		return
	}
	if rel != "" && self.Mode&0o500 != 0o500 && os.Geteuid() != 0 {
		w.unread(rel, moved, fs.ErrPermission) // its names are listed, and nothing of them
	}
	h := w.here(rel, entries, inBare)
	w.see(rel, self, entries, inBare, func(e *resolve.Entry) bool { return h.matters(e) })
	for i := range entries {
		e := &entries[i]
		path := filepath.Join(rel, e.Name())
		if w.own[path] {
			continue
		}
		if w.links != nil {
			w.links.look(w.root, path, e)
		}
		if h.git && w.strange(path, e, moved) {
			w.found = append(w.found, path)
		}
		if h.git && e.Name() == "index" && e.Type().IsRegular() && w.fresh(e) {
			w.indexes = append(w.indexes, path)
		}
		switch {
		case e.IsDir():
			if e.Name() == "objects" && h.head && (w.beside || h.inGit) || path == w.others {
				if path != w.others {
					w.objects(path, w.stat(e), moved)
				}
				continue // of a git folder: data, and many
			}
			w.folder(path, w.stat(e), moved || w.fresh(e) && !w.view.Held(path), h.bare)
		case h.of && (e.Type()&fs.ModeSymlink != 0 || w.replaced(path, h)):
			// Git makes no links in there, and writes through those that there are: its
			// journal of branches, with names that the payload chose, into a file
			// that a shell of the host obeys.
			if moved && !w.view.Held(path) || w.fresh(e) {
				w.found = append(w.found, path)
			}
		case h.bare && slices.Contains([]string{"config", "config.worktree", "commondir"}, strings.ToLower(e.Name())),
			inBare && strings.EqualFold(filepath.Base(rel), "hooks"), h.trail.obeyed(e.Name()), w.beside &&
				h.inner.obeyed(e.Name()):
			if !w.harmless(path, e) && (moved && !w.view.Held(path) || w.fresh(e)) {
				w.found = append(w.found, path)
			}
		}
	}
}

// A spot is what a walk knows of a folder whatever it finds there.
type spot struct {
	trail, inner trail // inner is that of a git folder outside of a project
	head         bool  // it has a HEAD
	bare, git    bool  // it is a git folder by its names, without a .git or in one
	inGit        bool  // it lies in a git folder or is one
	of           bool  // what is in it belongs to a repository
	replaced     bool  // what is in it is a ref that stands for another object
}

func (w *walk) here(rel string, entries []resolve.Entry, inBare bool) spot {
	h := spot{trail: trailOf(rel), inGit: inGit(filepath.Join(rel, "x"))}
	if w.beside {
		h.inner = trailOf(filepath.Join(".git", rel))
	}
	top := filepath.Base(rel) == ".git"
	var objects bool
	h.head, objects, h.bare = shapeOf(entries)
	h.bare = h.bare && !top
	h.git = h.bare || top || (w.beside || h.inGit) && objects
	h.of = h.bare || inBare || w.beside || h.inGit
	h.replaced = strings.Contains("/"+rel+"/", "/refs/replace/")
	return h
}

// unread tells of a folder that cannot be looked into. Programs enter one by its name
// all the same where it may be searched, and the payload can lock what it made or
// changed: such a folder of the person's own is listed itself. Others' files the
// payload cannot touch either.
func (w *walk) unread(rel string, moved bool, err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return // gone
	case !errors.Is(err, fs.ErrPermission):
		// A path longer than the kernel takes, among others: what is below it is not
		// seen, so that the folder is listed each time.
		w.found = append(w.found, shortened(filepath.Clean(rel)))
		return
	}
	fi, err := os.Lstat(filepath.Join(w.root, rel))
	if err != nil {
		return
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if ok && int(st.Uid) == os.Geteuid() && (moved || fi.Mode()&0o100 != 0 || !changeTime(st).Before(w.since)) {
		w.found = append(w.found, filepath.Clean(rel))
	}
}

// harmless tells of an entry that no program can run or obey: sockets and pipes,
// empty files, a commondir that says "here", a .gitignore that hides its folder
// from git, though not from this walk. Stubs are such, this session's and those
// of another one in the project.
func (w *walk) harmless(path string, e *resolve.Entry) bool {
	if e.Type()&fs.ModeSymlink != 0 {
		return false
	}
	if e.Type().IsRegular() && sampleHook(path) {
		return true
	}
	fi, err := e.Info()
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) // gone
	}
	if !fi.Mode().IsRegular() || fi.Size() == 0 || w.hostsTree(path) {
		return true
	}
	want := stubs.Text(path)
	if want == "" || fi.Size() != int64(len(want)) {
		return false
	}
	text, err := resolve.ReadFile(filepath.Join(w.root, path), int64(len(want)))
	return err == nil && string(text) == want
}

// hostsTree tells of the two files by which git knows a linked working tree, of one
// that the host made meanwhile: start -b does. No program inside can write where they
// lie; the tree points back at them, and says nothing else.
func (w *walk) hostsTree(path string) bool {
	dir, name := filepath.Split(filepath.Clean(path))
	admin := filepath.Join(".git", "worktrees")
	if filepath.Dir(filepath.Clean(dir)) != admin || !w.view.Held(admin) {
		return false
	}
	text, err := resolve.ReadFile(filepath.Join(w.root, path), maxPointer)
	if err != nil {
		return false
	}
	to := strings.TrimSuffix(string(text), "\n")
	switch name {
	case "commondir":
		return to == "../.."
	case "gitdir":
		if !filepath.IsAbs(to) || filepath.Base(to) != ".git" {
			return false
		}
		back, err := resolve.ReadFile(to, maxPointer)
		return err == nil && string(back) == "gitdir: "+filepath.Join(w.root, dir)+"\n"
	}
	return false
}

// wanted are the entries of a folder that a walk asks the time or the names of, as a rule.
func (w *walk) wanted(e *resolve.Entry) bool {
	if w.since.IsZero() {
		return w.links != nil && e.Type().IsRegular()
	}
	return e.IsDir()
}

// fresh reports whether an inode changed since the start.
func (w *walk) fresh(e *resolve.Entry) bool {
	if w.since.IsZero() {
		return true
	}
	st, err := e.Stat()
	return err == nil && !st.Changed().Before(w.since) // or gone between the listing and the look
}
