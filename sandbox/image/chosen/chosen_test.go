package chosen_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"cloister/internal/hint"
	"cloister/sandbox"
	"cloister/sandbox/image"
	"cloister/sandbox/image/chosen"
)

// plain is a driver that has no images.
type plain struct{ sandbox.Driver }

// engine is one that has images of its own.
type engine struct {
	sandbox.Driver
	has   []string
	given []string
	fails error
}

type absent struct{ error }

func (absent) NoImage() {}

func (e *engine) Find(_ context.Context, name string) (sandbox.Root, []string, error) {
	switch {
	case e.fails != nil:
		return sandbox.Root{}, nil, e.fails
	case slices.Contains(e.has, name):
		return sandbox.Root{ID: "own:" + name}, []string{"/own"}, nil
	}
	return sandbox.Root{}, nil, absent{errors.New("no such image")}
}

func (e *engine) Give(_ context.Context, r sandbox.Root, _ func(string)) error {
	e.given = append(e.given, r.ID)
	return nil
}

// storeWith is a store with one image.
func storeWith(t *testing.T) (*image.Store, image.Image) {
	t.Helper()
	c, err := empty.Image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Config.Env = "linux", runtime.GOARCH, []string{"PATH=/opt/bin:/usr/bin"}
	var tree bytes.Buffer
	w := tar.NewWriter(&tree)
	header := tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}
	if err := errors.Join(w.WriteHeader(&header), w.Close()); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(tree.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := mutate.ConfigFile(empty.Image, c)
	if err != nil {
		t.Fatal(err)
	}
	if made, err = mutate.AppendLayers(made, layer); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(at, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(made); err != nil {
		t.Fatal(err)
	}
	s := image.Open(filepath.Join(t.TempDir(), "images"))
	i, err := s.Get(t.Context(), at, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return s, i
}

func TestFor(t *testing.T) {
	s, stored := storeWith(t)
	broken := errors.New("the engine does not answer")
	for _, c := range []struct {
		name   string
		driver sandbox.Driver
		asked  string
		id     string // "" is the host's own system
		called string
		held   bool
		fails  string
	}{
		{name: "no name, and none is needed", driver: plain{}},
		{name: "a name of the store", driver: plain{}, asked: stored.ID, id: stored.ID, called: stored.ID, held: true},
		{name: "a name of the store, for an engine", driver: &engine{has: []string{stored.ID}}, asked: stored.ID,
			id: stored.ID, called: stored.ID, held: true},
		{name: "a name of the engine alone", driver: &engine{has: []string{"work"}}, asked: "work", id: "own:work",
			called: "work"},
		{name: "no name, and the engine has the base image", driver: &engine{has: []string{chosen.Base}},
			id: "own:" + chosen.Base, called: chosen.Base},
		{name: "no name, and no base image is anywhere", driver: &engine{}, fails: "there is no base image"},
		{name: "an engine that does not answer", driver: &engine{fails: broken}, asked: "work", fails: broken.Error(),
			called: "work"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said []string
			got, err := chosen.For(t.Context(), s, c.driver, c.asked, func(text string) { said = append(said, text) })
			if got.Hold != nil {
				defer got.Hold.Close()
			}
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("it says %v, not %q", err, c.fails)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if got.Root.ID != c.id || got.Name != c.called || (got.Hold != nil) != c.held {
				t.Errorf("it is %q by the name %q, held %t", got.Root.ID, got.Name, got.Hold != nil)
			}
			if len(said) > 0 {
				t.Errorf("something was fetched: %q", said)
			}
			if e, ok := c.driver.(*engine); ok && slices.Contains(e.given, stored.ID) != (c.id == stored.ID) {
				t.Errorf("the engine was given %q", e.given)
			}
		})
	}
}

// The error without a base image says how to make one.
func TestForHints(t *testing.T) {
	s := image.Open(filepath.Join(t.TempDir(), "images"))
	_, err := chosen.For(t.Context(), s, &engine{}, "", func(string) {})
	if hints := strings.Join(hint.Of(err), "\n"); !strings.Contains(hints, "cloister image build") {
		t.Errorf("it advises %q", hints)
	}
}

// What is held cannot be removed, and what is not can be.
func TestForHolds(t *testing.T) {
	s, stored := storeWith(t)
	got, err := chosen.For(t.Context(), s, plain{}, stored.ID, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), stored.ID); err == nil {
		t.Error("an image that is held was removed")
	} else if _, used := errors.AsType[*image.InUse](err); !used {
		t.Error(err)
	}
	if err := got.Hold.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), stored.ID); err != nil {
		t.Errorf("after its hold was closed: %v", err)
	}
}
