package rawcall_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/rawcall"
)

func TestCalls(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := rawcall.Mkdirat(fd, "a", 0o700); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(filepath.Join(dir, "a")); err != nil || !fi.IsDir() || fi.Mode().Perm() != 0o700 {
		t.Errorf("made %v, %v", fi, err)
	}
	if err := rawcall.Mkdirat(fd, "a", 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made again: %v", err)
	}
	if err := rawcall.Mkdirat(fd, "nul\x00", 0o700); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a name with a NUL: %v", err)
	}
	if runtime.GOOS == "linux" {
		if err := rawcall.Mknodat(fd, "s", unix.S_IFSOCK|0o600, 0); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Lstat(filepath.Join(dir, "s")); err != nil || fi.Mode().Type() != fs.ModeSocket {
			t.Errorf("made %v, %v", fi, err)
		}
		if err := rawcall.Linkat(fd, "s", fd, "l"); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Lstat(filepath.Join(dir, "l")); err != nil || fi.Mode().Type() != fs.ModeSocket {
			t.Errorf("linked %v, %v", fi, err)
		}
		if err := errors.Join(rawcall.Unlinkat(fd, "l", 0), rawcall.Unlinkat(fd, "s", 0)); err != nil {
			t.Error(err)
		}
	}
	if err := rawcall.Unlinkat(fd, "a", unix.AT_REMOVEDIR); err != nil {
		t.Error(err)
	}
	if err := rawcall.Unlinkat(unix.AT_FDCWD, filepath.Join(dir, "a"), unix.AT_REMOVEDIR); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed again: %v", err)
	}
}
