// Package stubs holds absent names in a project for as long as a session of it
// lives.
//
// Each name is held by something that git does not show. Sessions of one project
// share the stubs: the last one takes them away, and what a crash left, the next
// one or a sweep. The promise: a stub that someone has made something of is
// theirs, and stays. Which names are held is another's decision.
//
// Most readers want [Open], [Set.Make] and [Set.Release].
package stubs

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/host/resolve"
	"cloister/internal/rawcall"
	"cloister/workspace/gitdir"
)

// Set are the stubs of one session.
type Set struct {
	lock    *os.File
	alone   bool // no other session of the project lived when this one joined
	last    bool // no other one lives any more
	asked   bool // whether it is the last
	left    bool // something lies where a stub was
	own     []Stub
	journal string
	data    string
	seen    map[string]*os.File // by folder
	pools   map[string]*pool    // by folder in which stubs are made
}

// Open joins the other sessions of a project in a folder of locks: stubs are
// removed by the last one. A journal tells the next session what a crash left.
// What is kept between sessions lies in the data folder. writable are the folders
// of the host that the session may write to.
func Open(locks, data, name string, writable []string) (*Set, error) {
	if err := os.MkdirAll(locks, 0o700); err != nil {
		return nil, fmt.Errorf("lock project: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(locks, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock project: %w", err)
	}
	s := &Set{lock: lock, journal: filepath.Join(locks, name+".stubs"), data: data, seen: map[string]*os.File{},
		pools: map[string]*pool{}}
	for _, dir := range writable {
		if s.seen[dir] == nil {
			s.seen[dir] = seen(dir)
		}
	}
	// Alone: what is in the journal was left by a crash.
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		if _, err := remove(s.journal, nil); err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.alone = true
	}
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_SH); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock project: %w", err), s.close())
	}
	return s, nil
}

// See is a session that makes no stubs, and may write to folders where others do.
func See(writable []string) *Set {
	s := &Set{seen: map[string]*os.File{}}
	for _, dir := range writable {
		s.seen[dir] = seen(dir)
	}
	return s
}

// close lets the locks go.
func (s *Set) close() error {
	for _, f := range s.seen {
		if f != nil {
			f.Close()
		}
	}
	for _, p := range s.pools {
		p.close()
	}
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// Kind says by what an absent path is held, so that git shows it neither outside
// nor inside, and programs that look there read "nothing" instead of failing.
type Kind byte

const (
	// Leave is a name that is not held.
	Leave Kind = iota
	// Folder is an empty folder, for names that are folders.
	Folder
	// Blank is a socket outside and an empty file inside, for names of files where
	// git knows no other place (Hide): yarn, opencode and others fail on a folder
	// there. git passes over sockets, by what the folder's entry says.
	Blank
	// File is a small file that changes nothing for who reads it (Text).
	File
	// Ignoring is a folder with a .gitignore for all of it: opencode makes one
	// where there is none, also in a folder that exists, and fails if it cannot.
	Ignoring
)

// Stub is an absent path, below a folder that is there.
type Stub struct {
	Root, Rel string
	Kind      Kind
}

// Text is what a stub that is a file says: of a commondir "here", of a
// .gitignore "all of this folder, me too", of a git configuration nothing.
func Text(path string) string {
	switch filepath.Base(path) {
	case "commondir":
		return ".\n"
	case ".gitignore":
		return "*\n"
	default:
		return ""
	}
}

// mark is the stub's kind in the journal.
func (s Stub) mark() string {
	switch s.Kind {
	case Blank:
		return "s "
	case File:
		return "f "
	default:
		return "d "
	}
}

// keptOf is the stub of a line of the journal and the pool that it may go to, nil
// where there is none.
func keptOf(mark, path string, pools map[string]*pool) (Stub, *pool) {
	kind := Folder
	switch mark {
	case "f":
		kind = File
	case "s":
		return Stub{}, nil
	}
	// Of a folder in another, the inner one's.
	root := ""
	for dir := range pools {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) && len(dir) > len(root) {
			root = dir
		}
	}
	return Stub{"/", path, kind}, pools[root]
}

// place is a folder in which stubs are made.
type place struct {
	*os.Root
	top *os.File
}

func openPlace(root string) (*place, error) {
	r, err := resolve.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	top, err := r.Open(".")
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &place{Root: r, top: top}, nil
}

func (p *place) close() {
	p.top.Close()
	p.Close()
}

