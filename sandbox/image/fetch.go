package image

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"cloister/host/resolve"
)

// fetched is an image whose configuration has been read and agrees with what was
// asked for; its layers are compared with it when they are unpacked.
type fetched struct {
	src    *source
	img    v1.Image
	id     string
	digest string // of the manifest; empty for an archive of docker's
	config *v1.ConfigFile
	seen   []Seen
}

// maxConfig bounds what is read of a configuration or manifest.
const maxConfig = 8 << 20

// open finds the image of a source. tmp is a folder for what has to be taken
// apart first.
func (s *source) open(
	ctx context.Context, host resolve.Now, as logins, tmp string, say func(string),
) (*fetched, error) {
	p := &fetched{src: s}
	var err error
	if s.kind == registry {
		say("pulling " + s.text)
		p.img, err = remote.Image(s.ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(as),
			remote.WithPlatform(platform()))
		if err != nil {
			return nil, s.explain(err)
		}
		return p, p.check()
	}
	seen, err := s.look(host)
	if err != nil {
		return nil, err
	}
	p.seen = []Seen{seen}
	if s.kind == layoutDir {
		p.img, err = fromLayout(s.path, s.want)
	} else {
		p.img, err = fromArchive(s.path, s.want, tmp)
	}
	if err != nil {
		return nil, err
	}
	return p, p.check()
}

func platform() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// explain says what a registry's answer means for a person.
func (s *source) explain(err error) error {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		if _, there := os.Stat(s.text); there == nil {
			return &hinted{err, "the file of that name is meant by ./" + s.text}
		}
		return &hinted{err, "an image from a file needs no registry: ./ARCHIVE.tar or ./LAYOUT"}
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("%s has no such image", s.ref.Context().RegistryStr())
	case http.StatusUnauthorized, http.StatusForbidden:
		return &hinted{fmt.Errorf("%s has no such image, or shows it to others only", s.ref.Context().RegistryStr()),
			"docker login writes down who you are for a registry, where it has no credential helper: those are not run"}
	}
	return err
}

// hinted is an error with a word of what to do.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string   { return h.err.Error() }
func (h *hinted) Unwrap() error   { return h.err }
func (h *hinted) Hints() []string { return []string{h.hint} }

// check reads the configuration and holds it against the manifest and this
// machine.
func (p *fetched) check() error {
	raw, err := p.img.RawConfigFile()
	if err != nil {
		return fmt.Errorf("read its configuration: %w", err)
	}
	if len(raw) > maxConfig {
		return errors.New("its configuration is too long")
	}
	sum := sha256.Sum256(raw)
	p.id = "sha256:" + hex.EncodeToString(sum[:])
	if err := p.checkManifest(); err != nil {
		return err
	}
	p.config = &v1.ConfigFile{}
	if err := json.Unmarshal(raw, p.config); err != nil {
		return fmt.Errorf("read its configuration: %w", err)
	}
	c := p.config
	if c.RootFS.Type != "layers" || len(c.RootFS.DiffIDs) == 0 {
		return errors.New("it has no layers: it is no image of a file system")
	}
	if c.OS != "" && c.OS != "linux" || c.Architecture != "" && c.Architecture != runtime.GOARCH {
		return fmt.Errorf("it is for %s/%s, this machine is linux/%s", c.OS, c.Architecture, runtime.GOARCH)
	}
	return nil
}

