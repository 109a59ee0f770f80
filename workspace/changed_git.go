package workspace

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/host/resolve"
	"cloister/workspace/gitdir"
)

// strange tells of an entry at the top of a git folder that a session may have made, and
// that git makes none of, or that changes what git shows of a repository: replaced
// objects, and a history that is cut off.
func (w *walk) strange(path string, e *resolve.Entry, moved bool) bool {
	name := e.Name()
	if name != "shallow" && name != "packed-refs" && gitdir.Known(name) || !w.fresh(e) && !(moved && !w.view.Held(path)) {
		return false
	}
	switch name {
	case "shallow":
		return true
	case "packed-refs":
		return e.Type().IsRegular() && w.says(path, " refs/replace/")
	}
	// A folder that was held in its place was there before; what is in it is looked at.
	return e.IsDir() && !w.view.Held(path) || !e.IsDir() && !w.harmless(path, e)
}

// replaced tells of a ref that stands for another object than git is asked for.
func (w *walk) replaced(path string, h spot) bool {
	return h.replaced || filepath.Base(filepath.Dir(path)) == "reftable" && w.says(path, "replace/")
}

// maxRefs bounds a file of refs that is searched; a larger one counts as one that says it.
const maxRefs = 64 << 20

// says reports whether a file has a text in it.
func (w *walk) says(path, text string) bool {
	fi, err := os.Lstat(filepath.Join(w.root, path))
	if err != nil || !fi.Mode().IsRegular() {
		return false
	}
	if fi.Size() > maxRefs {
		return true
	}
	all, err := resolve.ReadFile(filepath.Join(w.root, path), maxRefs)
	return err != nil || bytes.Contains(all, []byte(text))
}

// objects looks at what is among the objects of a repository and is none: links, the
// list of places with more of them, and what has another shape than git makes there,
// such as a repository that a remote leads to. Folders that were not changed since have
// nothing new.
func (w *walk) objects(rel string, at *resolve.Stat, moved bool) {
	w.objectFolder(rel, "", at, moved)
}

func (w *walk) objectFolder(objects, below string, at *resolve.Stat, moved bool) {
	dir := filepath.Join(objects, below)
	full := filepath.Join(w.root, dir)
	self, entries, err := w.list(dir, full, at, false)
	if err != nil {
		if below != "" {
			w.unread(dir, moved, err)
		}
		return
	}
	w.see(dir, self, entries, false, func(*resolve.Entry) bool { return true })
	for i := range entries {
		e := &entries[i]
		rel := filepath.Join(below, e.Name())
		path := filepath.Join(objects, rel)
		known := gitdir.KnownObject(rel, e.IsDir())
		if w.own[path] {
			continue
		}
		if e.IsDir() && known {
			fresh := moved && !w.view.Held(path) || w.fresh(e)
			if below == "" && (!fresh || w.since.IsZero()) && !slices.Contains([]string{"info", "pack"}, rel) {
				continue // as it was, or of no matter: see LookBefore
			}
			w.objectFolder(objects, rel, w.stat(e), moved || w.fresh(e) && below != "")
			continue
		}
		lists := strings.HasSuffix(e.Name(), "alternates") && below == "info"
		if (lists && !w.harmless(path, e) || e.Type()&fs.ModeSymlink != 0 || !known) &&
			(moved && !w.view.Held(path) || w.fresh(e)) {
			w.found = append(w.found, path)
		}
	}
}
