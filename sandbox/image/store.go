package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/host/resolve"
	"cloister/host/taint"
	"cloister/internal/durable"
	"cloister/internal/ownfile"

	"golang.org/x/sys/unix"
)

// Store is a folder of unpacked images:
//
//	index.json      what there is, by ID
//	roots/HEX       a root file system, by the hexadecimal digits of its ID
//	roots/HEX.lock  held shared by its users, alone by its remover
//	lock            held by whoever changes the index
//	tmp-*           one that is being unpacked, or that a crash left
type Store struct {
	dir    string
	host   resolve.Now
	logins logins
}

// Open gives the store in a folder, which is made when the first image comes.
// Who could have led the path of an archive elsewhere, as far as others' folders tell, says
// By.
func Open(dir string) *Store {
	none := func() (*resolve.Resolver, error) { return resolve.New(&taint.Register{}, os.Geteuid()), nil }
	return &Store{dir: dir, host: none}
}

// By has a store take archives and layouts by paths that no payload of host's register, and
// no other user, led elsewhere.
func (s *Store) By(host resolve.Now) *Store {
	s.host = host
	return s
}

// LoggedIn has a store send registries the logins of files in the format of docker's
// config.json, each to the registry that it is for. The programs that such a file names are
// not run: they are found by PATH, and would answer for whatever name a repository has here.
func (s *Store) LoggedIn(files ...string) *Store {
	s.logins = files
	return s
}

type index struct {
	Version int     `json:"version"`
	Images  []Image `json:"images"`
}

// Root is the folder of an image's root file system.
func (s *Store) Root(i Image) string {
	return filepath.Join(s.dir, "roots", strings.TrimPrefix(i.ID, "sha256:"))
}

// List gives the images, the newest first.
func (s *Store) List() ([]Image, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "index.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read images: %w", err)
	}
	var x index
	if err := json.Unmarshal(text, &x); err != nil {
		return nil, fmt.Errorf("read images: %s: %w", filepath.Join(s.dir, "index.json"), err)
	}
	if x.Version != 1 {
		return nil, fmt.Errorf("read images: %s is of version %d, this cloister reads 1", filepath.Join(s.dir, "index.json"),
			x.Version)
	}
	for _, i := range x.Images {
		if hex, ok := strings.CutPrefix(i.ID, "sha256:"); !ok || len(hex) != 64 || !isHex(hex) {
			return nil, fmt.Errorf("read images: %q is no ID", i.ID)
		}
	}
	slices.SortStableFunc(x.Images, func(a, b Image) int { return b.Stored.Compare(a.Stored) })
	return x.Images, nil
}

func (s *Store) save(images []Image) error {
	text, err := json.MarshalIndent(index{Version: 1, Images: images}, "", " ")
	if err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	return durable.WriteFile(filepath.Join(s.dir, "index.json"), append(text, '\n'), 0o600)
}

// Find gives the stored image of a reference, or ErrNotStored.
func (s *Store) Find(text string) (Image, error) {
	src, err := parse(text)
	if err != nil {
		return Image{}, err
	}
	return s.find(&src)
}

func (s *Store) find(src *source) (Image, error) {
	images, err := s.List()
	if err != nil {
		return Image{}, err
	}
	match := func(Image) bool { return false }
	switch src.kind {
	case stored:
		match = func(i Image) bool {
			return strings.HasPrefix(strings.TrimPrefix(i.ID, "sha256:"), src.id) ||
				len(src.id) == 64 && i.Digest == "sha256:"+src.id
		}
	case registry:
		full := canonical(src.ref)
		digest := ""
		if _, d, ok := strings.Cut(full, "@"); ok {
			digest = d
		}
		match = func(i Image) bool { return slices.Contains(i.Names, full) || digest != "" && i.Digest == digest }
	case archive, layoutDir:
		seen, err := src.look(s.host)
		if err != nil {
			return Image{}, err
		}
		match = func(i Image) bool {
			return slices.ContainsFunc(i.Seen, func(o Seen) bool {
				return o.Path == seen.Path && o.Want == seen.Want && o.Size == seen.Size && o.Mtime.Equal(seen.Mtime)
			})
		}
	}
	var found []Image
	for _, i := range images {
		if match(i) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return Image{}, fmt.Errorf("image %s: %w", src.text, ErrNotStored)
	case 1:
		return found[0], nil
	}
	return Image{}, fmt.Errorf("image %s: %d images begin so: write more of the ID", src.text, len(found))
}

