package apply_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloister/state/apply"
	"cloister/state/layers"
)

// snapshot is a tree as text: path, mode and content of each entry.
func snapshot(t *testing.T, top string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == top {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		text := fi.Mode().String()
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += " " + string(b)
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text += " -> " + to
		}
		out[strings.TrimPrefix(name, top+"/")] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func put(t *testing.T, top, name, text string) {
	t.Helper()
	p := filepath.Join(top, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// grow makes a project and a layer of random changes to it.
func grow(t *testing.T, seed uint64) (project, layer string) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	project, layer = t.TempDir(), t.TempDir()
	var names []string
	for i := range 30 {
		name := strings.Repeat(fmt.Sprintf("d%d/", r.IntN(4)), r.IntN(4)) + fmt.Sprintf("f%d", i)
		if i%3 == 0 {
			name += "\xff\xc3\"" // bytes that are no text
		}
		put(t, project, name, strings.Repeat("x", r.IntN(40)))
		names = append(names, name)
	}
	for _, name := range names {
		at := filepath.Join(layer, name)
		switch r.IntN(6) {
		case 0:
			put(t, layer, name, "changed "+name)
		case 1:
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), unix.Mknod(at, unix.S_IFCHR, 0)); err != nil {
				t.Fatal(err)
			}
		case 2:
			put(t, layer, name+".d/deep/er", "new")
		case 3:
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink("elsewhere", at)); err != nil {
				t.Fatal(err)
			}
		case 4:
			put(t, layer, name+"/in", "a folder now")
		}
	}
	return project, layer
}

