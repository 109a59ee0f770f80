// Package protect decides which paths of a project are read-only or hidden inside.
//
// Promise: a protected name is held with every folder and link that leads to it; what
// cannot be held, or was not looked at, is an error that names the path, and never
// passed over.
//
// It plans, and mounts nothing: the drivers do. What is made in a project while a
// session runs is the end list's matter.
//
// Most readers want [New], [Tree.Project] and [Tree.Repository].
package protect

import (
	"cloister/sandbox"
	"cloister/workspace/stubs"
)

// A List is what a view needs to keep the protections.
type List struct {
	Protect []sandbox.Protect
	Files   []sandbox.File // that covers show
	Stubs   []stubs.Stub   // absent names that are held
	Notices []string
}

// ResidueUnprotected is the word that accepts a path that is not protected.
const ResidueUnprotected = "unprotected"

// Unprotected says that a path cannot be protected, or was not looked at.
type Unprotected struct {
	Path string // absolute
	Why  string
	// Must is set where no word accepts it.
	Must bool
}

func (e *Unprotected) Error() string { return "protect " + quoted(e.Path) + ": " + e.Why }

// Hints are the words of what to do.
func (e *Unprotected) Hints() []string {
	out := []string{"an agent may have made it: look at it from outside, and remove it (cloister project clean removes " +
		"what it may)"}
	if !e.Must {
		out = append(out, "or go on without its protection: --accept residue:"+ResidueUnprotected)
	}
	return out
}
