// Package resolve is the one place where a path of the host becomes a mount source, a
// program, a folder of PATH, a project or a file of settings.
//
// The promise: it says where a path leads, and whether someone who may not choose that
// could have: a payload, in whose reach a folder on the way lies (host/taint), or a less
// privileged user. A link in such a folder is never followed silently. A program is
// found only where none of them can write.
//
// It gives names, not descriptors: what it found to lie in no one's reach stays what it
// is, and the rest has to be opened without following links ([Open]).
//
// Most readers want [New], [Resolver.Find] and [Resolver.Program].
package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/host/taint"
)

// maxLinks is how many links one path may lead through, as the kernel has it.
const maxLinks = 40

// Resolver resolves the paths of one start. It remembers what it saw of folders that
// no one else may change, so it is not kept for long.
type Resolver struct {
	places *taint.Register
	uid    uint32
	root   uint32 // who owns /, which is as good as root
	seen   map[string]reach
	walked map[string]taint.Info // folders on the way, in folders whose names no other user may change
}

// New makes a resolver that knows the places of a register. uid is who runs this.
func New(places *taint.Register, uid int) *Resolver {
	r := &Resolver{places: places, uid: uint32(uid), seen: map[string]reach{}, walked: map[string]taint.Info{}}
	if fi, err := taint.Look("/"); err == nil {
		r.root = fi.UID
	}
	return r
}

// Places is the register that it knows.
func (r *Resolver) Places() *taint.Register { return r.places }

// reach is who could change what a folder's names lead to.
type reach struct {
	place string // of payloads, in which it lies; empty for none
	other string // the user, in words, who could; empty where no other user could
}

// Found is where a path leads.
type Found struct {
	Path string // as it was asked for, whole and clean
	Real string // without links
	Info taint.Info
	// Place is the payloads' place that Real is or lies in; empty for none.
	Place string
	// Link is the first link on the way that someone else could have made; To is
	// where it leads, and Who made or could have made it.
	Link, To, Who string
}

// IsDir reports whether a folder was found.
func (f Found) IsDir() bool { return f.Info.Kind() == unix.S_IFDIR }

// Chosen refuses a path that leads through a link of someone else's.
func (f Found) Chosen() error {
	if f.Link == "" {
		return nil
	}
	return &Chosen{Path: f.Path, Link: f.Link, To: f.To, Who: f.Who, Real: f.Real}
}

// Chosen says that someone else chose where a path leads.
type Chosen struct{ Path, Link, To, Who, Real string }

func (e *Chosen) Error() string {
	if e.Link == e.Path {
		return fmt.Sprintf("%s is a link to %s, and %s", e.Path, e.Real, e.Who)
	}
	return fmt.Sprintf("%s leads to %s through the link %s, and %s", e.Path, e.Real, e.Link, e.Who)
}

// Hints are the words of what to do.
func (e *Chosen) Hints() []string {
	return []string{"if that is what you mean, type where it leads: " + e.Real,
		"or look at the link and remove it: " + e.Link}
}

// Find follows a whole path, link by link, and says who chose where it leads.
func (r *Resolver) Find(path string) (Found, error) {
	f := Found{Path: filepath.Clean(path)}
	if !filepath.IsAbs(path) {
		return f, fmt.Errorf("resolve %q: not a whole path", path)
	}
	if err := r.plain(&f); !errors.Is(err, errLinks) {
		return r.placed(f, err)
	}
	return r.placed(f, r.walk(&f))
}

// placed says in whose place it lies.
func (r *Resolver) placed(f Found, err error) (Found, error) {
	if err != nil {
		return f, err
	}
	if p, ok := r.places.Is(f.Info.ID); ok {
		f.Place = p.Path
	} else if p, ok := r.places.Named(f.Real); ok {
		f.Place = p.Path
	} else {
		f.Place = r.in(filepath.Dir(f.Real)).place
	}
	return f, nil
}

var errLinks = errors.New("it leads through a link")

