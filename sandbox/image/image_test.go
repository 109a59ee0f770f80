package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"cloister/sandbox/image"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layerOf makes a layer of entries.
func layerOf(t *testing.T, entries ...tar.Header) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range entries {
		body := h.Uname // where a test keeps the text of a file
		h.Uname = ""
		h.Size = int64(len(body))
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func file(name, text string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Uname: text}
}
func dir(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
func link(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}
func hard(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}

// imageOf makes an image of layers, for this machine unless arch says otherwise.
func imageOf(t *testing.T, arch string, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", arch
	c.Config.Env = []string{"PATH=/opt/bin:/usr/bin:relative:/a/../b", "LD_PRELOAD=/evil.so"}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	return img
}

// layoutOf writes images to an OCI layout.
func layoutOf(t *testing.T, images map[string]v1.Image) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(at, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for tag, img := range images {
		if err := p.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

func silent(string) {}

// unpack stores an image of layers and gives its root.
func unpack(t *testing.T, layers ...v1.Layer) (root string, i image.Image, err error) {
	t.Helper()
	s := image.Open(filepath.Join(t.TempDir(), "images"))
	i, err = s.Get(t.Context(), layoutOf(t, map[string]v1.Image{"x": imageOf(t, runtime.GOARCH, layers...)}), silent)
	return s.Root(i), i, err
}

func text(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func gone(t *testing.T, path ...string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(path...)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", filepath.Join(path...), err)
	}
}

func TestLayers(t *testing.T) {
	setID := file("usr/bin/su", "su")
	setID.Mode = 0o6755
	closed := dir("closed")
	closed.Mode = 0o005
	root, i, err := unpack(t,
		layerOf(t, dir("./"), dir("usr/"), dir("usr/lib/"), link("lib", "usr/lib"), link("abs", "/usr/lib"), link("up", "../../../../usr"), setID, closed,
			file("etc/old", "old"), file("etc/changed", "1"), dir("opaque/"), file("opaque/old", "x"), file("opaque/sub/old", "x"), file("gone/deep/f", "x"), file("dir/f", "x"), file("kept", "k")),
		layerOf(t, file("lib/a", "a"), file("abs/b", "b"), file("up/lib/c", "c"), file("/absolute", "abs"), file("etc/changed", "2"), file("etc/.wh.old", ""),
			file("opaque/sub/new", "new"), file("opaque/.wh..wh..opq", ""), file("opaque/after", "new"), file(".wh.gone", ""), file("dir", "now a file"), file(".wh..wh.plnk", ""), hard("same", "kept"),
			file("dev/sda", "x"), file("proc/x", "x"), tar.Header{Typeflag: tar.TypeChar, Name: "node", Devmajor: 1, Devminor: 1}, tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}),
		layerOf(t, file("ring/.wh.nothing", ""), file("new/.wh.f", ""), file("new/f", "made here")),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"usr/lib/a": "a", "usr/lib/b": "b", "usr/lib/c": "c", "absolute": "abs", "etc/changed": "2", "opaque/sub/new": "new", "opaque/after": "new",
		"dir": "now a file", "same": "k", "new/f": "made here",
	} {
		if got := text(t, root, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"etc/old", "opaque/old", "opaque/sub/old", "gone", "dev/sda", "proc/x", "node", "pipe"} {
		gone(t, root, name)
	}
	fi, err := os.Stat(filepath.Join(root, "usr/bin/su"))
	if err != nil || fi.Mode() != 0o755 {
		t.Errorf("a set-id program has mode %v, %v", fi.Mode(), err)
	}
	if fi, err := os.Stat(filepath.Join(root, "closed")); err != nil || fi.Mode().Perm() != 0o705 {
		t.Errorf("a closed folder: %v, %v", fi, err)
	}
	if i.LeftOut != 4 || !slices.Equal(i.Path, []string{"/opt/bin", "/usr/bin"}) {
		t.Errorf("%+v", i)
	}
}

func TestHostileLayers(t *testing.T) {
	outside := t.TempDir()
	canary := filepath.Join(outside, "canary")
	if err := os.WriteFile(canary, []byte("whole"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		entries []tar.Header
		refused string // empty: it is unpacked, harmlessly
	}{
		{"climbing name", []tar.Header{file("a/../../../../../../../.."+canary, "evil")}, "leads out"},
		{"climbing name, cleaned", []tar.Header{file("a/../b", "evil")}, "leads out"},
		{"absolute name", []tar.Header{file(canary, "evil")}, ""},
		{"through a link out", []tar.Header{link("out", outside), file("out/canary", "evil")}, ""},
		{"through a relative link out", []tar.Header{link("out", "../../../../../../../../../.."+outside), file("out/canary", "evil")}, ""},
		{"over a link out", []tar.Header{link("canary", canary), file("canary", "evil")}, ""},
		{"hard link out", []tar.Header{hard("h", canary), file("h", "evil")}, "not there"},
		{"hard link that climbs", []tar.Header{hard("h", "../../../../../../../.."+canary)}, "leads out"},
		{"hard link through a link", []tar.Header{link("out", outside), hard("h", "out/canary")}, "not there"},
		{"hard link to a link", []tar.Header{link("l", canary), hard("h", "l"), file("h", "evil")}, ""},
		{"whiteout of dots", []tar.Header{file("a/.wh...", "")}, "whiteout"},
		{"whiteout of nothing", []tar.Header{file("a/.wh.", "")}, "whiteout"},
		{"whiteout through a link", []tar.Header{link("out", outside), file("out/.wh.canary", "")}, ""},
		{"opaque through a link", []tar.Header{link("out", outside), file("out/.wh..wh..opq", "")}, ""},
		{"links in a ring", []tar.Header{link("a", "b"), link("b", "a"), file("a/f", "")}, "too many symbolic links"},
		{"below a file", []tar.Header{file("a", ""), file("a/f", "")}, "not a folder"},
		{"folder over a link", []tar.Header{link("out", outside), dir("out"), file("out/canary", "evil")}, ""},
		{"unknown kind", []tar.Header{{Typeflag: 'V', Name: "x"}}, "unknown kind"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, _, err := unpack(t, layerOf(t, tt.entries...))
			if tt.refused == "" && err != nil || tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)) {
				t.Errorf("error %v, want %q", err, tt.refused)
			}
			if got := text(t, canary); got != "whole" {
				t.Fatalf("outside became %q", got)
			}
			if err != nil && filepath.Base(root) != "roots" { // an image without ID has none
				gone(t, root)
			}
		})
	}
}

func TestNothingIsLeftOfAFailure(t *testing.T) {
	top := filepath.Join(t.TempDir(), "images")
	s := image.Open(top)
	at := layoutOf(t, map[string]v1.Image{"x": imageOf(t, runtime.GOARCH, layerOf(t, file("f", "x"), file("a/../b", "")))})
	if _, err := s.Get(t.Context(), at, silent); err == nil {
		t.Fatal("it was unpacked")
	}
	entries, err := os.ReadDir(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "lock" {
			t.Errorf("left: %s", e.Name())
		}
	}
}

// blobs are the files of a layout: configuration, manifest and layer.
func blobs(t *testing.T, at string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(at, "blobs/sha256/*"))
	if err != nil || len(found) != 3 {
		t.Fatalf("%v, %v", found, err)
	}
	return found
}

