// Package chosen finds the image that a cloister's system is: in the store, at a driver that
// has images of its own, or at a registry.
//
// The promise: a name that the store has means the store's image for every driver, an image
// that no one named is never fetched, and what is chosen cannot be removed while its hold is
// open.
//
// It unpacks nothing itself: sandbox/image does. Most readers want [For].
package chosen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"cloister/internal/hint"
	"cloister/sandbox"
	"cloister/sandbox/image"
)

// Base is what runs where an image is needed and none is named.
const Base = "cloister-base"

// Keeper is a driver that has images of its own, and is given those of the store.
type Keeper interface {
	Find(ctx context.Context, name string) (sandbox.Root, []string, error)
	Give(ctx context.Context, r sandbox.Root, say func(string)) error
}

// noImage is the error of a driver that has no image of a name.
type noImage interface {
	error
	NoImage()
}

// Image is a system: the zero value is the host's own.
type Image struct {
	Name string // as it was asked for, or [Base]
	Root sandbox.Root
	Path []string // the PATH that it asks for
	Hold *os.File // keeps it in the store until it is closed; nil for one that a driver has
}

// For is the image of a name for a driver, fetched where it is nowhere yet: the zero value
// where no name is given and the driver needs none. An image that a driver could not be given
// comes with the error, since its hold is open.
func For(ctx context.Context, s *image.Store, d sandbox.Driver, name string, say func(string)) (Image, error) {
	k, ok := d.(Keeper)
	if !ok {
		return stored(ctx, s, name, say)
	}
	base := name == ""
	if base {
		name = Base
	}
	// What a name means here it means for every driver; the engine's own images come after.
	if _, unknown := s.Find(name); unknown != nil && !image.IsLocal(name) {
		root, path, err := k.Find(ctx, name)
		if _, missing := errors.AsType[noImage](err); err == nil || !missing {
			return Image{Name: name, Root: root, Path: path}, err
		}
		if base {
			// No one named it, so no one asked for it to be fetched.
			return Image{}, hint.With(fmt.Errorf("there is no base image: %w", unknown),
				"make it: cloister image build, or cloister image build --from-host", "or name another: --image IMAGE")
		}
	}
	i, err := stored(ctx, s, name, say)
	if err != nil {
		return i, err
	}
	return i, k.Give(ctx, i.Root, say)
}

// stored is an image of the store, fetched where it is not there.
func stored(ctx context.Context, s *image.Store, name string, say func(string)) (Image, error) {
	if name == "" {
		return Image{}, nil
	}
	i, err := s.Get(ctx, name, say)
	if err != nil {
		return Image{}, err
	}
	hold, err := s.Hold(i)
	if err != nil {
		return Image{}, err
	}
	root, err := filepath.EvalSymlinks(s.Root(i))
	if err != nil {
		return Image{}, errors.Join(fmt.Errorf("image %s: %w", name, err), hold.Close())
	}
	return Image{name, sandbox.Root{Dir: sandbox.HostPath(root), ID: i.ID}, i.Path, hold}, nil
}
