package obeyed_test

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/workspace/obeyed"
)

// TestIn: what a repository's own configuration leads git to is obeyed, whatever it is called.
func TestIn(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("tools/mon.sh", "#!/bin/sh\n")
	write("shared", "[user]\n\tname = x\n")
	plain, err := obeyed.In(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git/HEAD", ".git/objects/x", ".git/refs/x"} {
		write(name, "ref: refs/heads/main\n")
	}
	write(".git/config", "[core]\n\thooksPath = tracked-hooks\n"+
		"[include]\n\tpath = ../shared\n[diff \"x\"]\n\ttextconv = tools/mon.sh --x\n")
	led, err := obeyed.In(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"tools/mon.sh": true, "shared": true, "tracked-hooks/pre-commit": true,
		"tracked-hooks": true, "tools/other.sh": false, "main.go": false} {
		if got := led(name); got != want {
			t.Errorf("%s is obeyed: %v", name, got)
		}
		if plain(name) { // the control: without that configuration no one is led there
			t.Errorf("%s is obeyed without a repository", name)
		}
	}
	if !led(".envrc") || !plain(".envrc") {
		t.Error("what runs by its name is not obeyed")
	}
}