// checkManifest compares the configuration with what the manifest pins. An
// archive of docker's has no manifest but one that would be made by packing all
// of it again; there the configuration is what pins.
func (p *fetched) checkManifest() error {
	if p.src.kind == archive && !isLayoutImage(p.img) {
		return nil
	}
	raw, err := p.img.RawManifest()
	if err != nil {
		return fmt.Errorf("read its manifest: %w", err)
	}
	sum := sha256.Sum256(raw)
	p.digest = "sha256:" + hex.EncodeToString(sum[:])
	want, err := p.img.Digest()
	if err != nil {
		return fmt.Errorf("read its manifest: %w", err)
	}
	if want.String() != p.digest {
		return fmt.Errorf("its manifest is %s, not %s as it should be", p.digest, want)
	}
	m, err := p.img.Manifest()
	if err != nil {
		return fmt.Errorf("read its manifest: %w", err)
	}
	if m.Config.Digest.String() != p.id {
		return fmt.Errorf("its configuration is %s, not %s as its manifest says", p.id, m.Config.Digest)
	}
	for _, l := range m.Layers {
		// Such a layer lies anywhere, and a request goes there from this host.
		if len(l.URLs) > 0 {
			return errors.New("one of its layers lies at an address of its own, outside the registry")
		}
	}
	return nil
}

// layoutImage is an image of a layout, with the digest that led to it.
type layoutImage struct {
	v1.Image
	want v1.Hash
}

func (l layoutImage) Digest() (v1.Hash, error) { return l.want, nil }

func isLayoutImage(img v1.Image) bool { _, ok := img.(layoutImage); return ok }

// refName is the annotation by which a layout tags (image-spec, annotations.md).
const refName = "org.opencontainers.image.ref.name"

// fromLayout finds the one image of a layout that is wanted.
func fromLayout(dir, want string) (v1.Image, error) {
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("read the layout: %w", err)
	}
	found, err := candidates(root, want, 0)
	if err != nil {
		return nil, err
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if want != "" {
			return nil, fmt.Errorf("the layout has no image %s for linux/%s", want, runtime.GOARCH)
		}
		return nil, fmt.Errorf("the layout has no image for linux/%s", runtime.GOARCH)
	}
	return nil, &hinted{fmt.Errorf("the layout has %d images", len(found)), "name one: LAYOUT:TAG or LAYOUT@sha256:…"}
}

// candidates are the images of an index for this machine, those of the indexes
// in it included.
func candidates(x v1.ImageIndex, want string, depth int) ([]v1.Image, error) {
	const deepest = 4
	m, err := x.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read the layout: %w", err)
	}
	var out []v1.Image
	for _, d := range m.Manifests {
		wanted := want == "" || d.Digest.String() == want || d.Annotations[refName] == want
		switch {
		case d.MediaType.IsIndex() && depth < deepest:
			below := want
			if wanted {
				below = ""
			}
			inner, err := x.ImageIndex(d.Digest)
			if err != nil {
				return nil, fmt.Errorf("read the layout: %w", err)
			}
			more, err := candidates(inner, below, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		case d.MediaType.IsImage() && wanted:
			if p := d.Platform; p != nil && p.OS != "" && (p.OS != "linux" || p.Architecture != runtime.GOARCH) &&
				want != d.Digest.String() {
				continue
			}
			img, err := x.Image(d.Digest)
			if err != nil {
				return nil, fmt.Errorf("read the layout: %w", err)
			}
			out = append(out, layoutImage{img, d.Digest})
		}
	}
	return out, nil
}

// fromArchive reads what docker save, podman save or skopeo copy wrote.
func fromArchive(file, want, tmp string) (v1.Image, error) {
	names, err := members(file)
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	switch {
	case slices.Contains(names, "oci-layout") && slices.Contains(names, "index.json"):
		dir := filepath.Join(tmp, "layout")
		if err := expand(file, dir); err != nil {
			return nil, fmt.Errorf("read the archive: %w", err)
		}
		return fromLayout(dir, want)
	case slices.Contains(names, "manifest.json"):
		var tag *name.Tag
		if want != "" {
			t, err := name.NewTag(want)
			if err != nil {
				return nil, err
			}
			tag = &t
		}
		img, err := tarball.Image(func() (io.ReadCloser, error) { return plain(file) }, tag)
		if err != nil {
			return nil, fmt.Errorf("read the archive: %w", err)
		}
		return img, nil
	}
	return nil, &hinted{errors.New("the archive holds no image"),
		"docker save, podman save and skopeo copy write archives of images"}
}

