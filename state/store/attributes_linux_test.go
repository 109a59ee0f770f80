package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/state/parts"
	"cloister/state/store"

	"golang.org/x/sys/unix"
)

const onRamfs = "CLOISTER_TEST_RAMFS"

// A store on a file system without extended attributes, a ramfs in a mount namespace of its own,
// takes no session: overlayfs would lie there, and a command that removes a folder would fail. Nor
// does one on another overlay, which has attributes and no whiteouts: the kernel lays none on it.
func TestNoAttributes(t *testing.T) {
	if !inNamespaces(t, onRamfs, "TestNoAttributes") {
		return
	}
	for _, kind := range []string{"ramfs", "tmpfs", "overlay"} {
		at, project := t.TempDir(), t.TempDir()
		mount(t, kind, at)
		s, err := store.Open(at, project)
		if err != nil {
			t.Fatal(err)
		}
		use, err := s.Begin("x", project, "")
		none, refused := errors.AsType[*parts.NoUpper](err)
		// tmpfs keeps them since Linux 6.6; what this one does is asked of it directly.
		want := errors.Is(unix.Setxattr(at, "user.x", []byte("y"), 0), unix.ENOTSUP)
		if kind == "overlay" {
			want = laidOn(t, at) != nil
			if refused && !strings.HasPrefix(none.Lacks, "whiteouts") {
				t.Errorf("it is said to lack %s", none.Lacks)
			}
		}
		if refused != want || kind != "tmpfs" && !want || !refused && err != nil {
			t.Errorf("%s: %v (%v), want refused: %v", kind, err, none, want)
		}
		if names, err := s.Names(); err != nil || refused && len(names) != 0 {
			t.Errorf("%s: a workspace is left: %q, %v", kind, names, err)
		}
		if err := errors.Join(use.Close(), left(at), unix.Unmount(at, unix.MNT_DETACH)); err != nil {
			t.Error(err)
		}
	}
}

// mount mounts a file system, an overlay with its layers in one of memory.
func mount(t *testing.T, kind, at string) {
	t.Helper()
	options := ""
	if kind == "overlay" {
		below := t.TempDir()
		mount(t, "tmpfs", below)
		t.Cleanup(func() {
			if err := unix.Unmount(below, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		options = layersIn(t, below)
	}
	if err := unix.Mount(kind, at, kind, 0, options); err != nil {
		t.Fatal(err)
	}
}

func layersIn(t *testing.T, dir string) string {
	t.Helper()
	for _, n := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(dir, n), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return "userxattr,lowerdir=" + dir + "/lower,upperdir=" + dir + "/upper,workdir=" + dir + "/work"
}

// laidOn is the kernel's own word on an overlay that keeps what is written in a folder.
func laidOn(t *testing.T, dir string) error {
	t.Helper()
	top := filepath.Join(dir, "tried")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	at, options := t.TempDir(), layersIn(t, top)
	err := unix.Mount("overlay", at, "overlay", 0, options)
	if err == nil {
		err = unix.Unmount(at, unix.MNT_DETACH)
	}
	return err
}

// left is an error where the trial has left a file of its own.
func left(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "state", ".whiteout-*"))
	if len(found) > 0 {
		err = errors.Join(err, fmt.Errorf("left: %q", found))
	}
	return err
}
