// Package featurestest makes features of registries, for tests.
package featurestest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"

	"cloister/devcontainer/features"
)

// Pack makes a feature of some files.
func Pack(files map[string]string) (features.Packed, error) {
	var headers []tar.Header
	for _, name := range slices.Sorted(maps.Keys(files)) {
		headers = append(headers, tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))})
	}
	return PackAs(headers, files)
}

// PackAs makes a feature of these entries.
func PackAs(headers []tar.Header, files map[string]string) (features.Packed, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		err := w.WriteHeader(&h)
		if err == nil {
			_, err = io.WriteString(w, files[h.Name][:h.Size])
		}
		if err != nil {
			return features.Packed{}, err
		}
	}
	if err := w.Close(); err != nil {
		return features.Packed{}, err
	}
	return Named(b.Bytes())
}

// Named is an archive with a manifest that names it.
func Named(layer []byte) (features.Packed, error) {
	config := map[string]any{
		"mediaType": "application/vnd.devcontainers", "digest": features.Digest([]byte("{}")), "size": 2,
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
		"layers": []any{map[string]any{
			"mediaType": features.LayerType, "digest": features.Digest(layer), "size": len(layer),
		}},
	})
	return features.Packed{Manifest: manifest, Layer: layer}, err
}

// Push gives a feature to a test's registry, as PATH:TAG, and returns its digest.
func Push(ctx context.Context, server *httptest.Server, feature string, p features.Packed) (string, error) {
	path, tag, _ := strings.Cut(feature, ":")
	send := func(method, at, kind string, body []byte) error {
		r, err := http.NewRequestWithContext(ctx, method, server.URL+"/v2/"+path+at, bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", kind)
		answer, err := server.Client().Do(r)
		if err != nil {
			return err
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusCreated {
			return fmt.Errorf("%s %s: %s %w", method, r.URL, answer.Status, err)
		}
		return nil
	}
	for _, blob := range [][]byte{[]byte("{}"), p.Layer} {
		at := "/blobs/uploads/?digest=" + url.QueryEscape(features.Digest(blob))
		if err := send(http.MethodPost, at, "application/octet-stream", blob); err != nil {
			return "", err
		}
	}
	const kind = "application/vnd.oci.image.manifest.v1+json"
	return features.Digest(p.Manifest), send(http.MethodPut, "/manifests/"+tag, kind, p.Manifest)
}
