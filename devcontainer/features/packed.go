package features

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// The bounds of one feature of a registry.
const (
	MaxManifest = 1 << 20
	MaxLayer    = 32 << 20
	maxUnpacked = 64 << 20
	maxFiles    = 2000
)

// Packed is a feature as a registry has it: its manifest, and the archive that this names.
type Packed struct {
	Manifest []byte `json:"manifest"`
	Layer    []byte `json:"layer"`
}

// The media types of a manifest and of a feature's layer.
const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	LayerType    = "application/vnd.devcontainers.layer.v1+tar"
)

// Manifest is what is read of a feature's manifest.
type Manifest struct {
	SchemaVersion int    `json:"schemaVersion"`
	MediaType     string `json:"mediaType"`
	Layers        []struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int64  `json:"size"`
	} `json:"layers"`
}

// ReadManifest reads the manifest of a feature. It has one layer.
func ReadManifest(text []byte) (Manifest, error) {
	var m Manifest
	if len(text) > MaxManifest {
		return m, fmt.Errorf("its manifest has more than %d bytes", MaxManifest)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("its manifest: %w", err)
	}
	if m.SchemaVersion != 2 || m.MediaType != "" && m.MediaType != manifestType || len(m.Layers) != 1 ||
		m.Layers[0].MediaType != LayerType || !digestName().MatchString(m.Layers[0].Digest) {
		return m, errors.New("its manifest is none of a feature: one layer of type " + LayerType)
	}
	if l := m.Layers[0]; l.Size < 0 || l.Size > MaxLayer {
		return m, fmt.Errorf("its archive has %d bytes; %d are taken at most", l.Size, MaxLayer)
	}
	return m, nil
}

// Digest is the digest of some bytes, as registries write it.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Files are the files of the feature, which is the one of this digest.
func (p Packed) Files(digest string) ([]File, error) {
	if got := Digest(p.Manifest); got != digest {
		return nil, fmt.Errorf("its manifest is %s, not %s", got, digest)
	}
	m, err := ReadManifest(p.Manifest)
	if err != nil {
		return nil, err
	}
	if l := m.Layers[0]; int64(len(p.Layer)) != l.Size || Digest(p.Layer) != l.Digest {
		return nil, fmt.Errorf("its archive is %d bytes with %s, not %d with %s",
			len(p.Layer), Digest(p.Layer), l.Size, l.Digest)
	}
	return unpack(p.Layer)
}

// unpack gives the files of an archive. An entry that is neither a folder nor a file of
// its own place is an error: a build would do with it what no one looked at.
func unpack(text []byte) ([]File, error) {
	var r io.Reader = bytes.NewReader(text)
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("its archive: %w", err)
		}
		r = z
	}
	var out []File
	there := map[string]bool{}
	r = &atMost{r, maxUnpacked}
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("its archive: %w", err)
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		if path.IsAbs(h.Name) || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsAny(name, "\x00\\\n") {
			return nil, fmt.Errorf("its archive has %q, which is outside its folder", h.Name)
		}
		switch h.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		case tar.TypeReg:
		default:
			return nil, fmt.Errorf("its archive has %q, which is neither a file nor a folder", h.Name)
		}
		if there[name] {
			return nil, fmt.Errorf("its archive has %q twice", h.Name)
		}
		if there[name] = true; len(out) == maxFiles {
			return nil, fmt.Errorf("its archive has more than %d files", maxFiles)
		}
		data, err := io.ReadAll(t)
		if err != nil {
			return nil, fmt.Errorf("its archive: %w", err)
		}
		out = append(out, File{Name: name, Text: data, Executable: h.Mode&0o111 != 0})
	}
	for _, f := range out {
		for dir := path.Dir(f.Name); dir != "."; dir = path.Dir(dir) {
			if there[dir] {
				return nil, fmt.Errorf("its archive has %q, which is a file and a folder", dir)
			}
		}
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// atMost ends what is longer than a feature should be.
type atMost struct {
	r    io.Reader
	left int64
}

func (a *atMost) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if a.left -= int64(n); a.left < 0 {
		return 0, fmt.Errorf("there is more than %d MiB in it", maxUnpacked>>20)
	}
	return n, err
}
