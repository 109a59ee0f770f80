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
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
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
