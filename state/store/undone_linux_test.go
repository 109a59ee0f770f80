package store_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"cloister/state/store"
)

// What one workspace applied and took back is no change to those that began before it, also
// once that workspace is gone, and again after the next one's undo. To one that began between
// the two it is a change, and so is what the person writes afterwards.
func TestUndoneBeside(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"x", "y", "z"} {
		w.session(name, func(up string) { put(t, up, "a", "of "+name); put(t, up, "d/b", "of "+name) })
	}
	w.later()
	applied := w.holding("x", func(ws *store.Workspace) error {
		_, err := ws.Apply(w.diff(ws, ""), "")
		return err
	})
	w.session("late", func(up string) { put(t, up, "a", "of late") })
	undo := func(ws *store.Workspace) error {
		_, err := ws.Undo(1)
		return err
	}
	if err := errors.Join(applied, w.holding("x", undo), w.store.Remove("x")); err != nil {
		t.Fatal(err)
	}
	conflicts := func(name string) (out []string) {
		if err := w.holding(name, func(ws *store.Workspace) error {
			for _, c := range w.diff(ws, "").Conflicts {
				out = append(out, c.Path)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := conflicts("late"); len(got) != 1 || got[0] != "a" {
		t.Errorf("control: begun between apply and undo: conflicts of %q, want a", got)
	}
	w.later()
	if err := errors.Join(w.holding("y", func(ws *store.Workspace) error {
		_, err := ws.Apply(w.diff(ws, ""), "")
		return err
	}), w.holding("y", undo)); err != nil {
		t.Fatalf("apply what another one's undo brought back: %v", err)
	}
	if _, err := w.store.Collect(false); err != nil {
		t.Fatal(err)
	}
	if got := conflicts("z"); got != nil {
		t.Errorf("after two undos of others: conflicts of %q", got)
	}
	put(t, w.project, "a", "the person's")
	if got := conflicts("z"); len(got) != 1 || got[0] != "a" {
		t.Errorf("control: the person's own change: conflicts of %q, want a", got)
	}
	for _, name := range []string{"y", "z", "late"} {
		if err := w.store.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.store.Collect(false); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(w.data, "state", "restored-*")); err != nil || len(left) > 0 {
		t.Errorf("left of a project without workspaces: %q, %v", left, err)
	}
}

// later waits until the clock of files is certain to be past what was done so far.
func (w *world) later() {
	time.Sleep(50 * time.Millisecond) //nolint:forbidigo // two clocks of the kernel are apart by less
}

// holding calls do with a workspace, and gives it back.
func (w *world) holding(name string, do func(ws *store.Workspace) error) error {
	ws, err := w.store.Lock(name)
	if err != nil {
		return err
	}
	return errors.Join(do(ws), ws.Close())
}
