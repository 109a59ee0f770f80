package standin_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/standin"
)

func program(t *testing.T, text string) (*os.File, string) {
	t.Helper()
	at := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(at, []byte(text), 0o4755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	digest, err := standin.Digest(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, digest
}

func TestFill(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	data := t.TempDir()
	s, err := standin.New(data)
	if err != nil {
		t.Fatal(err)
	}
	name, err := s.Add()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.Shown(), name)
	run := func() error { return exec.CommandContext(t.Context(), file).Run() }
	if err := run(); !errors.Is(err, unix.ENOEXEC) || standin.Filled(file) {
		t.Fatalf("an empty one is executed: %v", err)
	}
	from, digest := program(t, "#!/bin/sh\nexit 0\n")
	other, otherDigest := program(t, "#!/bin/sh\nexit 1\n")
	if err := standin.Fill(file, other, digest); err == nil || !strings.Contains(err.Error(), "has changed since") {
		t.Errorf("another content: %v", err)
	}
	if text, _ := os.ReadFile(file); len(text) > 0 || standin.Filled(file) {
		t.Errorf("after a refusal it holds %q", text)
	}
	if err := standin.Fill(file, from, digest); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(file); err != nil || fi.Mode() != 0o555 {
		t.Errorf("its mode is %v, %v", fi.Mode(), err)
	}
	if err := run(); err != nil {
		t.Errorf("a filled one is not executed: %v", err)
	}
	if err := standin.Fill(file, from, digest); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := standin.Fill(file, other, otherDigest); err == nil || !strings.Contains(err.Error(), "another content was allowed before") {
		t.Errorf("another content later: %v", err)
	}
	// What lives is not swept, and what is gone is.
	if err := standin.Sweep(data); err != nil || !standin.Filled(file) {
		t.Errorf("a living set was swept: %v", err)
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(data + "/programs/session-*"); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
	if err := os.Mkdir(data+"/programs/session-dead", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := standin.Sweep(data); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(data + "/programs/session-*"); len(left) > 0 {
		t.Errorf("not swept: %s", left)
	}
}
