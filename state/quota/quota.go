// Package quota adds up what workspaces take of the disk, and says it in an error where that
// is more than a person allows.
//
// It measures nothing and removes nothing: its caller tells what each layer takes.
package quota

import (
	"fmt"
	"maps"
	"slices"
)

// Bounds bound what workspaces take of the disk, in bytes: those of one project, and all.
// Zero bounds nothing.
type Bounds struct {
	Project int64
	Whole   int64
}

// Bound is one of them, with the project that it is for ("" for all).
type Bound struct {
	Most    int64
	Project string
}

// Of are the bounds that hold for a project.
func (b Bounds) Of(project string) (out []Bound) {
	for _, one := range []Bound{{b.Project, project}, {b.Whole, ""}} {
		if one.Most > 0 {
			out = append(out, one)
		}
	}
	return out
}

// Full is the error for what would take more of the disk than the person allows.
type Full struct {
	Doing   string
	Bound   Bound
	Takes   int64
	Largest string // the workspace that takes most
	Its     int64
}

// Error says what takes how much.
func (f *Full) Error() string {
	of, key := "all workspaces", "state.quota"
	if f.Bound.Project != "" {
		of, key = "the workspaces of "+f.Bound.Project, "state.project_quota"
	}
	return fmt.Sprintf("%s: %s would take %s of %s (%s), the most by %s, %s", f.Doing, of, mebibytes(f.Takes),
		mebibytes(f.Bound.Most), key, f.Largest, mebibytes(f.Its))
}

// Hints say what to do instead.
func (f *Full) Hints() []string {
	return []string{
		"cloister prune, or cloister discard " + f.Largest + " once what you want of it is applied or exported",
	}
}

// Unmeasured is the error where what a workspace takes cannot be measured.
type Unmeasured struct {
	Name string
	Why  error
}

// Error names the workspace.
func (u *Unmeasured) Error() string {
	return fmt.Sprintf("what the workspace %s takes is bounded by a quota and cannot be measured: %v", u.Name, u.Why)
}

func (u *Unmeasured) Unwrap() error { return u.Why }

// Hints say what to do instead.
func (u *Unmeasured) Hints() []string {
	return []string{"give it up: cloister discard " + u.Name}
}

// Bounded is the error for an archive that brings more than a quota leaves.
type Bounded struct{ Left int64 }

// Error says how much that is.
func (b *Bounded) Error() string {
	return fmt.Sprintf("it brings more than the %s that state.quota and state.project_quota leave",
		mebibytes(max(0, b.Left)))
}

// Hints say what to do instead.
func (b *Bounded) Hints() []string {
	return []string{"cloister prune, or cloister discard a workspace that is no longer needed"}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Holder is a workspace with the layers that it needs.
type Holder struct {
	Project string
	Layers  map[string]bool
}

// Taken is what layers take, and which workspaces need them. One of several holders counts once.
type Taken struct {
	Size map[string]int64
	Of   map[string]Holder // by the names of workspaces
}

// Sum is what all workspaces of a project take, or all ("").
func (t *Taken) Sum(project string) (n int64) {
	all := map[string]bool{}
	for _, h := range t.Of {
		if project == "" || h.Project == project {
			maps.Copy(all, h.Layers)
		}
	}
	for id := range all {
		n += t.Size[id]
	}
	return n
}

// Largest is the workspace that needs most.
func (t *Taken) Largest(project string) (name string, n int64) {
	for _, at := range slices.Sorted(maps.Keys(t.Of)) {
		h := t.Of[at]
		if project != "" && h.Project != project {
			continue
		}
		var its int64
		for id := range h.Layers {
			its += t.Size[id]
		}
		if name == "" || its > n {
			name, n = at, its
		}
	}
	return name, n
}
