package layers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/state/layers"
)

func TestExistsTellsAbsentFromUnknown(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		file: true, filepath.Join(dir, "link"): true, dir: true,
		filepath.Join(dir, "absent"): false, filepath.Join(file, "below"): false,
	} {
		if got, err := layers.Exists(name); err != nil || got != want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
	// The kernel cannot say: the name is longer than one may be (ENAMETOOLONG).
	if got, err := layers.Exists(filepath.Join(dir, strings.Repeat("n", 300))); err == nil || got {
		t.Errorf("unknown: %t, %v", got, err)
	}
}
