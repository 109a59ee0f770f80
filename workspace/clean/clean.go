// Package clean finds and removes what a payload left in a project that makes a later
// start fail, or that git of the host takes for a repository.
//
// Promise: only what was listed is removed, only below the project's top, and through no
// link; what is another thing by now than was listed stays.
//
// It neither asks nor records.
//
// Most readers want [Find] and [Remove].
package clean

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/host/resolve"
	"cloister/workspace/gitdir"
	"cloister/workspace/protect"
)

// An Item is one path, with all below it where it is a folder.
type Item struct {
	Path string // relative to the project's top
	Why  string
	Dir  bool
	// Keep is why it is not removed; empty for what is.
	Keep string

	dev, ino uint64
}

// A Project is where to look.
type Project struct {
	Root          string // real, without links
	Git           string // its git folder, relative to Root; empty where none lies in it
	Hide, Protect []string
	Bad           map[string]string // further files that end a start, with why
}

// Find lists what is to be removed, and what is in the way and has to be put right by a
// person.
func Find(p Project) ([]Item, error) {
	found, err := protect.All(p.Root, p.Git, p.Hide, p.Protect)
	if err != nil {
		return nil, err
	}
	l := &list{root: p.Root}
	for _, u := range found {
		rel, err := filepath.Rel(p.Root, u.Path)
		if err != nil || !filepath.IsLocal(rel) {
			l.items = append(l.items, Item{Path: u.Path, Why: u.Why, Keep: "it lies outside the project"})
			continue
		}
		if u.Must && !onlyNames(filepath.Join(p.Root, rel)) {
			l.items = append(l.items, Item{Path: rel, Why: u.Why,
				Keep: "other files lie there too: remove those of the names that are not yours"})
			continue
		}
		l.add(rel, u.Why)
	}
	for rel, why := range p.Bad {
		l.add(rel, why)
	}
	top, err := os.Lstat(filepath.Join(p.Root, gitdir.TopGuard))
	if _, head := os.Lstat(filepath.Join(p.Root, "HEAD")); err == nil && top.IsDir() && head == nil {
		l.add(gitdir.TopGuard, "a folder that a session left: git fails by it")
	}
	if p.Git != "" {
		l.addIf(filepath.Join(p.Git, "HEAD.set-aside"), "what was in the place of HEAD")
		if gitdir.Valid(filepath.Join(p.Root, p.Git)) && gitdir.Looks(p.Root) {
			l.planted()
		}
	}
	return l.items, nil
}

// onlyNames reports whether a folder has nothing but protected names, and folders of them.
func onlyNames(dir string) bool {
	err := resolve.Walk(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == dir:
			return nil
		case protect.Name(e.Name()) || e.Name() == ".git":
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !e.IsDir():
			return errors.New("a file of another name")
		}
		return nil
	})
	return err == nil
}

// list gathers items, each once, and none below another.
type list struct {
	root  string
	items []Item
}

func (l *list) addIf(rel, why string) {
	if _, err := os.Lstat(filepath.Join(l.root, rel)); err == nil {
		l.add(rel, why)
	}
}

// planted are the parts of a repository without a .git at the top. Folders that have
// what git makes none of are a person's: without the rest they make no repository.
func (l *list) planted() {
	const why = "part of a second repository at the top, which git of the host would take for this one"
	if fi, err := os.Lstat(filepath.Join(l.root, "HEAD")); err == nil && !fi.IsDir() {
		l.add("HEAD", why)
	}
	shapes := map[string]func(name string, dir bool) bool{
		"objects": gitdir.KnownObject,
		"refs": func(name string, dir bool) bool {
			return dir && slices.Contains([]string{"heads", "tags", "remotes"}, name)
		},
	}
	for _, name := range []string{"objects", "refs"} {
		entries, err := resolve.ReadDir(filepath.Join(l.root, name))
		if err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			return !shapes[name](e.Name(), e.IsDir())
		}) {
			l.add(name, why)
		}
	}
	config := filepath.Join(l.root, "config")
	if fi, err := os.Lstat(config); err == nil && fi.Mode().IsRegular() &&
		slices.ContainsFunc(gitdir.Read(config), func(e gitdir.Entry) bool { return e.Section == "core" }) {
		l.add("config", why)
	}
}

// add takes a path, or the first link on the way to it.
func (l *list) add(rel, why string) {
	dir, name, at, err := reach(l.root, rel)
	if err != nil {
		l.items = append(l.items, Item{Path: rel, Why: why, Keep: err.Error()})
		return
	}
	defer unix.Close(dir)
	if slices.ContainsFunc(l.items, func(i Item) bool {
		return i.Keep == "" && (i.Path == at || strings.HasPrefix(at, i.Path+"/"))
	}) {
		return
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		l.items = append(l.items, Item{Path: at, Why: why, Keep: err.Error()})
		return
	}
	i := Item{Path: at, Why: why, Dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, dev: uint64(st.Dev), ino: st.Ino}
	if i.Dir && gitsOwn(at) {
		i.Keep = "git needs it: put it right by hand"
	}
	l.items = append(l.items, i)
}

// gitsOwn tells of a folder of git's that is never removed whole.
func gitsOwn(rel string) bool {
	parts := strings.Split(rel, "/")
	at := slices.IndexFunc(parts, func(p string) bool { return strings.EqualFold(p, ".git") })
	return at >= 0 && len(parts)-at <= 2 && parts[len(parts)-1] != "HEAD.set-aside"
}

// reach opens the folder in which a path lies, part by part and through no link; at is
// the path, or the first link on the way.
func reach(root, rel string) (dir int, name, at string, err error) {
	rel = filepath.Clean(rel)
	if !filepath.IsLocal(rel) || rel == "." {
		return -1, "", "", errors.New("it is the whole project: look at it yourself")
	}
	dir, err = unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", "", err
	}
	parts := strings.Split(rel, "/")
	for i, part := range parts[:len(parts)-1] {
		next, err := unix.Openat(dir, part, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			var st unix.Stat_t
			if unix.Fstatat(dir, part, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
				return dir, part, strings.Join(parts[:i+1], "/"), nil
			}
			unix.Close(dir)
			return -1, "", "", err
		}
		unix.Close(dir)
		dir = next
	}
	return dir, parts[len(parts)-1], rel, nil
}

// Remove removes what was listed, unless something else lies there by now.
func Remove(root string, i Item) error {
	dir, name, at, err := reach(root, i.Path)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	if i.Keep != "" || at != i.Path || uint64(st.Dev) != i.dev || st.Ino != i.ino {
		return errors.New("remove: it is not what was listed any more")
	}
	if err := removeAll(dir, name, st.Dev); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}

// removeAll removes an entry of a folder, and enters no other file system.
func removeAll[D comparable](dir int, name string, dev D) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	fd, operr := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(operr, unix.EACCES) && unix.Fchmodat(dir, name, 0o700, unix.AT_SYMLINK_NOFOLLOW) == nil {
		fd, operr = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if operr != nil {
		return errors.Join(err, operr)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if any(st.Dev) != any(dev) {
		return errors.New("another file system is mounted in it")
	}
	if st.Mode&0o700 != 0o700 {
		if err := f.Chmod(0o700); err != nil {
			return err
		}
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := removeAll(fd, n, dev); err != nil {
			return err
		}
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}
