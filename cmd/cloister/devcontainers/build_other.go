//go:build !linux

package devcontainers

import (
	"context"
	"errors"

	"cloister/cmd/cloister/cli"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/sandbox/image"
	"cloister/session/beside"
	"cloister/session/launch"
)

// planServices needs the gate's namespaces, which are Linux's.
func (*Commands) planServices(
	context.Context, *launch.Order, lookedAt, image.Image, xdg.Dirs, sandbox.Driver,
) (*beside.Plan, error) {
	return nil, cli.Hinted(errors.New("only Linux can start services"), "the agent alone: --image IMAGE")
}

// hiddenOf is asked for what is built and started.
func (*Commands) hiddenOf(lookedAt) (func(rel string, dir bool) bool, error) {
	return nil, cli.Hinted(errors.New("only Linux can start services"), "name an image: --image IMAGE")
}

// buildImage needs the gate's namespaces, which are Linux's.
func (*Commands) buildImage(context.Context, lookedAt, *image.Store, string) (image.Image, error) {
	return image.Image{}, cli.Hinted(errors.New("only Linux can build in containers"), "name an image: --image IMAGE")
}
