package image_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"cloister/sandbox/image"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// TestFullDisk unpacks onto a disk of one megabyte: this test again, in
// namespaces of its own where it may mount one.
func TestFullDisk(t *testing.T) {
	const inside = "CLOISTER_TEST_FULL"
	if os.Getenv(inside) == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestFullDisk$")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	at := layoutOf(t, map[string]v1.Image{"x": imageOf(t, runtime.GOARCH, layerOf(t, file("small", "x"), file("large", strings.Repeat("x", 4<<20))))})
	disk := t.TempDir()
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	}()
	_, err := image.Open(filepath.Join(disk, "images")).Get(t.Context(), at, silent)
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v, want no space", err)
	}
	entries, err := os.ReadDir(filepath.Join(disk, "images"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "lock" {
		t.Errorf("left: %v, %v", entries, err)
	}
}
