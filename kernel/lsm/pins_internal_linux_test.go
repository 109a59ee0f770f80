package lsm

import (
	"errors"
	"os"
	"testing"
)

// Whoever may open the folder of pins may lock it, and no session of another user begins.
func TestPinsOfRootAlone(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		mode os.FileMode
		fine bool
	}{{0o700, os.Geteuid() == 0}, {0o755, false}, {0o710, false}, {0o777 | os.ModeSticky, false}} {
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = rootAlone(f)
		if _, refused := errors.AsType[*Unsupported](err); refused == c.fine {
			t.Errorf("mode %v: %v", c.mode, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
