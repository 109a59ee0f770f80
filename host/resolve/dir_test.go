package resolve_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloister/host/resolve"
)

// A folder is listed as os.ReadDir lists it: its names in order, with their kinds.
func TestReadDirAsOS(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	short, err := os.MkdirTemp("", "s") // the name of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	l, err := net.Listen("unix", filepath.Join(short, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("x"), 0o600), os.Mkdir(at(".dir"), 0o700), os.Symlink("nowhere", at("link")),
		unix.Mkfifo(at("pipe"), 0o600), os.WriteFile(at("\xff\n"), nil, 0o600), os.Mkdir(at("many"), 0o700), os.Mkdir(at("none"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 { // more than one answer of the kernel's
		if err := os.WriteFile(at(fmt.Sprintf("many/%0100d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := func(entries []fs.DirEntry, err error) []string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || info.Name() != e.Name() || info.Mode().Type() != e.Type() || e.IsDir() != info.IsDir() {
				t.Errorf("%v: %v, %v", e, info, err)
			}
			out = append(out, e.Name()+" "+e.Type().String())
		}
		return out
	}
	for _, path := range []string{dir, at("many"), at("none"), short} {
		if diff := cmp.Diff(list(os.ReadDir(path)), list(resolve.ReadDir(path))); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	for path, want := range map[string]error{at("file"): syscall.ENOTDIR, at("pipe"): syscall.ENOTDIR, at("absent"): fs.ErrNotExist} {
		if got, err := resolve.ReadDir(path); !errors.Is(err, want) || len(got) != 0 {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	if got, err := resolve.ReadDir(at("link")); err == nil {
		t.Errorf("a link is listed: %v", got)
	}
}

func TestReadFileAsOS(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "f")
	for _, n := range []int{0, 1, 4095, 4096, 100_000} {
		text := strings.Repeat("x", n)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := resolve.ReadFile(file, 100_000); err != nil || string(got) != text {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
		if got, err := resolve.ReadFile(file, int64(n)-1); n > 0 && err == nil {
			t.Errorf("%d bytes of %d: no error", len(got), n)
		}
	}
	if _, err := resolve.ReadFile("/proc/version", 1<<20); err != nil { // its size is told as none
		if _, here := os.Stat("/proc/version"); here == nil {
			t.Error(err)
		}
	}
	for _, path := range []string{dir, os.DevNull, filepath.Join(dir, "absent")} {
		if got, err := resolve.ReadFile(path, 10); err == nil {
			t.Errorf("%s: read %q", path, got)
		}
	}
}
