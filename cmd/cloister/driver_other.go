//go:build !linux

package main

import (
	"context"

	"cloister/internal/xdg"
)

// drivers are the ways of building an enclosure on this system: none yet.
func (*app) drivers() []choice { return nil }

func (*app) sweep(xdg.Dirs) func(context.Context, []string) error { return nil }

func (*app) automatic() string { return "auto" }
