package workspace

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

	"cloister/internal/quick"
	"cloister/sandbox"
)

// openStubs joins the other sessions of this project: stubs are removed by the
// last one. A journal tells the next session what a crash left.
func (v *View) openStubs(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("lock project: %w", err)
	}
	name := filepath.Base(homeOf("", v.project.Main))
	v.journal = filepath.Join(dir, name+".stubs")
	lock, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock project: %w", err)
	}
	v.lock = lock
	// Alone: what is in the journal was left by a crash.
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		if err := removeStubs(v.journal, &pool{}); err != nil {
			return err
		}
	}
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_SH); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("lock project: %w", err)
	}
	return nil
}

// kind says by what an absent path is held, so that git shows it neither outside
// nor inside, and programs that look there read "nothing" instead of failing.
type kind byte

const (
	leave kind = iota
	// asFolder is an empty folder, for names that are folders.
	asFolder
	// asBlank is a socket outside and an empty file inside, for names of files:
	// yarn, opencode and others fail on a folder there. git passes over sockets,
	// by what the folder's entry says, and whoever opens one gets an error at
	// once.
	asBlank
	// asFile is a small file that changes nothing for who reads it (stubText),
	// for what git itself obeys.
	asFile
	// asIgnoring is a folder with a .gitignore for all of it: opencode makes one
	// where there is none, also in a folder that exists, and fails if it cannot.
	asIgnoring
)

// stub is an absent path that is made for the time of a session.
type stub struct {
	root, rel string
	kind      kind
}

