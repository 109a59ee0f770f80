package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cloister/workspace"
)

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no inode")
	}
	return st.Ino
}

func TestKeptStubs(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	repo(t, filepath.Join(dir, ".git"))
	kept := filepath.Join(filepath.Dir(dir), "data/stubs")
	v := plan(t, dir, workspace.Options{})
	if err := v.Release(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{".git"}) {
		t.Fatalf("left: %v", got)
	}
	before := names(t, kept)
	known := map[uint64]bool{}
	for _, name := range before {
		known[inode(t, filepath.Join(kept, name))] = true
	}

	v = plan(t, dir, workspace.Options{})
	for _, name := range []string{".vscode", ".idea", ".git/commondir", ".envrc"} {
		if !known[inode(t, filepath.Join(dir, name))] {
			t.Errorf("the second session made %s anew", name)
		}
	}
	// What somebody makes of a stub is theirs, and is not moved about.
	write(t, filepath.Join(dir, ".vscode/settings.json"), "mine")
	write(t, filepath.Join(dir, ".git/commondir"), "../other\n")
	if err := os.Chmod(filepath.Join(dir, ".idea"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := v.Release(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{".git", ".vscode"}) {
		t.Errorf("left: %v", got)
	}
	if text, err := os.ReadFile(filepath.Join(dir, ".git/commondir")); err != nil || string(text) != "../other\n" {
		t.Errorf("what somebody wrote is %q, %v", text, err)
	}
	if got := names(t, kept); len(got) != len(before)-3 {
		t.Errorf("kept %v of %v", got, before)
	}
}

// What was put into a kept stub behind Cloister's back comes into no project.
func TestKeptStubsSpoilt(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	repo(t, filepath.Join(dir, ".git"))
	kept := filepath.Join(filepath.Dir(dir), "data/stubs")
	if err := plan(t, dir, workspace.Options{}).Release(); err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t, kept) {
		switch {
		case strings.HasPrefix(name, "folder-"):
			write(t, filepath.Join(kept, name, "tasks.json"), "evil")
		case name != "socket":
			write(t, filepath.Join(kept, name), "/evil\n")
		}
	}
	v := plan(t, dir, workspace.Options{})
	if got := names(t, filepath.Join(dir, ".vscode")); len(got) != 0 {
		t.Errorf("a stub holds %v", got)
	}
	if text, err := os.ReadFile(filepath.Join(dir, ".git/commondir")); err != nil || string(text) != ".\n" {
		t.Errorf("a stub says %q, %v", text, err)
	}
	if err := v.Release(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{".git"}) {
		t.Errorf("left: %v", got)
	}
}

// Where stubs cannot be kept, they are made.
func TestKeptStubsNowhere(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	write(t, filepath.Join(dir, "f"), "")
	write(t, filepath.Join(filepath.Dir(dir), "data/stubs"), "")
	v := plan(t, dir, workspace.Options{})
	if !slices.Contains(names(t, dir), ".vscode") || !slices.Contains(names(t, dir), ".envrc") {
		t.Error("no stub was made")
	}
	if err := v.Release(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
		t.Errorf("left: %v", got)
	}
}