func changes(t *testing.T, project, layer string) (*layers.Stack, []layers.Change) {
	t.Helper()
	s, err := layers.Open(project, []string{layer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	list, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s, list
}

func stepsOf(t *testing.T, s *layers.Stack, list []layers.Change) []apply.Step {
	t.Helper()
	steps, err := apply.Steps(s, list)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

func TestApplyAndUndo(t *testing.T) {
	for seed := range uint64(12) {
		project, layer := grow(t, seed)
		before, dir := snapshot(t, project), t.TempDir()
		s, list := changes(t, project, layer)
		j, err := apply.Start(dir, project, "", stepsOf(t, s, list))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if _, left := changes(t, project, layer); len(left) != 0 {
			t.Fatalf("seed %d: left after apply: %v", seed, left)
		}
		u, err := j.Undo(dir)
		if err != nil {
			t.Fatalf("seed %d: undo: %v", seed, err)
		}
		if diff := cmp.Diff(before, snapshot(t, project)); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if undone, err := j.Undone(); err != nil || !undone {
			t.Error("the journal does not know that it was taken back")
		}
		if _, err := u.Undo(dir); err != nil {
			t.Fatalf("seed %d: undo of the undo: %v", seed, err)
		}
		if _, left := changes(t, project, layer); len(left) != 0 {
			t.Fatalf("seed %d: left: %v", seed, left)
		}
	}
}

func TestConflictWritesNothing(t *testing.T) {
	for name, meddle := range map[string]func(project string) error{
		"changed": func(p string) error { return os.WriteFile(filepath.Join(p, "a"), []byte("mine, longer"), 0o600) },
		"removed": func(p string) error { return os.Remove(filepath.Join(p, "a")) },
		"made":    func(p string) error { return os.WriteFile(filepath.Join(p, "new"), []byte("mine"), 0o600) },
		"a link": func(p string) error {
			return errors.Join(os.RemoveAll(filepath.Join(p, "d")), os.Symlink("/tmp", filepath.Join(p, "d")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			project, layer := t.TempDir(), t.TempDir()
			for _, n := range []string{"a", "b", "d/c"} {
				put(t, project, n, "old")
				put(t, layer, n, "changed")
			}
			put(t, layer, "new", "new")
			s, list := changes(t, project, layer)
			steps := stepsOf(t, s, list)
			if err := meddle(project); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, project)
			_, err := apply.Start(t.TempDir(), project, "", steps)
			if _, ok := errors.AsType[apply.Conflicts](err); !ok {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(before, snapshot(t, project)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is applied has no set-id bit, whoever set it.
func TestSetIDIsDropped(t *testing.T) {
	project, layer := t.TempDir(), t.TempDir()
	put(t, layer, "x", "#!/bin/sh\n")
	if err := unix.Chmod(filepath.Join(layer, "x"), 0o6755); err != nil {
		t.Fatal(err)
	}
	s, list := changes(t, project, layer)
	if _, err := apply.Start(t.TempDir(), project, "", stepsOf(t, s, list)); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(project, "x"), &st); err != nil || st.Mode&0o7777 != 0o755 {
		t.Errorf("mode %o, %v", st.Mode&0o7777, err)
	}
}

// A folder that its owner could not look into is made as one that they can.
func TestClosedFolder(t *testing.T) {
	project, layer, dir := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, layer, "closed/in", "x")
	if err := os.Chmod(filepath.Join(layer, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(layer, "closed"), 0o700) })
	s, list := changes(t, project, layer)
	j, err := apply.Start(dir, project, "", stepsOf(t, s, list))
	if err != nil {
		t.Fatal(err)
	}
	if got := snapshot(t, project); got["closed"] != "drwx------" || got["closed/in"] != "-rw-r--r-- x" {
		t.Errorf("got %v", got)
	}
	if _, err := j.Undo(dir); err != nil {
		t.Error(err)
	}
	if got := snapshot(t, project); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// A live session of the same project writes to everything that lies in it: nothing of an
// apply may wait there, unless the journal lies on another file system.
func TestNothingWaitsInTheProject(t *testing.T) {
	elsewhere, err := os.MkdirTemp("/dev/shm", "apply")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(elsewhere) })
	for _, tt := range []struct {
		name, project, want string
	}{
		{"one file system", t.TempDir(), "a"},
		{"two file systems", elsewhere, ".cloister-apply a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, layer := t.TempDir(), t.TempDir()
			put(t, tt.project, "a", "old")
			put(t, layer, "a", "new")
			s, list := changes(t, tt.project, layer)
			steps, seen := stepsOf(t, s, list), ""
			content := steps[0].Open
			steps[0].Open = func() (io.ReadCloser, error) {
				entries, err := os.ReadDir(tt.project)
				for _, e := range entries {
					name, _, _ := strings.Cut(e.Name(), "-apply-")
					if name != e.Name() {
						name += "-apply"
					}
					seen = strings.TrimSpace(seen + " " + name)
				}
				if err != nil {
					return nil, err
				}
				return content()
			}
			j, err := apply.Start(dir, tt.project, "", steps)
			if err != nil {
				t.Fatal(err)
			}
			if seen != tt.want {
				t.Errorf("while it is staged the project has %q, want %q", seen, tt.want)
			}
			want := map[string]string{"a": "-rw-r--r-- new"}
			if diff := cmp.Diff(want, snapshot(t, tt.project)); diff != "" {
				t.Error(diff)
			}
			if _, err := j.Undo(dir); err != nil {
				t.Fatal(err)
			}
			want["a"] = "-rw-r--r-- old"
			if diff := cmp.Diff(want, snapshot(t, tt.project)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Holes stay holes, there and back: a payload makes a file of terabytes in no time.
func TestSparseFile(t *testing.T) {
	project, layer, dir := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, project, "a", "old")
	put(t, layer, "a", "begin")
	put(t, layer, "b", "begin")
	for _, name := range []string{"a", "b"} {
		if err := os.Truncate(filepath.Join(layer, name), 1<<41); err != nil {
			t.Fatal(err)
		}
	}
	s, list := changes(t, project, layer)
	j, err := apply.Start(dir, project, "", stepsOf(t, s, list))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(project, name), &st); err != nil || st.Size != 1<<41 || st.Blocks > 64 {
			t.Errorf("%s: %d bytes in %d blocks, %v", name, st.Size, st.Blocks, err)
		}
	}
	if _, err := j.Undo(dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(project, "a")); err != nil || string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
}

// What a payload opens to all users of the machine is not opened in the project.
func TestWritableForAllIsDropped(t *testing.T) {
	project, layer := t.TempDir(), t.TempDir()
	put(t, project, "shared", "old")
	put(t, project, "same", "same")
	put(t, layer, "shared", "new")
	put(t, layer, "same", "same")
	put(t, layer, "d/f", "new")
	for _, name := range []string{"shared", "same", "d/f", "d"} {
		if err := os.Chmod(filepath.Join(layer, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(project, "shared"), 0o666); err != nil { // the person's own word
		t.Fatal(err)
	}
	s, list := changes(t, project, layer)
	if _, err := apply.Start(t.TempDir(), project, "", stepsOf(t, s, list)); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"d": "drwxrwxr-x", "d/f": "-rwxrwxr-x new", "same": "-rwxrwxr-x same", "shared": "-rwxrwxrwx new"}
	if diff := cmp.Diff(want, snapshot(t, project)); diff != "" {
		t.Error(diff)
	}
	if _, left := changes(t, project, layer); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
