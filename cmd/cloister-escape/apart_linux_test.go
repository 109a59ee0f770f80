package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inMounts runs a test once more where it may mount and other tests change nothing,
// and tells whether this is there.
func inMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv("ESCAPE_TEST_MOUNTS") == t.Name() {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), "ESCAPE_TEST_MOUNTS="+t.Name(), "ESCAPE_TEST_DIR="+t.TempDir())
	one := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, UidMappings: one(os.Geteuid()), GidMappings: one(os.Getegid())}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// What attempts may write is no more writable for it, and all else is read-only.
func TestReadOnlyStaysReadOnly(t *testing.T) {
	if !inMounts(t) {
		return
	}
	dir := os.Getenv("ESCAPE_TEST_DIR")
	free := filepath.Join(dir, "free")
	held := filepath.Join(free, "held")
	if err := os.MkdirAll(held, 0o755); err != nil {
		t.Fatal(err)
	}
	// As container engines do it: not the file system is read-only, but the mount.
	err := unix.Mount("held", held, "tmpfs", 0, "")
	if err == nil {
		err = unix.MountSetattr(unix.AT_FDCWD, held, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := readOnlyBut([]string{free, "/proc"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{dir: unix.EROFS, free: nil, held: unix.EROFS} {
		if err := os.WriteFile(filepath.Join(path, "new"), nil, 0o644); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// A change of this host's own mounts is seen, which the process apart cannot see.
func TestChangesAreSeenOutside(t *testing.T) {
	if !inMounts(t) {
		return
	}
	dir := os.Getenv("ESCAPE_TEST_DIR")
	var o options
	o.Self = filepath.Join(dir, "self")
	text := fmt.Sprintf("#!/bin/sh\n[ $2 = none ] || nsenter -t $PPID -m mount -t tmpfs %s %s || exit 9\nexit 3\n", dir, dir)
	if err := os.WriteFile(o.Self, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	err := apart(t.Context(), o, []string{"none"})
	if status, ok := errors.AsType[*statusError](err); !ok || status.code != 3 {
		t.Errorf("%v, want its status", err)
	}
	err = apart(t.Context(), o, []string{"one"})
	if _, ok := errors.AsType[*statusError](err); ok || err == nil || !strings.Contains(err.Error(), "the host was changed: new: mount") {
		t.Errorf("%v, want the mount", err)
	}
}

// Devices come and go while /dev is copied.
func TestGoneDevicesAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for n := range 1000 {
		if err := os.MkdirAll(filepath.Join(from, fmt.Sprintf("%04d", n), "below"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for n := 999; n >= 100 && err == nil; n-- {
			err = os.RemoveAll(filepath.Join(from, fmt.Sprintf("%04d", n)))
		}
		done <- err
	}()
	if err := errors.Join(copyDevices(from, to), <-done); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(to); err != nil || len(list) < 100 {
		t.Errorf("%d copied: %v", len(list), err)
	}
}