func TestChangedBytesAreRefused(t *testing.T) {
	for n := range 3 {
		at := layoutOf(t, map[string]v1.Image{"x": imageOf(t, runtime.GOARCH, layerOf(t, file("f", strings.Repeat("x", 5000))))})
		name := blobs(t, at)[n]
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// White space at the end of JSON means nothing, but is another digest; of a
		// packed layer, another byte.
		if b[0] == '{' {
			b = append(b, ' ')
		} else {
			b[len(b)/2] ^= 1
		}
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if i, err := image.Open(t.TempDir()).Get(t.Context(), at, silent); err == nil {
			t.Errorf("a layout with a changed %s was taken: %+v", name, i)
		}
	}
}

func TestOtherMachine(t *testing.T) {
	at := layoutOf(t, map[string]v1.Image{"x": imageOf(t, "s390x", layerOf(t, file("f", "x")))})
	_, err := image.Open(t.TempDir()).Get(t.Context(), at, silent)
	if err == nil || !strings.Contains(err.Error(), "linux/s390x") {
		t.Errorf("got %v", err)
	}
}

func TestSources(t *testing.T) {
	one := imageOf(t, runtime.GOARCH, layerOf(t, file("f", "one")))
	two := imageOf(t, runtime.GOARCH, layerOf(t, file("f", "two")))
	server := httptest.NewServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	ref, err := name.ParseReference(host + "/team/env:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, one); err != nil {
		t.Fatal(err)
	}
	digest, err := one.Digest()
	if err != nil {
		t.Fatal(err)
	}
	save := filepath.Join(t.TempDir(), "save.tar")
	if err := tarball.WriteToFile(save, ref, one); err != nil {
		t.Fatal(err)
	}
	both := layoutOf(t, map[string]v1.Image{"one": one, "two": two})
	single := layoutOf(t, map[string]v1.Image{"one": one})
	packed := filepath.Join(t.TempDir(), "oci.tar")
	pack(t, single, packed)

	s := image.Open(filepath.Join(t.TempDir(), "images"))
	var id string
	for _, from := range []string{host + "/team/env:1", host + "/team/env@" + digest.String(), save, both + ":one", "oci:" + both + "@" + digest.String(), "oci-archive:" + packed, single} {
		i, err := s.Get(t.Context(), from, silent)
		if err != nil {
			t.Errorf("%s: %v", from, err)
			continue
		}
		if id == "" {
			id = i.ID
		}
		if i.ID != id || text(t, s.Root(i), "f") != "one" {
			t.Errorf("%s is %s, not %s", from, i.ID, id)
		}
		// A second time nothing is fetched.
		again, err := s.Get(t.Context(), from, func(what string) { t.Errorf("%s: %s", from, what) })
		if err != nil || again.ID != id {
			t.Errorf("%s again: %+v, %v", from, again, err)
		}
	}
	if list, err := s.List(); err != nil || len(list) != 1 {
		t.Fatalf("the same image lies here more than once: %+v, %v", list, err)
	}
	if _, err := s.Find(id[:len("sha256:")+12]); err != nil {
		t.Error(err)
	}
	for from, want := range map[string]string{
		both: "has 2 images", both + ":three": "no image three", t.TempDir(): "no OCI layout", "/no/such/file": "no such file",
		host + "/team/none:1": "no such image", "UPPER": "no name of an image", "sha256:abcdef123456": "no such image", "/dev/null": "neither an archive",
	} {
		if _, err := s.Get(t.Context(), from, silent); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", from, err, want)
		}
	}
	// The name moves with the registry's tag only when it is pulled again.
	if err := remote.Write(ref, two); err != nil {
		t.Fatal(err)
	}
	if i, err := s.Get(t.Context(), host+"/team/env:1", silent); err != nil || i.ID != id {
		t.Errorf("a tag moved by itself: %+v, %v", i, err)
	}
	if i, err := s.Pull(t.Context(), host+"/team/env:1", silent); err != nil || i.ID == id || text(t, s.Root(i), "f") != "two" {
		t.Errorf("pulled again: %+v, %v", i, err)
	}
	if i, err := s.Get(t.Context(), host+"/team/env@"+digest.String(), silent); err != nil || i.ID != id {
		t.Errorf("a pinned digest moved: %+v, %v", i, err)
	}
}

