package files

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAttributeThatNoArchiveHas: an attribute that a payload gave a file keeps no folder from being packed.
func TestAttributeThatNoArchiveHas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "a=b"} {
		if err := unix.Setxattr(file, xattrPrefix+name, []byte("x"), 0); err != nil {
			t.Skipf("attributes: %v", err)
		}
		if err := packOne(tar.NewWriter(io.Discard), file, "file"); err != nil {
			t.Errorf("with the attribute %s: %v", name, err)
		}
	}
}
