package protect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"cloister/host/resolve"
	"cloister/sandbox"
	"cloister/workspace/stubs"
)

// maxHops is where the kernel, too, stops to follow links (path_resolution(7)).
const maxHops = 40

// maxWithin bounds the files that protected folders are searched for links.
const maxWithin = 20_000

// follow goes a path's way link by link, and holds each one that lies in the project:
// whoever replaces one in the middle chooses what the name at the beginning means. to
// is where it ends, without a link, led that there was one, and inside that to is in
// the project; what is not there is where it would be made.
func (t *Tree) follow(rel string) (to string, led, inside bool, err error) {
	at, pending, hops := t.root, strings.Split(rel, "/"), 0
	for len(pending) > 0 {
		part := pending[0]
		pending = pending[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		if t.plain[next] {
			at = next
			continue
		}
		fi, err := os.Lstat(next)
		if err != nil {
			to, inside = t.rel(filepath.Join(append([]string{next}, pending...)...))
			return to, led, inside, nil
		}
		if fi.Mode()&fs.ModeSymlink == 0 {
			if fi.IsDir() {
				t.plain[next] = true
			}
			at = next
			continue
		}
		led = true
		if hops++; hops > maxHops {
			return "", led, false, nil // it leads nowhere, and every link of it is held
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", led, false, t.give(Unprotected{Path: next, Why: err.Error()})
		}
		if r, ok := t.rel(next); ok {
			t.link(r)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		pending = append(strings.Split(target, "/"), pending...)
	}
	to, inside = t.rel(at)
	return to, led, inside, nil
}

// link holds one symbolic link.
func (t *Tree) link(rel string) {
	if t.done[rel] || t.covered(rel) {
		return
	}
	t.pin(rel)
	t.done[rel] = true
	t.list.Protect = append(t.list.Protect,
		sandbox.Protect{Target: sandbox.GuestPath(filepath.Join(t.root, rel)), File: true})
}

// within looks into a protected folder: what a link in it leads to is obeyed by the
// link's name, and a file that has another name can be written by that one.
func (t *Tree) within(rel string) error {
	var links []string
	err := resolve.Walk(filepath.Join(t.root, rel), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if errors.Is(err, fs.ErrPermission) {
				return nil // read-only with its folder, and shut
			}
			return t.give(Unprotected{Path: path, Why: err.Error()})
		}
		if t.files++; t.files > maxWithin {
			u := Unprotected{Path: filepath.Join(t.root, rel),
				Why: "links in it may lead to what can be written: it holds more files than a start looks at"}
			if err := t.give(u); err != nil {
				return err
			}
			return filepath.SkipAll
		}
		switch {
		case e.IsDir() && path != filepath.Join(t.root, rel) && slices.Contains(Skipped, e.Name()):
			return filepath.SkipDir // no program of the host finds its settings there
		case e.Type()&fs.ModeSymlink != 0:
			if r, ok := t.rel(path); ok {
				links = append(links, r)
			}
		case e.Type().IsRegular():
			if fi, err := e.Info(); err == nil && others(fi) {
				if r, ok := t.rel(path); ok {
					t.note(r, fi)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, l := range links {
		to, _, inside, err := t.follow(l)
		if err != nil {
			return err
		}
		if !inside || to == "" || to == rel || t.covered(to) || t.done[to] || strings.HasPrefix(rel, to+"/") {
			continue
		}
		outer := t.via
		t.via = l
		err = t.Path(to, stubs.Blank)
		t.via = outer
		if err != nil {
			return err
		}
	}
	return nil
}

type inode struct{ dev, ino uint64 }

func others(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}

// note remembers a covered file that has more than one name.
func (t *Tree) note(rel string, fi fs.FileInfo) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		id := inode{uint64(st.Dev), st.Ino} // narrower elsewhere
		if !slices.Contains(t.linked[id], rel) {
			t.linked[id] = append(t.linked[id], rel)
		}
	}
}

// Twins covers the other names of protected files: a hard link that an earlier session
// made is the same file. Those outside of the project no one inside can write. It is
// called once, when everything else is planned.
func (t *Tree) Twins() error {
	if len(t.linked) == 0 {
		return nil
	}
	seen := 0
	return resolve.Walk(t.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone, or another user's
		}
		if seen++; seen > maxEntries {
			if err := t.give(Unprotected{Path: t.root,
				Why: "protected files may have other names in it: " + strconv.Itoa(maxEntries) +
					" files were looked at"}); err != nil {
				return err
			}
			return filepath.SkipAll
		}
		if !e.Type().IsRegular() {
			return nil
		}
		fi, err := e.Info()
		if err != nil || !others(fi) {
			return nil // gone
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		names := t.linked[inode{uint64(st.Dev), st.Ino}] // narrower elsewhere
		rel, inside := t.rel(path)
		if len(names) == 0 || !inside || slices.Contains(names, rel) || t.done[rel] || t.covered(rel) {
			return nil
		}
		t.pin(rel)
		t.done[rel] = true
		cover := sandbox.Protect{Target: sandbox.GuestPath(path), File: true}
		// As its twin: hidden, where that one is.
		if i := slices.IndexFunc(t.list.Protect, func(p sandbox.Protect) bool {
			return string(p.Target) == filepath.Join(t.root, names[0])
		}); i >= 0 {
			cover.Empty, cover.Fleeting = t.list.Protect[i].Empty, t.list.Protect[i].Fleeting
		}
		t.list.Protect = append(t.list.Protect, cover)
		return nil
	})
}
