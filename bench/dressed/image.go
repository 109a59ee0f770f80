package dressed

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Image is a tar with some of the host's programs and the libraries that they load.
func Image(ctx context.Context, names ...string) ([]byte, error) {
	var files []string
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, err
		}
		files = append(files, path)
		out, err := exec.CommandContext(ctx, "ldd", path).Output()
		if err != nil {
			return nil, fmt.Errorf("ldd %s: %w", path, err)
		}
		for word := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(word, "/") && !slices.Contains(files, word) {
				files = append(files, word)
			}
		}
	}
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		if err := t.WriteHeader(&tar.Header{Name: strings.TrimPrefix(f, "/"), Mode: 0o755, Size: int64(len(text))}); err != nil {
			return nil, err
		}
		if _, err := io.Copy(t, bytes.NewReader(text)); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), t.Close()
}
