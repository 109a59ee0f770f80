package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/state/apply"
	"cloister/state/store"
)

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

// tick waits until the clock by which the kernel stamps files has moved on.
func tick(t *testing.T) {
	t.Helper()
	now := func() int64 {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		return st.Ctim.Nano()
	}
	for began := now(); now() == began; {
	}
}

type world struct {
	*testing.T
	data, project string
	store         *store.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, data: t.TempDir(), project: t.TempDir()}
	put(t, w.project, "a", "one")
	put(t, w.project, "d/b", "two")
	tick(t)
	var err error
	if w.store, err = store.Open(w.data, w.project); err != nil {
		t.Fatal(err)
	}
	return w
}

// session writes as an overlay would, for as long as do runs.
func (w *world) session(name string, do func(upper string)) {
	w.Helper()
	use, err := w.store.Begin(name, w.project, "")
	if err != nil {
		w.Fatal(err)
	}
	do(filepath.Join(use.Mount.Store, use.Mount.Project.Upper))
	if err := use.Close(); err != nil {
		w.Fatal(err)
	}
}

func (w *world) lock(name string) *store.Workspace {
	w.Helper()
	ws, err := w.store.Lock(name)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = ws.Close() })
	return ws
}

func (w *world) diff(ws *store.Workspace, checkpoint string) *store.Diff {
	w.Helper()
	d, err := ws.Diff(w.Context(), checkpoint, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = d.Close() })
	return d
}

func paths(d *store.Diff) string {
	var out []string
	for _, c := range d.Changes {
		out = append(out, string(c.Op)+" "+c.Path)
	}
	return strings.Join(out, ", ")
}

func (w *world) want(ws *store.Workspace, checkpoint, want string) {
	w.Helper()
	if got := paths(w.diff(ws, checkpoint)); got != want {
		w.Errorf("%s@%s: %q, want %q", ws.Name, checkpoint, got, want)
	}
}

func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestKeptOverSessions(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(up string) { put(t, up, "n", "new") })
	w.session("x", func(up string) { put(t, up, "a", "ONE") })
	w.want(w.lock("x"), "", "modified a, added n")
}

