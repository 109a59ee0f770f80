//go:build linux

package apply

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/state/layers"
)

// What cannot be put back yet, because its folder is not there, waits in the journal: the
// next call puts it back.
func TestTakenBackLater(t *testing.T) {
	project, dir, outside := t.TempDir(), t.TempDir(), t.TempDir()
	file, aside := filepath.Join(project, "d/a"), filepath.Join(project, "aside")
	err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("old"), 0o600))
	top, terr := layers.OpenFolder(project)
	if err := errors.Join(err, terr); err != nil {
		t.Fatal(err)
	}
	below, name, err := layers.Parent(top, "d/a")
	if err != nil {
		t.Fatal(err)
	}
	old, err := below.Stat(name)
	if err := errors.Join(err, below.Close(), top.Close()); err != nil {
		t.Fatal(err)
	}
	j, err := create(dir, project, "", "", []Step{{
		Path: "d/a", Old: old, New: layers.Node{Kind: layers.File, Mode: 0o600},
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("new")), nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := j.open()
	if err == nil {
		err = r.stageAll()
	}
	if err != nil {
		t.Fatal(err)
	}
	if why, err := r.step(0, j.Steps[0]); err != nil || why != "" {
		t.Fatal(why, err)
	}
	if err := errors.Join(os.Rename(filepath.Dir(file), aside), os.Symlink(outside, filepath.Dir(file))); err != nil {
		t.Fatal(err)
	}
	if err := r.takeBack(1); err == nil {
		t.Error("it was taken back through a link")
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Recover(dir, project); err == nil {
		t.Error("the next call took it back through a link")
	}
	if err := errors.Join(os.Remove(filepath.Dir(file)), os.Rename(aside, filepath.Dir(file))); err != nil {
		t.Fatal(err)
	}
	notes, _, err := Recover(dir, project)
	text, rerr := os.ReadFile(file)
	if err != nil || rerr != nil || string(text) != "old" {
		t.Errorf("got %q, %v, %v, %q", text, err, rerr, notes)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}
