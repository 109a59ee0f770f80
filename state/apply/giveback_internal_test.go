//go:build linux

package apply

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

// taken is a project of which a step has put its new entry to the name "n", and holds what was
// there.
type taken struct {
	*run

	at   string // the project
	dir  *layers.Folder
	ours int
}

func take(t *testing.T) *taken {
	t.Helper()
	project := t.TempDir()
	if err := os.WriteFile(filepath.Join(project, "n"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	return takeIn(t, project)
}

// takeNew is taken without anything that was there.
func takeNew(t *testing.T) *taken {
	t.Helper()
	return takeIn(t, t.TempDir())
}

func takeIn(t *testing.T, project string) *taken {
	t.Helper()
	err := errors.Join(os.Symlink("elsewhere", filepath.Join(project, "beside")), os.Mkdir(filepath.Join(project, "sub"), 0o700))
	dir, derr := layers.OpenFolder(project)
	if err := errors.Join(err, derr); err != nil {
		t.Fatal(err)
	}
	old, err := dir.Stat("n")
	if err != nil {
		t.Fatal(err)
	}
	j, err := create(t.TempDir(), project, "", "", []Step{{
		Path: "n", Old: old, New: layers.Node{Kind: layers.File, Mode: 0o600},
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
	ours, err := r.hold(r.stage, "0", 0)
	if err != nil || ours < 0 {
		t.Fatal(ours, err)
	}
	t.Cleanup(func() { _ = errors.Join(unix.Close(ours), dir.Close(), r.close()) })
	if why, err := r.step(0, j.Steps[0]); err != nil || why != "" {
		t.Fatal(why, err)
	}
	return &taken{r, project, dir, ours}
}

func (k *taken) files(t *testing.T) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(k.at, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.Readlink(name)
		if d.Type().IsRegular() {
			var b []byte
			b, err = os.ReadFile(name)
			text = string(b)
		}
		rel := strings.ReplaceAll(strings.TrimPrefix(name, k.at+"/"), k.ID, "ID")
		out = append(out, rel+"="+text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

// Whatever another program does with the name between the two looks of a step, what it has
// there afterwards is what it would have without the step; or both are there.
func TestGiveBack(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(at func(string) string) error
		crashed   bool
		want      string
	}{
		"nothing": {func(func(string) string) error { return nil }, false, "beside=elsewhere n=old"},
		"exchanged with a link": {func(at func(string) string) error {
			return unix.Renameat2(unix.AT_FDCWD, at("n"), unix.AT_FDCWD, at("beside"), unix.RENAME_EXCHANGE)
		}, false, "beside=old n=elsewhere"},
		"moved within the folder": {func(at func(string) string) error { return os.Rename(at("n"), at("m")) },
			false, "beside=elsewhere m=old"},
		"saved by a rename": {func(at func(string) string) error {
			return errors.Join(os.WriteFile(at(".t"), []byte("saved"), 0o600), os.Rename(at(".t"), at("n")))
		}, false, "beside=elsewhere n=saved"},
		"saved, with a backup by a link": {func(at func(string) string) error {
			return errors.Join(os.Link(at("n"), at("n~")), os.WriteFile(at(".t"), []byte("saved"), 0o600), os.Rename(at(".t"), at("n")))
		}, false, "beside=elsewhere n=saved n~=old"},
		"removed": {func(at func(string) string) error { return os.Remove(at("n")) }, false, "beside=elsewhere"},
		"written in place": {func(at func(string) string) error { return os.WriteFile(at("n"), []byte("saved"), 0o600) },
			false, "beside=elsewhere n=saved n.kept-ID-0=old"},
		"moved to another folder": {func(at func(string) string) error { return os.Rename(at("n"), at("sub/n")) },
			false, "beside=elsewhere n=old sub/n=new"},
		"moved to another folder and made anew": {func(at func(string) string) error {
			return errors.Join(os.Rename(at("n"), at("sub/n")), os.WriteFile(at("n"), []byte("saved"), 0o600))
		}, false, "beside=elsewhere n=saved n.kept-ID-0=old sub/n=new"},
		"saved by a rename, and a crash": {func(at func(string) string) error {
			return errors.Join(os.WriteFile(at(".t"), []byte("saved"), 0o600), os.Rename(at(".t"), at("n")))
		}, true, "beside=elsewhere n=saved n.kept-ID-0=old"},
		"moved within the folder, and a crash": {func(at func(string) string) error { return os.Rename(at("n"), at("m")) },
			true, "beside=elsewhere m=new n=old"},
	} {
		t.Run(name, func(t *testing.T) {
			k := take(t)
			if err := c.meanwhile(func(name string) string { return filepath.Join(k.at, name) }); err != nil {
				t.Fatal(err)
			}
			if c.crashed {
				k.ours, k.stamps = -1, nil
			}
			if err := k.giveBack(k.dir, "n", 0, k.ours); err != nil {
				t.Fatal(err)
			}
			if err := k.leave(); err != nil {
				t.Fatal(err)
			}
			if is := k.files(t); is != c.want {
				t.Errorf("got  %s\nwant %s", is, c.want)
			}
			if beside := k.keptBeside(); (beside != "") != strings.Contains(c.want, "kept-") {
				t.Errorf("it says %q", beside)
			}
		})
	}
}

// A change that is taken back because of another file gives back also what came to lie in the
// staging folder meanwhile, and never removes it.
func TestTakenBackAmidExchange(t *testing.T) {
	k := take(t)
	// The state of a kill between two exchanges: the folder holds a link of the person's.
	err := unix.Renameat2(k.stage.Fd(), "0", k.dir.Fd(), "n", unix.RENAME_EXCHANGE)
	if err == nil {
		err = unix.Renameat2(k.stage.Fd(), "0", k.dir.Fd(), "beside", unix.RENAME_EXCHANGE)
	}
	if err != nil {
		t.Fatal(err)
	}
	k.stamps = nil
	if err := k.takeBack(0); err != nil {
		t.Fatal(err)
	}
	const want = "beside=new n=old n.kept-ID-0=elsewhere"
	if is := k.files(t); is != want {
		t.Errorf("got  %s\nwant %s", is, want)
	}
}

// A new entry is taken back wherever another program moved it within the folder, and left alone where that program
// made it its own.
func TestTakenAway(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(at func(string) string) error
		want      string
	}{
		"nothing": {func(func(string) string) error { return nil }, "beside=elsewhere"},
		"exchanged with a link": {func(at func(string) string) error {
			return unix.Renameat2(unix.AT_FDCWD, at("n"), unix.AT_FDCWD, at("beside"), unix.RENAME_EXCHANGE)
		}, "n=elsewhere"},
		"moved within the folder": {func(at func(string) string) error { return os.Rename(at("n"), at("m")) },
			"beside=elsewhere"},
		"moved to another folder": {func(at func(string) string) error { return os.Rename(at("n"), at("sub/n")) },
			"beside=elsewhere sub/n=new"},
		"saved by a rename": {func(at func(string) string) error {
			return errors.Join(os.WriteFile(at(".t"), []byte("saved"), 0o600), os.Rename(at(".t"), at("n")))
		}, "beside=elsewhere n=saved"},
		"written in place": {func(at func(string) string) error { return os.WriteFile(at("n"), []byte("saved"), 0o600) },
			"beside=elsewhere n=saved"},
		"removed": {func(at func(string) string) error { return os.Remove(at("n")) }, "beside=elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			k := takeNew(t)
			if err := c.meanwhile(func(name string) string { return filepath.Join(k.at, name) }); err != nil {
				t.Fatal(err)
			}
			if err := k.takeBack(1); err != nil {
				t.Fatal(err)
			}
			if is := k.files(t); is != c.want {
				t.Errorf("got  %s\nwant %s", is, c.want)
			}
		})
	}
}