func TestCheckpointRestoreFork(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(up string) { put(t, up, "n", "1") })
	ws := w.lock("x")
	one := must(t, must2(ws.Save(t.Context(), "one", false, nil)), nil)
	_ = ws.Close()
	w.session("x", func(up string) { put(t, up, "n", "22"); put(t, up, "m", "2") })
	ws = w.lock("x")
	two, err := ws.Save(t.Context(), "two", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.want(ws, one.ID, "added n")
	w.want(ws, two.ID, "added m, added n")
	w.want(ws, "", "added m, added n")
	if _, err := ws.Fork(t.Context(), one.ID, []string{"f1", "f2"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Restore(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	w.want(ws, "", "added n")
	_ = ws.Close()
	w.session("f1", func(up string) { put(t, up, "only", "f1") })
	w.want(w.lock("f1"), "", "added n, added only")
	f2 := w.lock("f2")
	w.want(f2, "", "added n")
	_ = f2.Close()
	if err := w.store.Remove("x"); err != nil {
		t.Fatal(err)
	}
	w.want(w.lock("f2"), "", "added n") // its layers stay
}

func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestLiveCheckpointCopies(t *testing.T) {
	w := newWorld(t)
	use := must(t, must2(w.store.Begin("x", w.project, "")), nil)
	defer use.Close()
	up := filepath.Join(use.Mount.Store, use.Mount.Project.Upper)
	put(t, up, "n", "1")
	if err := unix.Mknod(filepath.Join(up, "a"), unix.S_IFCHR, 0); err != nil {
		t.Fatal(err)
	}
	ws := w.lock("x")
	frozen := 0
	c, err := ws.Save(t.Context(), "", true, func() (func() error, error) {
		frozen++
		return func() error { frozen--; return nil }, nil
	})
	if err != nil || frozen != 0 {
		t.Fatal(err, frozen)
	}
	put(t, up, "n", "changed afterwards")
	d := w.diff(ws, c.ID)
	if got := paths(d); got != "deleted a, added n" {
		t.Fatal(got)
	}
	if d.Changes[1].New.Size != 1 {
		t.Error("the checkpoint changed")
	}
	var running *store.Running
	if _, err := ws.Restore(t.Context(), c.ID); !errors.As(err, &running) {
		t.Errorf("restore of a running one: %v", err)
	}
}

func TestApplyUndo(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(up string) { put(t, up, "a", "ONE"); put(t, up, "n", "new") })
	ws := w.lock("x")
	if _, err := ws.Apply(w.diff(ws, ""), ""); err != nil {
		t.Fatal(err)
	}
	w.want(ws, "", "")
	if _, err := ws.Undo(1); err != nil {
		t.Fatal(err)
	}
	d := w.diff(ws, "")
	if got := paths(d); got != "modified a, added n" || len(d.Conflicts) != 0 {
		t.Errorf("%s, %v", got, d.Conflicts)
	}
	if _, err := ws.Apply(d, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Undo(2); err != nil {
		t.Error(err)
	}
	if _, err := ws.Undo(1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// Two applies of one file, taken back one after the other, and applied again between.
func TestUndoTwice(t *testing.T) {
	w := newWorld(t)
	apply := func(text string) {
		w.session("x", func(up string) { put(t, up, "a", text) })
		k, err := w.store.Lock("x")
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if _, err := k.Apply(w.diff(k, ""), text); err != nil {
			t.Fatal(err)
		}
	}
	apply("two")
	apply("three")
	ws := w.lock("x")
	for _, want := range []string{"two", "one"} {
		if _, err := ws.Undo(1); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(w.project, "a")); err != nil || string(text) != want {
			t.Errorf("%q, %v; want %q", text, err, want)
		}
	}
}

func TestConflicts(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(up string) { put(t, up, "a", "ONE"); put(t, up, "d/b", "TWO"); put(t, up, "n", "new") })
	put(t, w.project, "a", "mine")
	put(t, w.project, "n", "mine too")
	ws := w.lock("x")
	d := w.diff(ws, "")
	_, err := ws.Apply(d, "")
	var c apply.Conflicts
	if !errors.As(err, &c) || len(c) != 2 || c[0].Path != "a" || c[1].Path != "n" {
		t.Fatalf("got %v", err)
	}
	if text := must(t, must2(os.ReadFile(filepath.Join(w.project, "d/b"))), nil); string(text) != "two" {
		t.Error("something was written")
	}
}

// After an apply the person's later changes are seen by the next session.
func TestSettle(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(up string) { put(t, up, "a", "ONE"); put(t, up, "keep", "k") })
	ws := w.lock("x")
	d := must(t, must2(ws.Diff(t.Context(), "", []string{"a"})), nil)
	if _, err := ws.Apply(d, ""); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	_ = ws.Close()
	w.session("x", func(up string) {
		if _, err := os.Lstat(filepath.Join(up, "a")); err == nil {
			t.Error("the upper still hides the project's file")
		}
		if _, err := os.Lstat(filepath.Join(up, "keep")); err != nil {
			t.Error(err)
		}
	})
}

func TestDiscard(t *testing.T) {
	for _, stacked := range []bool{false, true} {
		w := newWorld(t)
		w.session("x", func(up string) {
			put(t, up, "a", "ONE")
			put(t, up, "n/o", "new")
			put(t, up, "keep", "k")
			if err := unix.Mknod(filepath.Join(up, "d"), unix.S_IFCHR, 0); err != nil {
				t.Fatal(err)
			}
		})
		ws := w.lock("x")
		if stacked {
			if _, err := ws.Save(t.Context(), "", false, nil); err != nil {
				t.Fatal(err)
			}
		}
		d := must(t, must2(ws.Diff(t.Context(), "", []string{"a", "n", "d"})), nil)
		if err := ws.Discard(context.Background(), d); err != nil {
			t.Fatal(err)
		}
		_ = d.Close()
		w.want(ws, "", "added keep")
	}
}

// A layer whose content was changed behind the store's back is not restored.
func TestVerify(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(up string) { put(t, up, "n", "1") })
	ws := w.lock("x")
	c := must(t, must2(ws.Save(t.Context(), "", false, nil)), nil)
	_ = ws.Close()
	use := must(t, must2(w.store.Begin("x", w.project, "")), nil)
	_ = use.Close()
	put(t, filepath.Join(use.Mount.Store, use.Mount.Project.Lower[0]), "n", "tampered")
	ws = w.lock("x")
	if _, err := ws.Restore(t.Context(), c.ID); err == nil || !strings.Contains(err.Error(), "not as it was made") {
		t.Errorf("got %v", err)
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(up string) {
		put(t, up, "closed/in", "1")
		if err := os.Chmod(filepath.Join(up, "closed"), 0); err != nil {
			t.Fatal(err)
		}
	})
	if err := w.store.Remove("x"); err != nil {
		t.Fatal(err)
	}
	var left []string
	_ = filepath.WalkDir(filepath.Join(w.data, "state"), func(name string, d os.DirEntry, _ error) error {
		left = append(left, name)
		return nil
	})
	if slices.ContainsFunc(left, func(n string) bool { return strings.Contains(n, "closed") || strings.HasSuffix(n, "/x") }) {
		t.Errorf("left: %q", left)
	}
}

// The home and the repository of a linked worktree are checkpointed with the project.
func TestParts(t *testing.T) {
	w := newWorld(t)
	use := must(t, must2(w.store.Begin("x", w.project, "claude")), nil)
	in := func(o store.Overlay) string { return filepath.Join(use.Mount.Store, o.Upper) }
	put(t, in(use.Mount.Home), "talk", "one")
	put(t, in(use.Mount.Git), "objects/o", "one")
	_ = use.Close()
	ws := w.lock("x")
	if ws.Agent != "claude" {
		t.Errorf("the agent is %q", ws.Agent)
	}
	for agent, want := range map[bool]bool{true: false, false: false} {
		if empty, err := ws.Empty(agent); err != nil || empty != want {
			t.Errorf("empty for an agent %t: %t, %v", agent, empty, err)
		}
	}
	c := must(t, must2(ws.Save(t.Context(), "", false, nil)), nil)
	_ = ws.Close()
	use = must(t, must2(w.store.Begin("x", w.project, "")), nil)
	for _, o := range []store.Overlay{use.Mount.Home, use.Mount.Git} {
		if len(o.Lower) != 1 {
			t.Fatalf("layers below: %q", o.Lower)
		}
	}
	put(t, in(use.Mount.Home), "talk", "more")
	_ = use.Close()
	ws = w.lock("x")
	if _, err := ws.Restore(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	_ = ws.Close()
	use = must(t, must2(w.store.Begin("x", w.project, "")), nil)
	defer use.Close()
	if _, err := os.Lstat(filepath.Join(in(use.Mount.Home), "talk")); err == nil {
		t.Error("the home did not go back")
	}
	if text := must(t, must2(os.ReadFile(filepath.Join(use.Mount.Store, use.Mount.Home.Lower[0], "talk"))), nil); string(text) != "one" {
		t.Errorf("the home says %q", text)
	}
}

// A checkpoint counts once it is recorded, and is used when it is what was recorded.
func TestRecord(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(up string) { put(t, up, "n", "1") })
	ws := w.lock("x")
	broken := errors.New("the record is full")
	ws.Sealed = func(store.Checkpoint) error { return broken }
	if _, err := ws.Save(t.Context(), "", false, nil); !errors.Is(err, broken) || len(ws.Checkpoints) != 0 || len(ws.Layers) != 0 {
		t.Fatalf("unrecorded: %v, %v", err, ws.Checkpoints)
	}
	recorded := ""
	ws.Sealed = func(c store.Checkpoint) error { recorded = c.Digest; return nil }
	c := must(t, must2(ws.Save(t.Context(), "", false, nil)), nil)
	if recorded == "" || recorded != c.Digest {
		t.Errorf("recorded %q of %q", recorded, c.Digest)
	}
	ws.Sealed = nil
	for digest, bad := range map[string]bool{c.Digest: false, "": false, "another": true} {
		ws.Known = func(store.Checkpoint) (string, error) { return digest, nil }
		if _, err := ws.Restore(t.Context(), c.ID); (err != nil) != bad {
			t.Errorf("recorded %q: %v", digest, err)
		}
	}
}

func TestCollect(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(up string) { put(t, up, "n", strings.Repeat("x", 10_000)) })
	use := must(t, must2(w.store.Begin("y", w.project, "")), nil)
	put(t, filepath.Join(use.Mount.Store, use.Mount.Project.Upper), "n", "1")
	_ = use.Close()
	if g, err := w.store.Collect(true); err != nil || g != (store.Garbage{}) {
		t.Fatalf("all is needed, but %+v, %v", g, err)
	}
	// What an interrupted discard leaves.
	if err := os.Remove(filepath.Join(w.data, "state", "x", "workspace.json")); err != nil {
		t.Fatal(err)
	}
	dry := must(t, must2(w.store.Collect(true)), nil)
	wet := must(t, must2(w.store.Collect(false)), nil)
	if dry != wet || wet.Layers != 1 || wet.Bytes < 10_000 {
		t.Errorf("dry %+v, wet %+v", dry, wet)
	}
	if again := must(t, must2(w.store.Collect(false)), nil); again != (store.Garbage{}) {
		t.Errorf("left %+v", again)
	}
	ws := w.lock("y")
	if g, err := w.store.Collect(false); err != nil || !g.Busy {
		t.Errorf("while somebody changes one: %+v, %v", g, err)
	}
	w.want(ws, "", "added n")
}

