package taint

import (
	"path/filepath"

	"cloister/internal/realpath"
)

// Pin is what a project was at its first use, besides its folder.
type Pin struct {
	Main string // the main working tree, the same as Path in that one
	Git  string // its own git folder; empty where there was no repository
}

// Pinned gives what a project was at its last accepted use.
func (r *Register) Pinned(root string) (Place, bool) {
	i, ok := r.pins[root]
	if !ok {
		return Place{}, false
	}
	return r.all[i], true
}

// Pins gives every pinned project around a path without links, the nearest first.
func (r *Register) Pins(path string) []Place {
	var out []Place
	if len(r.pins) == 0 {
		return nil
	}
	for at := path; ; at = filepath.Dir(at) {
		if i, ok := r.pins[at]; ok {
			out = append(out, r.all[i])
		}
		if at == filepath.Dir(at) {
			return out
		}
	}
}

// Moved gives the pinned project that an inode was, under a name that it has no more.
func (r *Register) Moved(id ID, path string) (Place, bool) {
	for _, i := range r.inodes[id.Ino] {
		p := r.all[i]
		if at, pinned := r.pins[p.Path]; pinned && at == i && p.ID.Same(id) && p.Path != path &&
			!realpath.Inside(path, p.Path) {
			return p, true
		}
	}
	return Place{}, false
}
