package stubs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/host/resolve"
	"cloister/internal/rawcall"

	"golang.org/x/sys/unix"
)

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
	// File is a small file that changes nothing for its readers (Text).
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
