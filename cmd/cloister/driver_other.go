//go:build !linux

package main

import (
	"context"

	"cloister/internal/xdg"
	"cloister/sandbox"
)

// drivers are the ways of building an enclosure on this system: none yet.
func drivers() []sandbox.Driver { return nil }

func sweep(xdg.Dirs) func(context.Context, []string) error { return nil }
