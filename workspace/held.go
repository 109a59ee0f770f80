package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/realpath"
	"cloister/sandbox"
	"cloister/workspace/gitdir"
	"cloister/workspace/stubs"
)

// Held reports whether a path, whole or relative to the project's top, was protected: it
// or a folder above it was read-only, or it was pinned in its place.
func (v *View) Held(rel string) bool {
	full := rel
	if !filepath.IsAbs(rel) {
		full = filepath.Join(string(v.project.Root), rel)
	}
	for _, p := range v.Protect {
		if string(p.Target) == full || !p.Pin && realpath.Inside(full, string(p.Target)) {
			return true
		}
	}
	return false
}

// makeStubs makes the planned stubs, and adapts the covers to what came of them.
func (v *View) makeStubs() error {
	if err := v.quiet(); err != nil {
		return fmt.Errorf("protect absent paths: %w", err)
	}
	covers, lost := covers{list: &v.Protect}, map[string]bool{}
	path := func(s stubs.Stub) string { return filepath.Join(s.Root, s.Rel) }
	err := v.held.Make(v.Stubs, func(s stubs.Stub) {
		if fi, err := os.Lstat(path(s)); s.Kind == stubs.Blank && err == nil && fi.IsDir() {
			for _, i := range covers.of(path(s)) {
				v.Protect[i].File = false // it became a folder
			}
		}
	}, func(s stubs.Stub) { lost[path(s)] = true })
	if len(lost) > 0 {
		v.Protect = slices.DeleteFunc(v.Protect, func(p sandbox.Protect) bool { return lies(string(p.Target), lost) })
	}
	return err
}

// lies reports whether a path, or a folder above it, is among some.
func lies(path string, among map[string]bool) bool {
	for dir := path; ; dir = filepath.Dir(dir) {
		if among[dir] {
			return true
		}
		if dir == "/" || dir == "." {
			return false
		}
	}
}

// Own are the stubs at the project's names that this session made itself, relative to its
// top: empty, and held so inside.
func (v *View) Own() map[string]bool { return v.held.Own(string(v.project.Root)) }

// Last reports whether Release takes the stubs away: no other session of the project lives.
func (v *View) Last() bool { return v.held.Last() }

// Left reports whether Release found something else where a stub was, or left one.
func (v *View) Left() bool { return v.held.Left() }

// Release removes the stubs if no other session of the project needs them.
func (v *View) Release() error {
	if v == nil {
		return nil
	}
	v.Mend()
	return errors.Join(v.held.Release(), v.programs.Release())
}

// Mend makes the project's git folder one again, where a payload took a part of it away:
// git of the host would look for a repository around it. It tells the paths of what it
// changed, and of what it could not mend, relative to the project's top where they lie
// in it.
func (v *View) Mend() []string {
	g := v.project.Git
	if v.head == "" || g == nil || gitdir.Valid(g.Dir) || g.Dir != g.Common {
		return nil
	}
	var out []string
	for _, name := range gitdir.Mend(g.Dir, v.head) {
		out = append(out, v.listed(filepath.Join(g.Dir, name)))
	}
	if !gitdir.Valid(g.Dir) {
		out = append(out, v.listed(g.Dir))
	}
	return out
}

// listed is a path of the host as the end list names it.
func (v *View) listed(path string) string {
	if rel, ok := strings.CutPrefix(path, string(v.project.Root)+"/"); ok {
		return rel
	}
	return path
}