// Both changed a text, in different lines: merged, applied, and the person's part stays.
func TestMerge(t *testing.T) {
	for name, tt := range map[string]struct{ theirs, agent, want string }{
		"apart":       {"ONE\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n", "ONE\n2\n3\n4\nfive\n"},
		"a clash":     {"1\n2\nmine\n4\n5\n", "1\n2\nyours\n4\n5\n", ""},
		"no text now": {"1\x00", "1\n2\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			put(t, w.project, "a", "1\n2\n3\n4\n5\n")
			tick(t)
			w.session("x", func(up string) { put(t, up, "a", tt.agent); put(t, up, "n", "new") })
			ws := w.lock("x")
			_ = w.diff(ws, "") // as the end of the session looks
			if _, err := ws.Fork(t.Context(), "", []string{"f"}, nil); err != nil {
				t.Fatal(err)
			}
			put(t, w.project, "a", tt.theirs)
			for _, ws := range []*store.Workspace{ws, w.lock("f")} {
				d := w.diff(ws, "")
				merged, err := ws.Merge(d)
				if err != nil || (len(merged) == 1) != (tt.want != "") || (len(d.Conflicts) == 0) != (tt.want != "") {
					t.Fatalf("%q, %v, %v", merged, d.Conflicts, err)
				}
				if tt.want == "" {
					continue
				}
				if _, err := ws.Apply(d, ""); err != nil {
					t.Fatal(err)
				}
				if text := must(t, must2(os.ReadFile(filepath.Join(w.project, "a"))), nil); string(text) != tt.want {
					t.Errorf("merged: %q", text)
				}
				if err := ws.Adopt(t.Context(), merged); err != nil {
					t.Fatal(err)
				}
				w.want(ws, "", "")
				if _, err := ws.Undo(1); err != nil {
					t.Fatal(err)
				}
				if text := must(t, must2(os.ReadFile(filepath.Join(w.project, "a"))), nil); string(text) != tt.theirs {
					t.Errorf("undone: %q", text)
				}
			}
		})
	}
}

