package taint_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/host/taint"
)

func read(t *testing.T, state string) *taint.Register {
	t.Helper()
	r, err := taint.Read(state)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func folder(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAPlaceIsKnownByNameAndByInode(t *testing.T) {
	base := t.TempDir()
	state, project := filepath.Join(base, "state"), folder(t, filepath.Join(base, "a \t\n\"project"))
	r := read(t, state)
	if _, in := r.Over(project); in {
		t.Fatal("an empty register knows a place")
	}
	pin := taint.Pin{Main: project, Git: filepath.Join(project, ".git")}
	if err := r.Enter(taint.Place{Kind: taint.Project, Path: project, Pin: pin}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(taint.File(state))
	if err != nil {
		t.Fatal(err)
	}
	r = read(t, state)
	if err := r.Enter(taint.Place{Kind: taint.Project, Path: project, Pin: pin}); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(taint.File(state)); err != nil || string(after) != string(before) {
		t.Errorf("entered twice: %q, %v", after, err)
	}
	if p, in := r.Over(folder(t, filepath.Join(project, "sub/bin"))); !in || p.Path != project || p.Pin != pin {
		t.Errorf("below it: %v, %v", p, in)
	}
	if _, in := r.Over(project + "beside"); in {
		t.Error("a longer name is taken for it")
	}
	moved := filepath.Join(base, "moved")
	if err := os.Rename(project, moved); err != nil {
		t.Fatal(err)
	}
	if p, in := r.Over(filepath.Join(moved, "sub")); !in || p.Path != project {
		t.Errorf("after it was moved: %v, %v", p, in)
	}
	fi, err := taint.Look(moved)
	if err != nil {
		t.Fatal(err)
	}
	if p, was := r.Moved(fi.ID, moved); !was || p.Path != project {
		t.Errorf("the moved project: %v, %v", p, was)
	}
	if err := r.Forget(project); err != nil {
		t.Fatal(err)
	}
	r = read(t, state)
	if _, pinned := r.Pinned(project); pinned {
		t.Error("a forgotten project is pinned")
	}
	if _, in := r.Over(moved); !in {
		t.Error("a forgotten project is no payload's place any more")
	}
}

func TestGarbageIsNoEmptyRegister(t *testing.T) {
	state := t.TempDir()
	project := folder(t, filepath.Join(state, "p"))
	if err := read(t, state).Enter(taint.Place{Kind: taint.Project, Path: project}); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(taint.File(state))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"other version": "cloister places 2\n", "binary": "\x00\x01\n", "kind": strings.Replace(string(sound), "project\t", "palace\t", 1),
		"fields": string(sound) + "project\t1\n", "name": string(sound) + "git\t1\t2\t3\t\"relative\"\t\"\"\t\"\"\n",
		"number": string(sound) + "git\t-1\t2\t3\t\"/x\"\t\"\"\t\"\"\n", "empty line": string(sound) + "\n",
	} {
		if err := os.WriteFile(taint.File(state), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var bad *taint.Bad
		if _, err := taint.Read(state); !errors.As(err, &bad) || !strings.Contains(err.Error(), taint.File(state)) || len(bad.Hints()) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A last line that was never finished belongs to a session that never began.
	if err := os.WriteFile(taint.File(state), append(sound, "git\t1\t2"...), 0o600); err != nil {
		t.Fatal(err)
	}
	r := read(t, state)
	if _, in := r.Over(project); !in {
		t.Error("the line before the unfinished one is gone")
	}
	if err := r.Enter(taint.Place{Kind: taint.Exposed, Path: state}); err != nil {
		t.Fatal(err)
	}
	if _, in := read(t, state).Named(filepath.Join(state, "x")); !in {
		t.Error("what was entered behind the unfinished line is gone")
	}
	if err := os.Chmod(taint.File(state), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := taint.Read(state); err == nil {
		t.Error("a register that everybody may write is read")
	}
	if err := os.Remove(taint.File(state)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", taint.File(state)); err != nil {
		t.Fatal(err)
	}
	if _, err := taint.Read(state); err == nil {
		t.Error("a register that is a link is read")
	}
}
