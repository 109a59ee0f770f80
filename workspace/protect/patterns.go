package protect

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cloister/workspace/stubs"
)

// Sockets finds those below a folder that is shown, and the folders that are shut, in
// which there may be some.
func Sockets(root, data string) (sockets, closed []string) {
	f := (&search{root: root}).run(data)
	return f.sockets, f.shut
}

// bounds refuses a project that was not searched whole, or that has more protected
// names than a start can hold.
func (t *Tree) bounds(f found) error {
	if n := len(f.names) + len(f.sockets) + len(f.shut) + len(f.gits) + len(f.hide) + len(f.protect); n > maxNames {
		names := slices.Concat(f.names, f.sockets, f.shut, f.gits)
		for _, m := range slices.Concat(f.hide, f.protect) {
			names = append(names, m.rel)
		}
		return t.give(Unprotected{
			Path: filepath.Join(t.root, most(names)), Must: true,
			Why: "the project has " + strconv.Itoa(n) + " names to protect, most of them here, and a start holds " +
				strconv.Itoa(maxNames),
		})
	}
	for _, u := range f.unseen {
		if err := t.give(u); err != nil {
			return err
		}
	}
	return nil
}

// All is what of a project cannot be protected, or was not looked at, as far as one look
// finds it. git is its git folder, relative to root; empty for none in it.
func All(root, git string, hide, protect []string) (found []Unprotected, err error) {
	t := New(&List{}, root, "", true)
	t.found = &found
	looks := []func() error{func() error { return t.Project(hide, protect, nil) }, t.Top}
	if git != "" {
		looks = append(looks, func() error { return t.Repository(git) })
	}
	for _, look := range looks {
		if err := look(); err != nil {
			if _, is := errors.AsType[*Unprotected](err); !is {
				return found, err
			}
		}
	}
	return found, nil
}

// most is the deepest folder in which more than half of some paths lie.
func most(paths []string) string {
	at := ""
	for {
		count := map[string]int{}
		for _, p := range paths {
			if rest, ok := strings.CutPrefix(p, at); ok {
				if name, _, deeper := strings.Cut(rest, "/"); deeper {
					count[name]++
				}
			}
		}
		next := ""
		for name, n := range count {
			if n > len(paths)/2 {
				next = name
			}
		}
		if next == "" {
			return strings.TrimSuffix(at, "/")
		}
		at += next + "/"
	}
}

// give is the error of what is not protected, or a notice where a person said so.
func (t *Tree) give(u Unprotected) error {
	if t.found != nil {
		*t.found = append(*t.found, u)
	}
	if !t.accept || u.Must {
		return &u
	}
	t.list.Notices = append(t.list.Notices, u.Error())
	return nil
}

func quoted(path string) string {
	if q := strconv.Quote(path); q != `"`+path+`"` {
		if len(q) > 400 {
			return q[:200] + "..." + q[len(q)-200:]
		}
		return q
	}
	if len(path) > 400 {
		return path[:200] + "..." + path[len(path)-200:]
	}
	return path
}

// patterns covers what a person's rules name.
func (t *Tree) patterns(l *search, f found) error {
	hides, holds := make([]bool, len(l.hide)), make([]bool, len(l.protect))
	for _, m := range f.hide {
		hides[m.by] = true
		if err := t.hide(m.rel); err != nil {
			return err
		}
	}
	for _, m := range f.protect {
		holds[m.by] = true
		if err := t.Path(m.rel, stubs.Leave); err != nil {
			return err
		}
	}
	for i, p := range l.hide {
		// A name in git's own folder, or in another spelling where letters are folded.
		if rel := p.literal(); rel != "" && !hides[i] {
			if _, err := os.Lstat(filepath.Join(t.root, rel)); err == nil {
				if hides[i] = true; !strings.EqualFold(rel, ".git") {
					if err := t.hide(rel); err != nil {
						return err
					}
				}
			}
		}
	}
	for i, p := range l.protect {
		if rel := p.literal(); rel != "" {
			if err := t.Path(rel, stubs.Folder); err != nil {
				return err
			}
			holds[i] = true
		}
	}
	t.unmatched("hide", l.hide, hides)
	t.unmatched("protect", l.protect, holds)
	return nil
}

// unmatched tells of rules that name nothing.
func (t *Tree) unmatched(list string, patterns Patterns, matched []bool) {
	for i, p := range patterns {
		if !matched[i] && !p.not && p.under == "" {
			t.list.Notices = append(t.list.Notices, "filesystem."+list+": "+strconv.Quote(p.Text)+" matches nothing in "+t.root)
		}
	}
}