// walk is one name after another.
func (r *Resolver) walk(f *Found) error {
	at, links := "/", 0
	rest := split(f.Path)
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		if fi, ok := r.walked[next]; ok {
			at, f.Info = next, fi
			continue
		}
		fi, err := taint.Look(next)
		if err != nil {
			return err
		}
		if fi.Kind() == unix.S_IFDIR && r.in(at) == (reach{}) {
			r.walked[next] = fi
		}
		if fi.Kind() != unix.S_IFLNK {
			if len(rest) > 0 && fi.Kind() != unix.S_IFDIR {
				return &fs.PathError{Op: "lstat", Path: filepath.Join(next, rest[0]), Err: unix.ENOTDIR}
			}
			at, f.Info = next, fi
			continue
		}
		if links++; links > maxLinks {
			return &fs.PathError{Op: "lstat", Path: f.Path, Err: unix.ELOOP}
		}
		if magic(next) {
			return &fs.PathError{Op: "lstat", Path: next, Err: errMagic}
		}
		to, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if f.Link == "" {
			if who := r.who(at, fi); who != "" {
				f.Link, f.To, f.Who = next, to, who
			}
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(split(to), rest...)
	}
	if f.Real = at; at == "/" {
		var err error
		f.Info, err = taint.Look("/")
		return err
	}
	return nil
}

var errMagic = errors.New("it means another file for each process")

// magic tells of links that the kernel resolves anew for whoever asks.
func magic(link string) bool {
	rest, ok := strings.CutPrefix(link, "/proc/")
	return ok && strings.Contains(rest, "/") && rest != "sys"
}

// split is a path's names. Unlike a clean path it keeps "..", which behind a link is
// not what it looks like.
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// who says who could have made a link in a folder, or could lead it elsewhere.
func (r *Resolver) who(dir string, link taint.Info) string {
	h := r.in(dir)
	switch {
	case h.place != "":
		return "a cloister could write " + h.place
	case h.other == "":
		return ""
	}
	if fi, err := taint.Look(dir); err == nil && fi.Mode&unix.S_ISVTX != 0 && r.trusts(fi.UID) && r.trusts(link.UID) {
		return "" // no other user may rename it there
	}
	return h.other
}

func (r *Resolver) trusts(uid uint32) bool { return uid == 0 || uid == r.uid || uid == r.root }

// in says who could change the names in a folder, itself or from above.
func (r *Resolver) in(dir string) reach {
	if h, ok := r.seen[dir]; ok {
		return h
	}
	h := r.look(dir)
	r.seen[dir] = h
	return h
}

func (r *Resolver) look(dir string) reach {
	fi, err := taint.Look(dir)
	if err != nil {
		return reach{other: fmt.Sprintf("%s cannot be looked at (%v)", dir, err)}
	}
	if p, ok := r.places.Is(fi.ID); ok {
		return reach{place: p.Path}
	}
	if p, ok := r.places.Named(dir); ok {
		return reach{place: p.Path}
	}
	if dir != "/" {
		up := r.in(filepath.Dir(dir))
		if up.place != "" {
			return up
		}
		if up.other != "" && !r.sticky(filepath.Dir(dir), fi) {
			return up
		}
	}
	return reach{other: r.other(dir, fi)}
}

// sticky reports whether no one else may rename an entry of a folder that others write.
func (r *Resolver) sticky(dir string, entry taint.Info) bool {
	fi, err := taint.Look(dir)
	return err == nil && fi.Mode&unix.S_ISVTX != 0 && r.trusts(fi.UID) && r.trusts(entry.UID)
}

// other is the other user who may write a file or folder.
func (r *Resolver) other(path string, fi taint.Info) string {
	switch {
	case !r.trusts(fi.UID):
		return fmt.Sprintf("%s belongs to another user (%d)", path, fi.UID)
	case fi.Mode&0o002 != 0:
		return "every user may write " + path
	case fi.Mode&0o020 != 0 && fi.GID != 0 && (fi.GID != r.uid || r.uid == 0):
		// The group of root is root's, and a user's private group (of the same
		// number) is that user's: umask 002 relies on it.
		return fmt.Sprintf("the group %d may write %s", fi.GID, path)
	}
	return ""
}