// look finds the local file of a source and what reports whether it has changed:
// for a layout, its index.
func (s *source) look(host resolve.Now) (Seen, error) {
	s.within(func(p string) bool { _, err := os.Stat(p); return err == nil })
	full, err := filepath.Abs(s.path)
	if err != nil {
		return Seen{}, err
	}
	r, err := host()
	if err != nil {
		return Seen{}, err
	}
	found, err := r.Find(full)
	if err == nil {
		err = found.Chosen()
	}
	if err != nil {
		return Seen{}, err
	}
	full = found.Real
	fi, err := os.Stat(full)
	if err == nil && fi.IsDir() {
		s.kind = layoutDir
		if fi, err = os.Stat(filepath.Join(full, "index.json")); errors.Is(err, fs.ErrNotExist) {
			return Seen{}, errors.New("the folder is no OCI layout: it has no index.json")
		}
	}
	if err != nil {
		return Seen{}, err
	}
	if !fi.Mode().IsRegular() {
		return Seen{}, errors.New("neither an archive nor an OCI layout")
	}
	s.path = full
	return Seen{Path: full, Want: s.want, Size: fi.Size(), Mtime: fi.ModTime().UTC()}, nil
}

// Get gives the stored image of a reference. One that is not there is fetched
// and unpacked; say receives what takes long.
func (s *Store) Get(ctx context.Context, text string, say func(string)) (Image, error) {
	src, err := parse(text)
	if err != nil {
		return Image{}, err
	}
	i, err := s.find(&src)
	if !errors.Is(err, ErrNotStored) {
		return i, err
	}
	return s.fetch(ctx, &src, say)
}

// GetNamed is Get for a name that a repository wrote, which is never a path of this machine.
func (s *Store) GetNamed(ctx context.Context, text string, say func(string)) (Image, error) {
	if err := Check(text); err != nil {
		return Image{}, err
	}
	if IsLocal(text) {
		return Image{}, fmt.Errorf("image %q is a path of this machine, not an image's name", text)
	}
	return s.Get(ctx, text, say)
}

// Pull fetches an image also where its name is stored already: the name moves
// to what it means now.
func (s *Store) Pull(ctx context.Context, text string, say func(string)) (Image, error) {
	src, err := parse(text)
	if err != nil {
		return Image{}, err
	}
	return s.fetch(ctx, &src, say)
}

func (s *Store) fetch(ctx context.Context, src *source, say func(string)) (Image, error) {
	if src.kind == stored {
		return Image{}, fmt.Errorf("image %s: %w", src.text, ErrNotStored)
	}
	return s.adding(ctx, "image "+src.text, func(tmp string) (Image, error) { return s.unpackTo(ctx, tmp, src, say) })
}

// adding makes an image in a folder of its own, which is removed afterwards, while nothing else changes
// the store. Its errors begin with what is made.
func (s *Store) adding(ctx context.Context, what string, add func(tmp string) (Image, error)) (Image, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if err := s.sweep(); err != nil {
		return Image{}, err
	}
	tmp, err := os.MkdirTemp(s.dir, "tmp-")
	if err != nil {
		return Image{}, fmt.Errorf("%s: %w", what, err)
	}
	i, err := add(tmp)
	if err := errors.Join(err, os.RemoveAll(tmp)); err != nil {
		return Image{}, fmt.Errorf("%s: %w", what, err)
	}
	return i, nil
}

// enter writes an image down; a name that another had is the new one's.
func (s *Store) enter(images []Image, i Image) error {
	images = slices.DeleteFunc(images, func(o Image) bool { return o.ID == i.ID })
	for n := range images {
		images[n].Names = slices.DeleteFunc(images[n].Names, func(name string) bool { return slices.Contains(i.Names, name) })
		images[n].Seen = slices.DeleteFunc(images[n].Seen, func(o Seen) bool {
			return slices.ContainsFunc(i.Seen, func(p Seen) bool { return p.Path == o.Path && p.Want == o.Want })
		})
	}
	return s.save(append(images, i))
}

func merge(old, now Image) Image {
	for _, name := range now.Names {
		if !slices.Contains(old.Names, name) {
			old.Names = append(old.Names, name)
		}
	}
	for _, f := range now.Seen {
		old.Seen = slices.DeleteFunc(old.Seen, func(o Seen) bool { return o.Path == f.Path && o.Want == f.Want })
		old.Seen = append(old.Seen, f)
	}
	if old.Digest == "" {
		old.Digest = now.Digest
	}
	old.Stored, old.Env, old.Devcontainer, old.Run = now.Stored, now.Env, now.Devcontainer, now.Run
	return old
}

func isFolder(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = &ownfile.Strange{Path: path, Why: "it is no folder"}
	}
	return err
}

// lock makes the store and locks its index, waiting until no other process changes it.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock images: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock images: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock images: %w", err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock images: another cloister is unpacking: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sweep removes what crashed unpackings left. The caller holds the lock.
func (s *Store) sweep() error {
	left, err := filepath.Glob(filepath.Join(s.dir, "tmp-*"))
	if err != nil {
		return fmt.Errorf("sweep images: %w", err)
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("sweep images: %w", err)
		}
	}
	return nil
}
