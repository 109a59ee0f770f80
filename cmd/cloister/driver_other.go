//go:build !linux

package main

import (
	"context"

	"cloister/internal/xdg"
	"cloister/session/doctor"
)

// drivers are the ways of building an enclosure on this system: none yet.
func (*app) drivers() []doctor.Level { return nil }

func (*app) sweep(xdg.Dirs) func(context.Context, []string) error { return nil }

func (*app) automatic() (string, error) { return "auto", nil }