func (s Stub) make(p *place, kept *pool) error {
	dir, name := p.top, s.Rel
	if parent := filepath.Dir(s.Rel); parent != "." {
		f, err := p.Open(parent)
		if err != nil {
			return err
		}
		defer f.Close()
		dir, name = f, filepath.Base(s.Rel)
	}
	fd := int(dir.Fd())
	if s.Kind != Blank {
		if done, err := kept.take(s, fd, name); done || err != nil {
			return err
		}
	}
	switch s.Kind {
	case Blank:
		// A socket that no one listens on.
		if done, err := kept.link(fd, name); done || err != nil {
			return err
		}
		err := rawcall.Mknodat(fd, name, unix.S_IFSOCK|0o444, 0)
		if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// This file system has no sockets, or this user may make nothing here,
		// which the folder tells.
		return rawcall.Mkdirat(fd, name, 0o755)
	case File:
		f, err := p.OpenFile(s.Rel, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(Text(s.Rel))
		return errors.Join(err, f.Close())
	default:
		return rawcall.Mkdirat(fd, name, 0o755)
	}
}

// Make makes stubs. All are written down before the first is made, so that a
// crash at any moment leaves none that the journal lacks. made is given each that
// is there, and lost each that this user can make nothing for: neither can the
// payload.
func (s *Set) Make(list []Stub, made, lost func(Stub)) error {
	if len(list) == 0 {
		return nil
	}
	var missing []Stub
	var text strings.Builder
	seen := map[string]bool{}
	for _, one := range list {
		var chain []Stub
		for dir := one.Rel; dir != "."; dir = filepath.Dir(dir) {
			full := filepath.Join(one.Root, dir)
			if seen[full] {
				break
			}
			if dir != one.Rel || filepath.Dir(dir) != "." { // a name at the top was looked at when it was planned
				if _, err := os.Lstat(full); err == nil {
					break
				}
			}
			seen[full] = true
			k := Folder
			if dir == one.Rel {
				k = one.Kind
			}
			chain = append(chain, Stub{one.Root, dir, k})
		}
		slices.Reverse(chain)
		missing = append(missing, chain...)
	}
	for _, m := range missing {
		// A path may hold a newline, which ends a line here, and no NUL.
		text.WriteString(m.mark() + strings.ReplaceAll(filepath.Join(m.Root, m.Rel), "\n", "\x00") + "\n")
	}
	j, err := os.OpenFile(s.journal, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("protect absent paths: %w", err)
	}
	_, err = j.WriteString(text.String())
	if err := errors.Join(err, j.Close()); err != nil {
		return fmt.Errorf("protect absent paths: %w", err)
	}
	places := map[string]*place{}
	defer func() {
		for _, p := range places {
			p.close()
		}
	}()
	for _, m := range missing {
		r, ok := places[m.Root]
		if !ok {
			if r, err = openPlace(m.Root); err != nil {
				return fmt.Errorf("protect absent paths: %w", err)
			}
			places[m.Root] = r
			s.pools[m.Root] = openPool(s.data, m.Root)
		}
		err := m.make(r, s.pools[m.Root])
		if err == nil {
			s.own = append(s.own, m)
		}
		switch {
		case err == nil || errors.Is(err, fs.ErrExist):
			made(m)
		case errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrNotExist):
			lost(m)
		default:
			return fmt.Errorf("protect %s: %w", filepath.Join(m.Root, m.Rel), err)
		}
	}
	return nil
}

// Own are the stubs below a folder that this session made itself, relative to it.
func (s *Set) Own(root string) map[string]bool {
	if s == nil {
		return nil
	}
	out := make(map[string]bool, len(s.own))
	for _, m := range s.own {
		if m.Root == root {
			out[m.Rel] = true
		}
	}
	return out
}

// Last reports whether no other session of the project lives, whose stubs these are, too.
// From then on a new one waits for Release.
func (s *Set) Last() bool {
	if s == nil || s.lock == nil {
		return false
	}
	if !s.asked {
		s.asked, s.last = true, unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
	}
	return s.last
}

// Left reports whether Release found something else where a stub was, or left one.
func (s *Set) Left() bool { return s != nil && s.left }

// Release removes the stubs if no other session of the project needs them.
func (s *Set) Release() error {
	if s == nil {
		return nil
	}
	if !s.Last() {
		s.left = true
		return s.close() // another session lives: it removes them
	}
	for root, p := range s.pools {
		release, ok := alone(root, s.seen[root])
		defer release()
		if !ok {
			p.close()
			delete(s.pools, root)
		}
	}
	left, err := remove(s.journal, s.pools)
	s.left = left || err != nil
	return errors.Join(err, s.close())
}

