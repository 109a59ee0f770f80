//go:build linux

package layers

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Kernels before 6.6 have no call that changes a mode without following a link: both ways
// must do the same.
func TestChmodOfOlderKernels(t *testing.T) {
	for name, chmod := range map[string]func(int, string, uint32) error{"newer": Chmod, "older": chmodByName} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, err := range []error{
				os.WriteFile(filepath.Join(dir, "f"), nil, 0o000), os.Mkdir(filepath.Join(dir, "d"), 0o000),
				os.Symlink("f", filepath.Join(dir, "l")), os.WriteFile(filepath.Join(dir, "odd\nname"), nil, 0o600),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			top, err := OpenFolder(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer top.Close()
			for _, n := range []string{"f", "d", "odd\nname"} {
				if err := chmod(top.Fd(), n, 0o640); err != nil {
					t.Errorf("%q: %v", n, err)
				}
				fi, err := os.Lstat(filepath.Join(dir, n))
				if err != nil || fi.Mode().Perm() != 0o640 {
					t.Errorf("%q: %v, %v", n, fi, err)
				}
			}
			if err := chmod(top.Fd(), "l", 0o777); !errors.Is(err, unix.EOPNOTSUPP) {
				t.Error("a link:", err)
			}
			if err := chmod(top.Fd(), "none", 0o777); !errors.Is(err, unix.ENOENT) {
				t.Error("nothing:", err)
			}
			if fi, err := os.Lstat(filepath.Join(dir, "f")); err != nil || fi.Mode().Perm() != 0o640 {
				t.Error("through the link:", fi, err)
			}
		})
	}
}
