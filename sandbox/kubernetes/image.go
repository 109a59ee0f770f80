package kubernetes

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"cloister/sandbox/kubernetes/pod"
)

// WriteImage writes the gate's image as an archive in OCI's layout, of this very program alone,
// under a name. The same program gives the same digest, which it gives back.
func WriteImage(w io.Writer, program, name string) (digest string, err error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	var layer bytes.Buffer
	t := tar.NewWriter(&layer)
	err = t.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: pod.Name, Mode: 0o755, Size: int64(len(text)), Format: tar.FormatPAX})
	if err == nil {
		_, err = t.Write(text)
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return "", fmt.Errorf("write the gate's image: %w", err)
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	one, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return "", fmt.Errorf("write the gate's image: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/" + pod.Name}}})
	if err == nil {
		img, err = mutate.AppendLayers(img, one)
	}
	if err != nil {
		return "", fmt.Errorf("write the gate's image: %w", err)
	}
	hash, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("write the gate's image: %w", err)
	}
	return hash.String(), archive(w, img, name)
}

// archive writes an image's layout as an archive.
func archive(w io.Writer, img v1.Image, name string) (err error) {
	dir, err := os.MkdirTemp("", "cloister-image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = path.AppendImage(img, layout.WithAnnotations(map[string]string{"io.containerd.image.name": name,
			"org.opencontainers.image.ref.name": name}))
	}
	if err != nil {
		return fmt.Errorf("write the gate's image: %w", err)
	}
	t := tar.NewWriter(w)
	if err := t.AddFS(os.DirFS(filepath.Clean(dir))); err != nil {
		return fmt.Errorf("write the gate's image: %w", err)
	}
	return t.Close()
}