// Sweep removes the stubs that crashed sessions left, of projects that no
// living session holds.
func Sweep(locks string) error {
	found, err := filepath.Glob(filepath.Join(locks, "*.lock"))
	if err != nil {
		return fmt.Errorf("sweep stubs: %w", err)
	}
	var errs []error
	for _, path := range found {
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrPermission) {
			continue // another user's, such as root's: it is theirs to sweep
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep stubs: %w", err))
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_, err := remove(strings.TrimSuffix(path, ".lock")+".stubs", nil)
			errs = append(errs, err)
		}
		lock.Close()
	}
	return errors.Join(errs...)
}

// remove takes the stubs of a journal away that are still as they were made,
// deepest first: to those that are kept, where there are such. What someone has
// put there meanwhile stays: left tells that something lies where one was.
func remove(journal string, pools map[string]*pool) (left bool, err error) {
	f, err := os.Open(journal)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("remove stubs: %w", err)
	}
	defer f.Close()
	var paths, excludes []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := strings.ReplaceAll(sc.Text(), "\x00", "\n")
		if exclude, ok := strings.CutPrefix(line, "x "); ok {
			excludes = append(excludes, exclude)
			continue
		}
		paths = append(paths, line)
	}
	// Deepest first, which a path's order reversed is.
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(b[min(2, len(b)):], a[min(2, len(a)):]) })
	var (
		errs   []error
		fd     = -1
		parent string
	)
	shut := func() {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	defer func() { shut() }()
	for _, line := range slices.Compact(paths) {
		kind, path, _ := strings.Cut(line, " ")
		if dir := filepath.Dir(path); fd < 0 || dir != parent {
			shut()
			fd, err = openParent(dir)
			if errors.Is(err, unix.EACCES) {
				again := unshut(dir)
				defer again()
				fd, err = openParent(dir)
			}
			if err != nil {
				fd, left = -1, true
				if err := ignoring(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP); err != nil {
					errs = append(errs, fmt.Errorf("remove stub %s: %w", path, err))
				}
				continue // gone, or somebody's own by now
			}
			parent = dir
		}
		gone, err := away(kind, path, fd, pools)
		if errors.Is(err, unix.EACCES) {
			again := unshut(parent)
			gone, err = away(kind, path, fd, pools)
			again()
		}
		left = left || !gone
		if err != nil {
			errs = append(errs, fmt.Errorf("remove stub %s: %w", path, err))
		}
	}
	for _, exclude := range excludes { // once nothing is left that git could show
		if err := unhide(journal, exclude); err != nil {
			errs = append(errs, fmt.Errorf("remove held names from %s: %w", exclude, err))
		}
	}
	if err := os.Remove(journal); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("remove stubs: %w", err))
	}
	return left, errors.Join(errs...)
}

// away takes one stub away, in its folder. gone tells that nothing is left of it, and that
// nothing was in it.
func away(kind, path string, dir int, pools map[string]*pool) (gone bool, err error) {
	if was, kept := keptOf(kind, path, pools); kept != nil && !(kind == "d" && needed(path)) {
		if done, err := kept.put(was, dir); done || err != nil {
			return done, err
		}
	}
	if kind == "d" && needed(path) {
		return false, nil
	}
	// Of anything but an empty folder this removes nothing.
	flags, name := unix.AT_REMOVEDIR, filepath.Base(path)
	switch kind {
	case "f":
		was := Stub{Rel: path, Kind: File}
		fd, _, ok := was.open(dir, name)
		if !ok {
			return false, nil // gone, or somebody's own by now
		}
		defer unix.Close(fd)
		if !was.says(fd) {
			return false, nil
		}
		flags = 0
	case "s":
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && uint32(st.Mode)&unix.S_IFMT == unix.S_IFSOCK {
			flags = 0
		}
	}
	err = rawcall.Unlinkat(dir, name, flags)
	return err == nil || errors.Is(err, unix.ENOENT), ignoring(err, unix.ENOENT, unix.ENOTEMPTY, unix.ENOTDIR)
}

// needed tells of a stub without which git of the host would take a project's top for a
// repository, since its .git is none any more. It stays until the next session of the
// project finds one.
func needed(path string) bool {
	dir, name := filepath.Split(path)
	if name != gitdir.TopGuard {
		return false
	}
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	git := filepath.Join(dir, ".git")
	if fi, err := os.Lstat(git); err == nil && fi.Mode().IsRegular() {
		return false // git looks nowhere else then
	}
	return !gitdir.Valid(git)
}

// ignoring is err unless it is one of those.
func ignoring(err error, those ...error) error {
	for _, e := range those {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
