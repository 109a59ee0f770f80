package review

import (
	"path/filepath"
	"slices"
	"strings"
)

// In is the store below an instance's folder of state.
func In(state string) Store { return Store{Dir: filepath.Join(state, "reviews")} }

// changedBy reports whether a name is one of a cloister that changed something.
func (p *Project) changedBy(name string) bool {
	return slices.ContainsFunc(p.Entries, func(e Entry) bool { return e.By == name })
}

// Means reports whether a name that was typed stands for a change: that of the cloister that
// made it, of the project itself, or none at all.
func (p *Project) Means(e Entry, name string) bool {
	return name == "" || e.By == name || !p.changedBy(name)
}

// Select are the projects that a name stands for: one of a cloister that changed something,
// a project's, or a folder, whole. Without a name it is the project here.
func Select(all []*Project, name, here, whole string) []*Project {
	return slices.DeleteFunc(all, func(p *Project) bool {
		if name == "" {
			return p.Root != here && p.Main != here
		}
		return p.Root != whole && filepath.Base(p.Root) != name && !p.changedBy(name)
	})
}

// Below are the waiting paths that one path stands for: itself and what lies below it, and .
// for all.
func (p *Project) Below(name, path string) []string {
	clean := filepath.Clean(path)
	var of []string
	for _, e := range p.Entries {
		if e.State == Waiting && p.Means(e, name) && (clean == "." || e.Path == path || e.Path == clean ||
			strings.HasPrefix(e.Path, clean+"/")) {
			of = append(of, e.Path)
		}
	}
	return of
}

// Fitting is how many of the paths one request holds, of at most most paths and size bytes: at
// least one.
func Fitting(paths []string, most, size int) int {
	n, sum := 0, 0
	for n < len(paths) && n < most && (n == 0 || sum+len(paths[n]) <= size) {
		sum += len(paths[n])
		n++
	}
	return n
}
