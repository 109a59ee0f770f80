package layers_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

// A payload nests folders deeper than a process may have files open, and closes them.
func TestRemoveWhatIsVeryDeep(t *testing.T) {
	top := t.TempDir()
	fd, err := unix.Open(top, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		name := "d"
		if i == 0 {
			name = "layer"
		}
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if i%500 == 250 {
			if err := unix.Fchmod(fd, 0); err != nil {
				t.Fatal(err)
			}
		}
		_ = unix.Close(fd)
		fd = next
	}
	_ = unix.Close(fd)
	if err := os.WriteFile(filepath.Join(top, "beside"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := openFiles(t)
	if err := layers.RemoveAll(top, "layer"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(top); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d files are open, %d before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