// A change that was taken back moves change times. What it put back is no change of the
// person's.
func TestTakenBackIsNoConflict(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(up string) {
		if err := unix.Mknod(filepath.Join(up, "d"), unix.S_IFCHR, 0); err != nil {
			t.Fatal(err)
		}
		put(t, up, "a", "ONE")
		put(t, up, "n/o", "new")
	})
	ws := w.lock("x")
	extra := filepath.Join(w.project, "d/extra")
	d := w.diff(ws, "")
	put(t, w.project, "d/extra", "the person's")
	var c apply.Conflicts
	if _, err := ws.Apply(d, ""); !errors.As(err, &c) || c[0].Path != "d" {
		t.Fatalf("the folder that is not empty any more: %v", err)
	}
	if err := os.Remove(extra); err != nil {
		t.Fatal(err)
	}
	if d = w.diff(ws, ""); len(d.Conflicts) > 0 {
		t.Fatalf("after it was taken back: %v", d.Conflicts)
	}
	if _, err := ws.Apply(d, ""); err != nil {
		t.Fatal(err)
	}
	put(t, w.project, "n/extra", "the person's")
	if _, err := ws.Undo(1); !errors.As(err, &c) || c[0].Path != "n" {
		t.Fatalf("undo of a folder that is not empty any more: %v", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(w.project, "n/extra")), ws.Close()); err != nil {
		t.Fatal(err)
	}
	w.session("x", func(up string) { put(t, up, "a", "ONE and more") })
	ws = w.lock("x")
	if d = w.diff(ws, ""); len(d.Conflicts) > 0 || paths(d) == "" {
		t.Errorf("after an undo was taken back: %s, %v", paths(d), d.Conflicts)
	}
	// Control: what the person changed is one.
	put(t, w.project, "a", "mine")
	if d = w.diff(ws, ""); len(d.Conflicts) != 1 {
		t.Errorf("what the person changed: %v", d.Conflicts)
	}
}

func TestUnchanged(t *testing.T) {
	w := newWorld(t)
	w.session("x", func(string) {})
	w.session("y", func(string) {})
	if err := errors.Join(w.store.RemoveUnchanged("x"), w.store.Remove("y")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, project string
		want          bool
	}{{"x", "", true}, {"y", "", false}, {"", w.project, true}, {"", "/elsewhere", false}} {
		if got := w.store.Unchanged(tt.name, tt.project); got != tt.want {
			t.Errorf("%q of %q: %t", tt.name, tt.project, got)
		}
	}
}
