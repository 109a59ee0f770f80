package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// maxArtifact bounds what is read of an artifact.
const maxArtifact = 64 << 20

// Artifact fetches what a registry keeps under a name that is no image: one layer of
// bytes. digest is the manifest's, which it must have; empty for whichever it has. It
// gives the bytes, compared with the manifest, and the manifest's digest.
func Artifact(ctx context.Context, text, digest string) ([]byte, string, error) {
	ref, err := name.ParseReference(text)
	if err != nil {
		return nil, "", fmt.Errorf("fetch %s: %w", text, err)
	}
	asked := ref
	if digest != "" {
		if asked, err = name.NewDigest(ref.Context().Name() + "@" + digest); err != nil {
			return nil, "", fmt.Errorf("fetch %s: %w", text, err)
		}
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	d, err := remote.Get(asked, options...)
	if err != nil {
		return nil, "", fmt.Errorf("fetch %s: %w", text, (&source{text: text, ref: ref}).explain(err))
	}
	var m v1.Manifest
	if len(d.Manifest) > maxConfig {
		return nil, "", fmt.Errorf("fetch %s: its manifest has more than %d MiB", text, maxConfig>>20)
	}
	if err := json.Unmarshal(d.Manifest, &m); err != nil {
		return nil, "", fmt.Errorf("fetch %s: read its manifest: %w", text, err)
	}
	if len(m.Layers) != 1 {
		return nil, "", fmt.Errorf("fetch %s: it has %d layers, an artifact has one", text, len(m.Layers))
	}
	l, err := remote.Layer(ref.Context().Digest(m.Layers[0].Digest.String()), options...)
	if err != nil {
		return nil, "", fmt.Errorf("fetch %s: %w", text, err)
	}
	r, err := l.Compressed() // it compares the bytes with their digest
	if err != nil {
		return nil, "", fmt.Errorf("fetch %s: %w", text, err)
	}
	blob, err := io.ReadAll(io.LimitReader(r, maxArtifact+1))
	if err = errors.Join(err, r.Close()); err == nil && len(blob) > maxArtifact {
		err = fmt.Errorf("it has more than %d MiB", maxArtifact>>20)
	}
	if err != nil {
		return nil, "", fmt.Errorf("fetch %s: %w", text, err)
	}
	return blob, d.Digest.String(), nil
}
