package seccomp_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox/seccomp"
)

// TestModes refuses set-id bits alone, and does nothing where it is to.
func TestModes(t *testing.T) {
	filter, err := seccomp.Modes(unix.SYS_MKDIRAT)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(name, 0o4755); err != nil {
		t.Fatalf("the control: %v", err)
	}
	type tried struct {
		plain, set, made, none error
	}
	done := make(chan tried, 1)
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			failed <- err
			return
		}
		if err := seccomp.Enter(filter); err != nil {
			failed <- err
			return
		}
		var out tried
		out.plain, out.set = unix.Fchmodat(unix.AT_FDCWD, name, 0o755, 0), unix.Fchmodat(unix.AT_FDCWD, name, 0o4755, 0)
		out.made = unix.Mknodat(unix.AT_FDCWD, name+"2", unix.S_IFREG|0o2755, 0)
		out.none = unix.Mkdirat(unix.AT_FDCWD, name, 0o755) // a file is there
		done <- out
	}()
	select {
	case err := <-failed:
		t.Fatal(err)
	case out := <-done:
		if out.plain != nil || !errors.Is(out.set, unix.EPERM) || !errors.Is(out.made, unix.EPERM) || out.none != nil {
			t.Errorf("%+v", out)
		}
	}
}
