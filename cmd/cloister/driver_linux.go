package main

import (
	"context"
	"errors"
	"slices"

	"cloister/workspace/stubs"

	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/sandbox/native"
)

// drivers are the ways of building an enclosure on this system, the preferred
// first.
func drivers() []sandbox.Driver { return []sandbox.Driver{native.New()} }

// sweep removes what dead sessions left on the host.
func sweep(d xdg.Dirs) func(context.Context, []string) error {
	return func(_ context.Context, live []string) error {
		return errors.Join(
			native.Leftovers(func(id string) bool { return slices.Contains(live, id) }),
			stubs.Sweep(locksDir(d)),
			sweepDoors(d, live),
		)
	}
}
