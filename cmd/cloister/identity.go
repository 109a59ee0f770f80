package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"cloister/cmd/cloister/cli"
	"cloister/host/resolve"
	"cloister/host/taint"
	"cloister/internal/shellword"
	"cloister/session/launch"
	"cloister/workspace"
	"cloister/workspace/identity"
)

// same holds a project to what it was at its last use, or has the person's word.
func (a *app) same(f *runFlags, host *resolve.Resolver, p workspace.Project) error {
	err := identity.Check(host.Places(), p)
	other, is := errors.AsType[*identity.Otherwise](err)
	if !is {
		return err
	}
	if !slices.Contains(f.Accepted(), launch.ResidueIdentity) && !a.Confirm(other.Question()) {
		words := slices.Concat([]string{"cloister"}, strings.Fields(f.Verb),
			[]string{"-C", string(p.Dir), "--accept", "residue:" + launch.ResidueIdentity})
		hint := "if that is right: " + shellword.Line(words...)
		if f.Branch != "" {
			hint = "if that is right, add --accept residue:" + launch.ResidueIdentity
		}
		if other.Gone || other.Was.Path == other.Root {
			return cli.Hinted(other, hint, "else look at "+other.Was.Path+" first: a cloister could write there")
		}
		return cli.Hinted(other, hint, "or start in the project: -C "+cmp.Or(other.Now, other.Was.Path))
	}
	if other.Gone {
		if err := host.Places().Forget(other.Was.Path); err != nil {
			return err
		}
	}
	// Now, and not when the session begins: start asks here, and has another process
	// begin it.
	return host.Places().Enter(taint.Place{Kind: taint.Project, Path: string(p.Root), Pin: workspace.PinOf(p)})
}
