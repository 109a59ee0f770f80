//go:build !linux

package images

import (
	"context"
	"errors"

	"cloister/cmd/cloister/cli"
	"cloister/sandbox/image"
)

// engineBuild needs the gate's namespaces, which are Linux's.
func (door) engineBuild(context.Context, *buildFlags) error {
	return cli.Hinted(errors.New("image build: only Linux can build in containers"),
		"cloister image pull fetches an image")
}

// ForgetAll has nothing to forget.
func ForgetAll(context.Context, *cli.App) error { return nil }

// forget has nothing to forget.
func (door) forget(context.Context, image.Image) error { return nil }