// stubText is what a stub that is a file says: of a commondir "here", of a
// .gitignore "all of this folder, me too", of a git configuration nothing.
func stubText(path string) string {
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
func (s stub) mark() string {
	switch s.kind {
	case asBlank:
		return "s "
	case asFile:
		return "f "
	default:
		return "d "
	}
}

// marked is the stub of a line of the journal, if it is of a kind that is kept.
func marked(mark, path string) (stub, bool) {
	switch mark {
	case "f":
		return stub{"/", path, asFile}, true
	case "d":
		return stub{"/", path, asFolder}, true
	}
	return stub{}, false
}

// place is a folder in which stubs are made.
type place struct {
	*os.Root
	top *os.File
}

func openPlace(root string) (*place, error) {
	r, err := os.OpenRoot(root)
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

func (s stub) make(p *place, kept *pool) error {
	dir, name := p.top, s.rel
	if parent := filepath.Dir(s.rel); parent != "." {
		f, err := p.Open(parent)
		if err != nil {
			return err
		}
		defer f.Close()
		dir, name = f, filepath.Base(s.rel)
	}
	fd := int(dir.Fd())
	if s.kind != asBlank {
		if done, err := kept.take(s, fd, name); done || err != nil {
			return err
		}
	}
	switch s.kind {
	case asBlank:
		// A socket that nobody listens on.
		if done, err := kept.link(fd, name); done || err != nil {
			return err
		}
		err := quick.Mknodat(fd, name, unix.S_IFSOCK|0o444, 0)
		if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// This file system has no sockets, or this user may make nothing here,
		// which the folder tells.
		return quick.Mkdirat(fd, name, 0o755)
	case asFile:
		f, err := p.OpenFile(s.rel, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(stubText(s.rel))
		return errors.Join(err, f.Close())
	default:
		return quick.Mkdirat(fd, name, 0o755)
	}
}

// makeStubs makes the planned stubs. All are written down before the first is
// made, so that a crash at any moment leaves none that the journal lacks.
func (v *View) makeStubs() error {
	if len(v.stubs) == 0 {
		return nil
	}
	var missing []stub
	var text strings.Builder
	seen := map[string]bool{}
	for _, s := range v.stubs {
		var chain []stub
		for dir := s.rel; dir != "."; dir = filepath.Dir(dir) {
			full := filepath.Join(s.root, dir)
			if seen[full] {
				break
			}
			if dir != s.rel || filepath.Dir(dir) != "." { // a name at the top was looked at when it was planned
				if _, err := os.Lstat(full); err == nil {
					break
				}
			}
			seen[full] = true
			k := asFolder
			if dir == s.rel {
				k = s.kind
			}
			chain = append(chain, stub{s.root, dir, k})
		}
		slices.Reverse(chain)
		missing = append(missing, chain...)
	}
	for _, m := range missing {
		full := filepath.Join(m.root, m.rel)
		if strings.ContainsRune(full, '\n') {
			return fmt.Errorf("protect %q: a path with a newline", full)
		}
		text.WriteString(m.mark() + full + "\n")
	}
	j, err := os.OpenFile(v.journal, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("protect absent paths: %w", err)
	}
	_, err = j.WriteString(text.String())
	if err := errors.Join(err, j.Close()); err != nil {
		return fmt.Errorf("protect absent paths: %w", err)
	}
	v.kept = openPool(v.data)
	places := map[string]*place{}
	defer func() {
		for _, p := range places {
			p.close()
		}
	}()
	for _, m := range missing {
		r, ok := places[m.root]
		if !ok {
			if r, err = openPlace(m.root); err != nil {
				return fmt.Errorf("protect absent paths: %w", err)
			}
			places[m.root] = r
		}
		err := m.make(r, v.kept)
		switch {
		case err == nil || errors.Is(err, fs.ErrExist):
			if m.kind == asBlank {
				v.coverAsFound(filepath.Join(m.root, m.rel))
			}
		case errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrNotExist):
			// Where this user can make nothing, the payload cannot either.
			full := filepath.Join(m.root, m.rel)
			v.Protect = slices.DeleteFunc(v.Protect, func(p sandbox.Protect) bool { return inside(string(p.Target), full) })
		default:
			return fmt.Errorf("protect %s: %w", filepath.Join(m.root, m.rel), err)
		}
	}
	return nil
}

// coverAsFound makes the cover of a stub a folder where it became one.
func (v *View) coverAsFound(full string) {
	fi, err := os.Lstat(full)
	for i := range v.Protect {
		if p := &v.Protect[i]; err == nil && fi.IsDir() && string(p.Target) == full {
			p.File = false
		}
	}
}

// Release removes the stubs if no other session of the project needs them.
func (v *View) Release() error {
	if v == nil || v.lock == nil {
		return nil
	}
	defer v.lock.Close()
	if v.kept == nil {
		v.kept = &pool{}
	}
	defer v.kept.close()
	if err := unix.Flock(int(v.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil //nolint:nilerr // another session lives: it removes them
	}
	return removeStubs(v.journal, v.kept)
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
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep stubs: %w", err))
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			errs = append(errs, removeStubs(strings.TrimSuffix(path, ".lock")+".stubs", &pool{}))
		}
		lock.Close()
	}
	return errors.Join(errs...)
}

// removeStubs takes the stubs of a journal away that are still as they were made,
// deepest first: to those that are kept, where there is room. What somebody has
// put there meanwhile stays.
func removeStubs(journal string, kept *pool) error {
	f, err := os.Open(journal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove stubs: %w", err)
	}
	defer f.Close()
	var paths []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		paths = append(paths, sc.Text())
	}
	// Deepest first, which a path's order reversed is.
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(b[min(2, len(b)):], a[min(2, len(a)):]) })
	var errs []error
	for _, line := range slices.Compact(paths) {
		kind, p, _ := strings.Cut(line, " ")
		if was, ok := marked(kind, p); ok {
			done, err := kept.put(was)
			if err != nil {
				errs = append(errs, fmt.Errorf("remove stub: %w", err))
			}
			if done || err != nil {
				continue
			}
		}
		flags := unix.AT_REMOVEDIR
		if kind == "d" {
			// Of anything but an empty folder this removes nothing.
			if err := ignoring(quick.Unlinkat(unix.AT_FDCWD, p, flags), unix.ENOENT, unix.ENOTEMPTY, unix.ENOTDIR); err != nil {
				errs = append(errs, fmt.Errorf("remove stub %s: %w", p, err))
			}
			continue
		}
		switch fi, err := os.Lstat(p); {
		case err != nil:
			continue // gone
		case kind == "f":
			// Regular first: a pipe would be waited for.
			if !fi.Mode().IsRegular() {
				continue
			}
			if text, err := os.ReadFile(p); err != nil || string(text) != stubText(p) {
				continue // somebody's own by now
			}
			flags = 0
		case kind == "s" && fi.Mode().Type() == fs.ModeSocket:
			flags = 0
		}
		if err := ignoring(quick.Unlinkat(unix.AT_FDCWD, p, flags), unix.ENOENT, unix.ENOTEMPTY, unix.ENOTDIR); err != nil {
			errs = append(errs, fmt.Errorf("remove stub %s: %w", p, err))
		}
	}
	if err := os.Remove(journal); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("remove stubs: %w", err))
	}
	return errors.Join(errs...)
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
