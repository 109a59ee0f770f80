package protect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"cloister/host/resolve"
	"cloister/internal/realpath"
	"cloister/sandbox"
	"cloister/workspace/gitdir"
	"cloister/workspace/stubs"
)

// A Tree adds protected paths below one writable bind, each with its ancestors
// pinned, once.
type Tree struct {
	list   *List
	root   string
	data   string          // Cloister's own folder; empty where nothing is kept
	accept bool            // a person goes on without what cannot be protected
	names  map[string]bool // what lies at the top; nil where that cannot be read
	plain  map[string]bool // folders that were seen on the way to a path, and are no links
	pinned map[string]bool
	done   map[string]bool
	linked map[inode][]string // protected files that have other names
	files  int                // in protected folders
	via    string             // the link in a protected folder that is followed
	leave  bool               // nothing is made where nothing is
	found  *[]Unprotected     // takes what cannot be protected, for callers that look for all of it
}

// New plans for the project at root. data is Cloister's own folder, and accept a
// person's word for ResidueUnprotected.
func New(list *List, root, data string, accept bool) *Tree {
	t := &Tree{list: list, root: root, data: data, accept: accept, plain: map[string]bool{}, pinned: map[string]bool{},
		done: map[string]bool{}, linked: map[inode][]string{}}
	if list, err := resolve.ReadDir(root); err == nil {
		t.names = make(map[string]bool, len(list))
		for _, e := range list {
			t.names[e.Name()] = true
		}
	}
	return t
}

// Project protects what programs of the host run or obey by themselves, and hides what
// speaks for them.
func (t *Tree) Project(hide, protect []string, outer []Outer) error {
	l, f, err := t.search(hide, protect, outer)
	if err != nil {
		return err
	}
	for _, a := range autoRun() {
		if err := t.Path(a.path, a.absent); err != nil {
			return err
		}
	}
	for _, rel := range f.sockets {
		t.Cover(sandbox.Protect{File: true, Yields: true}, rel)
	}
	for _, rel := range f.names {
		if err := t.Path(rel, stubs.Leave); err != nil {
			return err
		}
	}
	for _, rel := range f.gits {
		if err := t.nested(rel); err != nil {
			return err
		}
	}
	return t.patterns(l, f)
}

// search finds what of a project is protected, hidden or not looked at, and closes the folders
// of the last kind.
func (t *Tree) search(hide, protect []string, outer []Outer) (*search, found, error) {
	l, err := t.rules(hide, protect, outer)
	if err != nil {
		return nil, found{}, err
	}
	f := l.run(t.data)
	if err := t.bounds(f); err != nil {
		return nil, found{}, err
	}
	t.Close(f.shut)
	return l, f, nil
}

// Sockets hides what speaks for programs of the host, with what a person's rules name,
// and protects nothing else: no file of the project is written on the host.
func (t *Tree) Sockets(hide, protect []string, outer []Outer) error {
	l, f, err := t.search(hide, protect, outer)
	if err != nil {
		return err
	}
	for _, rel := range f.sockets {
		t.Cover(sandbox.Protect{File: true, Yields: true}, rel)
	}
	return t.patterns(l, f)
}

// Exposed protects what lies in a folder that the person shows writable: what programs of
// the host obey at its top, as the project's, and what git obeys of each repository in it.
// Nothing is held there that is absent, and of a cache with the sources of a thousand
// packages no file is read-only: what appears or changes is listed at the end. A git folder
// that is shown itself is left as it is: the person named it.
func (t *Tree) Exposed() error {
	t.leave = true
	f := (&search{root: t.root}).run(t.data)
	f.names = nil
	if err := t.bounds(f); err != nil {
		return err
	}
	gits := f.gits
	switch fi, err := os.Lstat(filepath.Join(t.root, ".git")); {
	case err == nil && fi.IsDir():
		gits = append(gits, ".git")
	case err == nil:
		if err := t.Path(".git", stubs.Leave); err != nil {
			return err
		}
	}
	if gitdir.Looks(t.root) && filepath.Base(t.root) != ".git" {
		gits = append(gits, ".")
	}
	for _, a := range autoRun() {
		if err := t.Path(a.path, stubs.Leave); err != nil {
			return err
		}
	}
	for _, rel := range gits {
		if err := t.nested(rel); err != nil {
			return err
		}
	}
	return nil
}

// hide shows a path empty, and what it leads to where it is a link.
func (t *Tree) hide(rel string) error {
	to, led, inside, err := t.follow(rel)
	switch {
	case err != nil:
		return err
	case led && !inside:
		return nil // what lies outside is shown only where a person exposes it
	case led && to == "":
		return t.give(Unprotected{Path: filepath.Join(t.root, rel),
			Why: "it is to be hidden, and leads to the whole project"})
	}
	fi, err := os.Lstat(filepath.Join(t.root, to))
	if err != nil {
		return nil // a link that leads nowhere shows nothing; or gone
	}
	if fi.Mode().IsRegular() && others(fi) {
		t.note(to, fi)
	}
	t.Cover(sandbox.Protect{File: !fi.IsDir()}, to)
	return nil
}

// bare tells that the top has nothing of the name under which a path lies, so
// that no further look is needed: most of the names are absent.
func (t *Tree) bare(rel string) bool {
	first, _, _ := strings.Cut(rel, "/")
	return t.names != nil && !t.names[first]
}

