package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/state/apply"
	"cloister/state/store"

	"golang.org/x/sys/unix"
)

const inFull = "CLOISTER_TEST_FULL_DISK"

// A disk that is full at any step of a verb ends it with one line, and the project is wholly
// as it was or wholly as it shall be; once there is room, the verb comes off. The disk is a
// small tmpfs in a mount namespace of its own.
func TestFullDisk(t *testing.T) {
	if !inNamespaces(t, inFull, "TestFullDisk/undo") {
		return
	}
	for _, verb := range []string{"checkpoint live", "checkpoint", "restore", "fork", "apply", "undo", "export", "import", "diff", "collect"} {
		t.Run(verb, func(t *testing.T) {
			failed, done := 0, 0
			for left := range 40 {
				if fullOnce(t, verb, left) {
					done++
				} else {
					failed++
				}
			}
			t.Logf("%d of 40 were too full", failed)
			if done == 0 || failed == 0 && verb != "collect" && verb != "diff" {
				t.Errorf("%d came off and %d did not: it tries nothing", done, failed)
			}
		})
	}
}

// fullOnce does a verb with so many pages left, and reports whether it came off.
func fullOnce(t *testing.T, verb string, left int) bool {
	at := t.TempDir()
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	w := &world{T: t, data: filepath.Join(at, "data"), project: filepath.Join(at, "project")}
	old, changed := strings.Repeat("old\n", 2000), strings.Repeat("new\n", 3000)
	for _, name := range []string{"a", "d/b", "e"} {
		put(t, w.project, name, old)
	}
	put(t, w.project, "mine", "the person's")
	tick(t)
	var err error
	if w.store, err = store.Open(w.data, w.project); err != nil {
		t.Fatal(err)
	}
	write := func(up string) {
		put(t, up, "a", changed)
		put(t, up, "d/b", changed)
		put(t, up, "n/o", changed)
	}
	act := w.prepared(t, verb, write)
	before := w.state(t)

	full := filepath.Join(at, "full")
	f, err := os.Create(full)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, os.Getpagesize()))
	}
	st, serr := f.Stat()
	if err := errors.Join(serr, f.Truncate(max(0, st.Size()-int64(left*os.Getpagesize()))), f.Close()); err != nil {
		t.Fatal(err)
	}
	err = act()
	if err != nil && (!errors.Is(err, unix.ENOSPC) || strings.Contains(err.Error(), "\n")) {
		t.Errorf("%d pages left: %v", left, err)
	}
	now := w.state(t)
	if want := w.after(verb, old, changed); now != before && now != want || err == nil && now != want {
		t.Errorf("%d pages left: %v: the project is\n%s\nit was\n%s", left, err, short(now), short(before))
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	// With room again everything can be opened, each checkpoint is whole, and nothing is in the way.
	names, nerr := w.store.Names()
	if nerr != nil {
		t.Fatal(nerr)
	}
	for _, name := range names {
		ws := w.lock(name)
		for _, c := range ws.Checkpoints {
			if err := ws.Verify(c); err != nil {
				t.Errorf("%d pages left: %s: %v", left, name, err)
			}
		}
		if err := ws.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// What was made, and could only not be noted, is noted by now.
	if want := w.after(verb, old, changed); err != nil && (now != want || before == want) {
		err := act()
		// What was taken back has another change time: a conflict, and nothing is written.
		if _, conflict := errors.AsType[apply.Conflicts](err); conflict && verb == "apply" {
			want = before
		} else if err != nil {
			t.Errorf("%d pages left: with room again: %v", left, err)
		}
		if is := w.state(t); is != want {
			t.Errorf("with room again the project is\n%s", short(is))
		}
	}
	return err == nil
}

func short(text string) string { return text[:min(len(text), 300)] }

// state is what the project has, by name.
func (w *world) state(t *testing.T) string {
	var out []string
	err := filepath.WalkDir(w.project, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		out = append(out, fmt.Sprintf("%s %q", strings.TrimPrefix(name, w.project), text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// after is what the project has once a verb came off.
func (w *world) after(verb, old, changed string) string {
	a, more := old, ""
	if verb == "apply" {
		a, more = changed, fmt.Sprintf("/n/o %q", changed)
	}
	lines := []string{fmt.Sprintf("/a %q", a), fmt.Sprintf("/d/b %q", a), fmt.Sprintf("/e %q", old), `/mine "the person's"`}
	if more != "" {
		lines = append(lines, more)
	}
	return strings.Join(lines, "\n")
}

// prepared makes what a verb needs, and gives the verb.
func (w *world) prepared(t *testing.T, verb string, write func(string)) func() error {
	var made store.Checkpoint
	with := func(do func(*store.Workspace) error) error {
		ws, err := w.store.Lock("x")
		if err != nil {
			return err
		}
		return errors.Join(do(ws), ws.Close())
	}
	save := func(ws *store.Workspace) (err error) {
		made, err = ws.Save(t.Context(), "", false, nil)
		return err
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if verb == "checkpoint live" {
		use, err := w.store.Begin("x", w.project, "")
		must(err)
		write(filepath.Join(use.Mount.Store, use.Mount.Project.Upper))
		t.Cleanup(func() { _ = use.Close() })
		return func() error { return with(save) }
	}
	w.session("x", write)
	applied := func(ws *store.Workspace) error {
		d, err := ws.Diff(t.Context(), "", nil)
		if err != nil {
			return err
		}
		_, err = ws.Apply(d, "all")
		return errors.Join(err, d.Close())
	}
	archive := filepath.Join(filepath.Dir(w.data), "archive")
	export := func(ws *store.Workspace) error {
		f, err := os.Create(archive)
		if err != nil {
			return err
		}
		err = ws.Export(f, made.ID, true)
		return errors.Join(err, f.Close())
	}
	switch verb {
	case "checkpoint":
		return func() error { return with(save) }
	case "restore":
		must(with(save))
		w.session("x", func(up string) { put(t, up, "later", "x") })
		return func() error {
			return with(func(ws *store.Workspace) error {
				_, err := ws.Restore(t.Context(), made.ID)
				return err
			})
		}
	case "fork":
		must(with(save))
		n := 0
		return func() error {
			n++
			return with(func(ws *store.Workspace) error {
				_, err := ws.Fork(t.Context(), made.ID, []string{fmt.Sprintf("y%d", n)}, nil)
				return err
			})
		}
	case "apply":
		return func() error { return with(applied) }
	case "undo":
		must(with(applied))
		return func() error {
			return with(func(ws *store.Workspace) error {
				_, err := ws.Undo(1)
				return err
			})
		}
	case "export":
		must(with(save))
		return func() error { return with(export) }
	case "import":
		must(with(save))
		must(with(export))
		return func() error {
			f, err := os.Open(archive)
			if err != nil {
				return err
			}
			defer f.Close()
			_, _, err = w.store.Import(t.Context(), f, "z", w.project, unrecorded)
			return err
		}
	case "diff":
		return func() error {
			return with(func(ws *store.Workspace) error {
				d, err := ws.Diff(t.Context(), "", nil)
				if err != nil {
					return err
				}
				return d.Close()
			})
		}
	}
	must(with(save))
	return func() error {
		_, err := w.store.Collect(false)
		return err
	}
}