// plain opens an archive, unpacking it if it is packed by gzip.
func plain(file string) (io.ReadCloser, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	b := bufio.NewReader(f)
	if magic, err := b.Peek(2); err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return &reading{b, f}, nil // too short for a magic: the reader finds out
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &reading{z, f}, nil
}

type reading struct {
	io.Reader
	f *os.File
}

func (r *reading) Close() error { return r.f.Close() }

// members lists the names at the top of an archive.
func members(file string) ([]string, error) {
	f, err := plain(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	for t := tar.NewReader(f); len(out) < maxEntries; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, strings.TrimPrefix(h.Name, "./"))
	}
	return nil, errors.New("too many entries")
}

// expand unpacks an archived layout. Only the files that a layout consists of
// are taken, by names that are checked.
func expand(file, dir string) error {
	f, err := plain(file)
	if err != nil {
		return err
	}
	defer f.Close()
	blobs := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		return err
	}
	left := int64(maxBytes)
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := strings.TrimPrefix(h.Name, "./")
		digits, blob := strings.CutPrefix(at, "blobs/sha256/")
		if h.Typeflag != tar.TypeReg || at != "oci-layout" && at != "index.json" &&
			!(blob && len(digits) == 64 && isHex(digits)) {
			continue
		}
		if left -= h.Size; left < 0 {
			return errTooLarge
		}
		w, err := os.OpenFile(filepath.Join(dir, at), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, t)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
	}
}

// about is what the index says of the image.
func (p *fetched) about() Image {
	i := Image{
		ID: p.id, Digest: p.digest, Source: p.src.text, OS: "linux", Arch: runtime.GOARCH,
		Names: []string{}, Created: p.config.Created.UTC(), Stored: time.Now().UTC(), Path: pathOf(p.config.Config.Env),
		Seen: p.seen,
		Env:  p.config.Config.Env, Devcontainer: p.config.Config.Labels["devcontainer.metadata"],
		Run: runOf(p.config.Config),
	}
	if p.src.kind == registry {
		i.Names = []string{canonical(p.src.ref)}
	}
	return i
}

// unpack lays the layers on one another in a new folder.
func (p *fetched) unpack(ctx context.Context, dir string) (*unpacker, error) {
	layers, err := p.img.Layers()
	if err != nil {
		return nil, fmt.Errorf("read its layers: %w", err)
	}
	if len(layers) != len(p.config.RootFS.DiffIDs) {
		return nil, fmt.Errorf("it has %d layers, and digests of %d", len(layers), len(p.config.RootFS.DiffIDs))
	}
	u, err := newUnpacker(dir)
	if err != nil {
		return nil, err
	}
	defer u.root.Close()
	for n, l := range layers {
		if err := unpackLayer(ctx, u, l, p.config.RootFS.DiffIDs[n]); err != nil {
			return nil, fmt.Errorf("layer %d of %d: %w", n+1, len(layers), err)
		}
	}
	return u, nil
}

func unpackLayer(ctx context.Context, u *unpacker, l v1.Layer, want v1.Hash) error {
	r, err := l.Uncompressed()
	if err != nil {
		return err
	}
	defer r.Close()
	if want.Algorithm != "sha256" {
		return fmt.Errorf("its digest is a %s, sha256 is understood", want.Algorithm)
	}
	h := sha256.New()
	stream := io.TeeReader(&bounded{r: r, ctx: ctx, left: &u.stream}, h)
	if err := u.layer(stream); err != nil {
		return err
	}
	// What follows the archive's end is part of the digest.
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want.Hex {
		return fmt.Errorf("its bytes are sha256:%s, not %s as the configuration says", got, want)
	}
	return nil
}

// bounded ends a stream that is longer than any image should be, or that its caller
// has given up.
type bounded struct {
	r    io.Reader
	ctx  context.Context
	left *int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	if *b.left -= int64(n); *b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