// Path makes a path read-only, with each link that leads to it. An absent one is held
// by a stub, unless it is to be left.
func (t *Tree) Path(rel string, absent stubs.Kind) error {
	if t.done[rel] || t.covered(rel) {
		return nil
	}
	if t.bare(rel) {
		if absent != stubs.Leave {
			t.hold(rel, absent)
		}
		return nil
	}
	to, led, inside, err := t.follow(rel)
	switch {
	case err != nil || !inside:
		return err
	case to == "":
		return t.give(Unprotected{Path: filepath.Join(t.root, rel), Why: "it leads to the whole project, of which nothing " +
			"could be written then"})
	case led:
		if absent == stubs.Leave {
			absent = stubs.Blank // whoever makes it there makes what the link names
		}
		if t.done[to] || t.covered(to) {
			return nil
		}
	}
	full := filepath.Join(t.root, to)
	fi, err := os.Lstat(full)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return nil // a file above it: nothing can appear there
	case errors.Is(err, fs.ErrNotExist):
		if absent != stubs.Leave && !t.blocked(to) {
			t.hold(to, absent)
		}
		return nil
	case err != nil:
		// What a link leads to may be no path at all: the link is what is wrong.
		switch {
		case led:
			full = filepath.Join(t.root, rel)
		case t.via != "":
			full = filepath.Join(t.root, t.via)
		}
		return t.give(Unprotected{Path: full, Why: err.Error()})
	}
	if ignore := filepath.Join(to, ".gitignore"); absent == stubs.Ignoring && fi.IsDir() {
		if _, err := os.Lstat(filepath.Join(t.root, ignore)); errors.Is(err, fs.ErrNotExist) {
			t.list.Stubs = append(t.list.Stubs, stubs.Stub{Root: t.root, Rel: ignore, Kind: stubs.File})
		}
	}
	t.pin(to)
	t.done[to] = true
	socket := fi.Mode()&fs.ModeSocket != 0 // another session's stub, or a way out
	t.list.Protect = append(t.list.Protect, sandbox.Protect{Target: sandbox.GuestPath(full), File: !fi.IsDir(),
		Empty: socket, Yields: socket})
	if fi.IsDir() {
		return t.within(to)
	}
	if fi.Mode().IsRegular() && others(fi) {
		t.note(to, fi)
	}
	return nil
}

// hold makes a stub where nothing is.
func (t *Tree) hold(rel string, k stubs.Kind) {
	if t.leave {
		return
	}
	t.pin(rel)
	t.done[rel] = true
	cover := sandbox.Protect{Target: sandbox.GuestPath(filepath.Join(t.root, rel))}
	switch k {
	case stubs.Leave:
		return
	case stubs.Folder:
		cover.Empty, cover.Yields = true, true
	case stubs.Blank:
		cover.File, cover.Empty, cover.Yields = true, true, true
	case stubs.File:
		cover.File = true
	case stubs.Ignoring:
		k = stubs.Folder
		t.list.Stubs = append(t.list.Stubs, stubs.Stub{Root: t.root, Rel: filepath.Join(rel, ".gitignore"), Kind: stubs.File})
	}
	t.list.Stubs = append(t.list.Stubs, stubs.Stub{Root: t.root, Rel: rel, Kind: k})
	t.list.Protect = append(t.list.Protect, cover)
}

// blocked reports whether something that is no folder lies above an absent path:
// nothing can appear below it.
func (t *Tree) blocked(rel string) bool {
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		if fi, err := os.Lstat(filepath.Join(t.root, dir)); err == nil {
			return !fi.IsDir()
		}
	}
	return false
}

// covered reports whether an ancestor is protected whole already.
func (t *Tree) covered(rel string) bool {
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		if t.done[dir] {
			return true
		}
	}
	return false
}

// pin holds the folders above a protected path, so that none can be renamed.
func (t *Tree) pin(rel string) {
	var chain []string
	for dir := filepath.Dir(rel); dir != "." && dir != "/"; dir = filepath.Dir(dir) {
		chain = append(chain, dir)
	}
	slices.Reverse(chain)
	for _, dir := range chain {
		t.keep(dir)
	}
}

// keep holds a folder in its place, writable as before.
func (t *Tree) keep(dir string) {
	if !t.pinned[dir] && !t.done[dir] {
		t.pinned[dir] = true
		t.list.Protect = append(t.list.Protect, sandbox.Protect{Target: sandbox.GuestPath(filepath.Join(t.root, dir)),
			Pin: true})
	}
}

// Close shows shut folders empty, so that no program inside can open them.
func (t *Tree) Close(list []string) {
	for _, rel := range list {
		if !t.covered(rel) {
			t.Cover(sandbox.Protect{}, rel)
		}
	}
}

// Cover shows a path empty.
func (t *Tree) Cover(p sandbox.Protect, rel string) {
	if t.done[rel] || t.covered(rel) {
		return
	}
	t.pin(rel)
	t.done[rel] = true
	p.Target, p.Empty, p.Fleeting = sandbox.GuestPath(filepath.Join(t.root, rel)), true, p.File
	t.list.Protect = append(t.list.Protect, p)
}

// rel is a path of the host below the top.
func (t *Tree) rel(path string) (string, bool) {
	if path == t.root {
		return "", true
	}
	if !realpath.Inside(path, t.root) {
		return "", false
	}
	return strings.TrimPrefix(path[len(t.root):], "/"), true
}
