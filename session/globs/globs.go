// Package globs finds what the patterns of a policy's statements name on this host.
//
// The promise: of each pattern everything that it names when a session starts is in the list, or
// there is an error that says which pattern and why; no link is followed, and nothing is read but
// the names of folders. The pattern itself stays in the list beside it, for what appears later.
//
// It covers nothing: the view, the recorder and the kernel's judge do. Most readers want [Expand].
package globs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"cloister/host/resolve"
	"cloister/internal/hint"
	"cloister/internal/pathglob"
	"cloister/internal/realpath"
	"cloister/policy"
)

// MaxLooked bounds the names that are looked at for all patterns of a session together.
const MaxLooked = 1_000_000

// Places are where patterns may look for files.
type Places struct {
	Project string   // empty where a session has none
	Shown   []string // folders that a person shows by name
	System  bool     // the host's own system folders are shown, too
	Found   Found    // what was found before is taken from here, and kept here; nil keeps nothing
}

// Found is what patterns were found to name, by their text.
type Found map[string][]found

// Expand adds to statements what their patterns name. Those for which skip says so stay as they are.
func Expand(list []policy.Statement, at Places, skip func(*policy.Statement) bool) ([]policy.Statement, error) {
	list = slices.Clone(list)
	w := &walk{at: at, room: MaxLooked}
	for i := range list {
		st := &list[i]
		if skip(st) {
			continue
		}
		var closed []policy.ClosedPath
		for _, c := range st.Closed {
			if !c.Glob {
				closed = append(closed, c)
				continue
			}
			c.In = at.Project
			found, err := w.find(c.Path)
			if err != nil {
				return nil, w.refused(st, c.Path, err)
			}
			for _, f := range found {
				one := c
				one.Path, one.Dir, one.Glob, one.In = f.path, f.dir, false, ""
				closed = append(closed, one)
			}
			closed = append(closed, c)
		}
		var permitted []policy.PermittedPath
		for _, p := range st.Permitted {
			if !p.Glob {
				permitted = append(permitted, p)
				continue
			}
			p.In = at.Project
			found, err := w.find(p.Path)
			if err != nil {
				return nil, w.refused(st, p.Path, err)
			}
			for _, f := range found {
				one := p
				one.Path, one.Dir, one.Glob, one.In = f.path, f.dir, false, ""
				permitted = append(permitted, one)
			}
			permitted = append(permitted, p)
		}
		st.Closed, st.Permitted = closed, permitted
	}
	return list, nil
}

func (w *walk) refused(st *policy.Statement, pattern string, err error) error {
	return hint.Usage("change the policy, or go on without it: --accept residue:"+st.Residue(),
		"%s: Glob::%q: %v", st.Origin, pattern, err)
}

type found struct {
	path string
	dir  bool
}

type walk struct {
	at   Places
	room int
}

// system are folders in which no cloister on the host's own system writes.
func system() []string { return []string{"/usr", "/etc", "/opt"} }

// find is what a pattern names now, or named when it was searched for.
func (w *walk) find(text string) ([]found, error) {
	if list, ok := w.at.Found[text]; ok {
		return list, nil
	}
	list, err := w.search(text)
	if err == nil && w.at.Found != nil {
		w.at.Found[text] = list
	}
	return list, err
}

func (w *walk) search(text string) ([]found, error) {
	p, err := pathglob.Parse(text)
	if err != nil {
		return nil, err
	}
	if !p.Whole() {
		if w.at.Project == "" {
			return nil, nil // it has no project
		}
		p = p.In(w.at.Project)
	}
	top := p.Folder()
	places := slices.Clone(w.at.Shown)
	if w.at.Project != "" {
		places = append(places, w.at.Project)
	}
	if w.at.System {
		places = append(places, system()...)
	}
	if !slices.ContainsFunc(places, func(dir string) bool { return realpath.Inside(top, dir) }) {
		return nil, errors.New("a pattern is for files of the project, of folders that are shown by name, " +
			"and of /usr, /etc and /opt")
	}
	if real, err := realpath.Of(top); err == nil && real != top {
		return nil, fmt.Errorf("%s leads to %s: name that", top, real)
	}
	var out []found
	err = w.walk(top, p, &out)
	return out, err
}

// walk looks below a folder. Of a folder that the pattern names nothing more is looked at.
func (w *walk) walk(dir string, p pathglob.Pattern, out *[]found) error {
	entries, err := resolve.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil // gone, or nothing is there yet
	case errors.Is(err, fs.ErrPermission) && !own(dir):
		return nil // who runs inside cannot look there either
	case err != nil:
		return fmt.Errorf("look for files: %w", err)
	}
	for _, e := range entries {
		if w.room--; w.room < 0 {
			return fmt.Errorf("more than %d names were looked at, the last in %s: begin the pattern with a folder "+
				"that has less in it", MaxLooked, dir)
		}
		at := filepath.Join(dir, e.Name())
		if p.Names(at) {
			*out = append(*out, found{at, e.IsDir()})
			continue
		}
		if e.IsDir() {
			if err := w.walk(at, p, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// own reports whether a folder is this user's, who can open it to himself.
func own(dir string) bool {
	fi, err := os.Lstat(dir)
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
