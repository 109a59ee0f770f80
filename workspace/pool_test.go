package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/sandbox"
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

// keptOf is where the stubs of a project are between its sessions.
func keptOf(t *testing.T, dir string) string {
	t.Helper()
	all := filepath.Join(filepath.Dir(dir), "data/stubs")
	return filepath.Join(all, only(t, all, "*"))
}

func TestKeptStubs(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	repo(t, filepath.Join(dir, ".git"))
	refill(t, dir)
	if got := names(t, dir); !slices.Equal(got, []string{".git"}) {
		t.Fatalf("left: %v", got)
	}
	kept := keptOf(t, dir)
	before := names(t, kept)
	known := map[uint64]bool{}
	for _, name := range before {
		known[inode(t, filepath.Join(kept, name))] = true
	}

	v := plan(t, dir, workspace.Options{})
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
	if got := names(t, kept); len(got) != len(before)-3 && len(got) != 1 { // 1: see refill
		t.Errorf("kept %v of %v", got, before)
	}
}

// What was put into a kept stub behind Cloister's back comes into no project.
func TestKeptStubsSpoilt(t *testing.T) {
	dir := filepath.Join(base(t), "p")
	repo(t, filepath.Join(dir, ".git"))
	refill(t, dir)
	kept := keptOf(t, dir)
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

// While another cloister may write to the folder, of another instance and by way
// of the folder above or of an exposed one, no stub is kept.
func TestKeptStubsSeen(t *testing.T) {
	top := base(t)
	dir := filepath.Join(top, "above/p")
	repo(t, filepath.Join(dir, ".git"))
	refill(t, dir)
	kept := func() int { return len(names(t, keptOf(t, dir))) }
	whole := kept()
	other := filepath.Join(top, "other")
	write(t, filepath.Join(other, "f"), "")
	for name, v := range map[string]func() *workspace.View{
		"above": func() *workspace.View { return planIn(t, filepath.Join(top, "above"), top, workspace.Options{}) },
		"same":  func() *workspace.View { return planIn(t, dir, top, workspace.Options{}) },
		"exposed": func() *workspace.View {
			return planIn(t, other, top, workspace.Options{Expose: []workspace.Expose{{Path: dir, Access: sandbox.ReadWrite}}})
		},
		"none": func() *workspace.View {
			return planIn(t, other, top, workspace.Options{None: true, Expose: []workspace.Expose{{Path: filepath.Join(top, "above"), Access: sandbox.ReadWrite}}})
		},
	} {
		outer, inner := v(), plan(t, dir, workspace.Options{})
		if err := inner.Release(); err != nil {
			t.Fatal(err)
		}
		want := 1 // the socket, which is never moved
		if name == "same" {
			want = whole // the other's stubs were there already, and none was taken
		}
		if kept() != want {
			t.Errorf("%s: %d stubs were kept, want %d", name, kept(), want)
		}
		if err := outer.Release(); err != nil {
			t.Fatal(err)
		}
		refill(t, dir)
		if kept() != whole {
			t.Errorf("%s: %d stubs of %d are kept afterwards", name, kept(), whole)
		}
	}
}

// refill plans until stubs are kept besides the socket: a move of any other session
// on this machine holds the folders above for a moment, and then none is.
func refill(t *testing.T, dir string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		if err := plan(t, dir, workspace.Options{}).Release(); err != nil {
			t.Fatal(err)
		}
		if len(names(t, keptOf(t, dir))) > 1 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("no stub is kept")
		}
	}
}

// planIn is plan by another instance.
func planIn(t *testing.T, dir, state string, o workspace.Options) *workspace.View {
	t.Helper()
	p, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	o.Data, o.Locks = filepath.Join(state, "data"), filepath.Join(state, "locks")
	v, err := planOf(t, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
