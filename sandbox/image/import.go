package image

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Import unpacks an archive that someone gives, under a name.
func (s *Store) Import(ctx context.Context, archived io.Reader, named, from string, say func(string)) (Image, error) {
	ref, err := name.ParseReference(named)
	if err != nil || strings.Contains(named, "@") {
		return Image{}, &Malformed{named}
	}
	return s.adding(ctx, "image "+named, func(tmp string) (Image, error) {
		return s.importTo(ctx, tmp, archived, func(i *Image) {
			i.Names, i.Source, i.Seen = []string{canonical(ref)}, from, nil
		}, say)
	})
}

func (s *Store) importTo(ctx context.Context, tmp string, archived io.Reader, change func(*Image),
	say func(string)) (Image, error) {
	file := filepath.Join(tmp, "archive.tar")
	w, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return Image{}, err
	}
	_, err = io.Copy(w, archived)
	if err := errors.Join(err, w.Close()); err != nil {
		return Image{}, err
	}
	src, err := parse(file)
	if err != nil {
		return Image{}, err
	}
	return s.unpackAs(ctx, tmp, &src, change, say)
}

// unpackTo fetches, unpacks below tmp, and enters the result.
func (s *Store) unpackTo(ctx context.Context, tmp string, src *source, say func(string)) (Image, error) {
	return s.unpackAs(ctx, tmp, src, func(*Image) {}, say)
}

func (s *Store) unpackAs(ctx context.Context, tmp string, src *source, change func(*Image),
	say func(string)) (Image, error) {
	p, err := src.open(ctx, s.host, s.logins, tmp, say)
	if err != nil {
		return Image{}, err
	}
	i := p.about()
	change(&i)
	images, err := s.List()
	if err != nil {
		return Image{}, err
	}
	at := slices.IndexFunc(images, func(o Image) bool { return o.ID == i.ID })
	if at >= 0 {
		i = merge(images[at], i)
	} else {
		say("unpacking " + i.Source)
		u, err := p.unpack(ctx, filepath.Join(tmp, "root"))
		if err != nil {
			return Image{}, err
		}
		i.Size, i.Files, i.LeftOut = u.bytes, u.entries, u.leftOut
		if err := s.place(filepath.Join(tmp, "root"), i); err != nil {
			return Image{}, err
		}
	}
	return i, s.enter(images, i)
}

// place moves a whole root to where it is found.
func (s *Store) place(root string, i Image) error {
	if err := settle(root); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "roots"), 0o700); err != nil {
		return err
	}
	if err := os.RemoveAll(s.Root(i)); err != nil { // what a crash left before it was entered
		return err
	}
	return os.Rename(root, s.Root(i))
}
