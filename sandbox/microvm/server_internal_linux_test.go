package microvm

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox"
)

// TestServerInRust: another virtiofsd than QEMU's own is refused by name.
func TestServerInRust(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "virtiofsd")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{self: "in Rust, which is not supported", plain: "is no program"} {
		u, ok := errors.AsType[*sandbox.Unsupported](inC(at))
		if !ok || !strings.Contains(u.Reason, want) || u.Fix == "" {
			t.Errorf("%s: %v", at, u)
		}
	}
	if at := "/usr/lib/qemu/" + serverName; exists(at) {
		if err := inC(at); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func exists(at string) bool {
	_, err := os.Stat(at)
	return err == nil
}

// TestOpens: a device that is root's alone is none for root's machines, and says what would help.
func TestOpens(t *testing.T) {
	at := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := opens(at); (err != nil) != (os.Geteuid() == 0) || err != nil && !strings.Contains(err.Error(), "chmod 0666 ") {
		t.Errorf("of root alone: %v", err)
	}
	if err := os.Chmod(at, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := opens(at); err != nil {
		t.Errorf("of all: %v", err)
	}
	if err := opens(at + "-none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of none: %v", err)
	}
}
