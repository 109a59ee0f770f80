package store_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/needs"
	"cloister/state/parts"
	"cloister/state/store"
)

const onRamfs = "CLOISTER_TEST_RAMFS"

// A store on a file system without extended attributes, a ramfs in a mount namespace of its own,
// takes no session: overlayfs would lie there, and a command that removes a folder would fail.
func TestNoAttributes(t *testing.T) {
	if os.Getenv(onRamfs) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoAttributes$", "-test.v")
		cmd.Env = append(os.Environ(), onRamfs+"=1")
		one := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: one(os.Getuid()), GidMappings: one(os.Getgid()),
		}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
			needs.Missing(t, "userns", err)
		}
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestNoAttributes")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for _, kind := range []string{"ramfs", "tmpfs"} {
		at, project := t.TempDir(), t.TempDir()
		if err := unix.Mount(kind, at, kind, 0, ""); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(at, project)
		if err != nil {
			t.Fatal(err)
		}
		use, err := s.Begin("x", project, "")
		none, refused := errors.AsType[*parts.NoAttributes](err)
		// tmpfs keeps them since Linux 6.6; what this one does is asked of it directly.
		want := errors.Is(unix.Setxattr(at, "user.x", []byte("y"), 0), unix.ENOTSUP)
		if refused != want || kind == "ramfs" && !want || !refused && err != nil {
			t.Errorf("%s: %v (%v), want refused: %v", kind, err, none, want)
		}
		if names, err := s.Names(); err != nil || refused && len(names) != 0 {
			t.Errorf("%s: a workspace is left: %q, %v", kind, names, err)
		}
		if err := errors.Join(use.Close(), unix.Unmount(at, unix.MNT_DETACH)); err != nil {
			t.Error(err)
		}
	}
}