// pack writes a folder as an archive.
func pack(t *testing.T, dir, to string) {
	t.Helper()
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestRemove(t *testing.T) {
	s := image.Open(filepath.Join(t.TempDir(), "images"))
	at := layoutOf(t, map[string]v1.Image{"x": imageOf(t, runtime.GOARCH, layerOf(t, file("f", "x")))})
	i, err := s.Get(t.Context(), at, silent)
	if err != nil {
		t.Fatal(err)
	}
	hold, err := s.Hold(i)
	if err != nil {
		t.Fatal(err)
	}
	var used *image.InUse
	if _, err := s.Remove(t.Context(), i.ID); !errors.As(err, &used) {
		t.Errorf("removed while it was used: %v", err)
	}
	hold.Close()
	// A root that is a link, as a backup may bring one, would be the host's own files.
	aside := s.Root(i) + ".aside"
	if err := errors.Join(os.Rename(s.Root(i), aside), os.Symlink(aside, s.Root(i))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hold(i); err == nil {
		t.Error("a link is held as an image")
	}
	if err := errors.Join(os.Remove(s.Root(i)), os.Rename(aside, s.Root(i))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), i.ID); err != nil {
		t.Error(err)
	}
	gone(t, s.Root(i))
	if _, err := s.Hold(i); err == nil {
		t.Error("a removed image can be held")
	}
	if _, err := s.Find(i.ID); !errors.Is(err, image.ErrNotStored) {
		t.Errorf("found: %v", err)
	}
}

// A layer that lies at an address of its own would make this host ask there.
func TestForeignLayer(t *testing.T) {
	img, err := mutate.Append(imageOf(t, runtime.GOARCH), mutate.Addendum{
		Layer: layerOf(t, file("f", "x")), URLs: []string{"http://169.254.169.254/layer"}, MediaType: types.DockerForeignLayer,
	})
	if err != nil {
		t.Fatal(err)
	}
	at := layoutOf(t, map[string]v1.Image{"x": img})
	if _, err := image.Open(t.TempDir()).Get(t.Context(), at, silent); err == nil || !strings.Contains(err.Error(), "address of its own") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"debian:12", "ghcr.io/a/b@sha256:" + strings.Repeat("a", 64), "./x.tar", "oci:dir:tag", "sha256:abc", "a:b:c", "", "\x00"} {
		f.Add(text)
	}
	s := image.Open(f.TempDir())
	f.Fuzz(func(t *testing.T, text string) {
		if i, err := s.Find(text); err == nil {
			t.Errorf("%q was found in an empty store: %+v", text, i)
		}
	})
}
