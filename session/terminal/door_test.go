package terminal_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/session/terminal"
)

func TestDoorIsForItsUserAndSwept(t *testing.T) {
	runtime, err := os.MkdirTemp("/tmp", "door") // a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	if err := terminal.SweepDoors(runtime, nil); err != nil {
		t.Errorf("with no folder: %v", err)
	}
	of := func(c string) string { return terminal.DoorOf(runtime, strings.Repeat(c, 32)) }
	var open terminal.Door
	if err := open.Open(of("a"), os.Getuid()); err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if fi, err := os.Stat(of("a")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	for _, c := range []string{"b", "c"} { // what crashes left
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: of(c), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	if err := terminal.SweepDoors(runtime, []string{strings.Repeat("c", 32)}); err != nil {
		t.Fatal(err)
	}
	for c, there := range map[string]bool{"a": true, "b": false, "c": true} {
		if _, err := os.Lstat(of(c)); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %v", filepath.Base(of(c)), err, there)
		}
	}
	open.Close()
	open.Close()
	if _, err := os.Lstat(of("a")); err == nil {
		t.Error("a closed door is still there")
	}
}
