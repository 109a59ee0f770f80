package kept_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/session/kept"
	"cloister/state/store"
)

// world is a project with a workspace in which a session wrote.
type world struct {
	*kept.Hand
	project  string
	recorded []string
	fails    error // of the record
}

func newWorld(t *testing.T) *world {
	t.Helper()
	data, project := t.TempDir(), t.TempDir()
	s, err := store.Open(data, project)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{project: project}
	w.Hand = &kept.Hand{Store: s, Audit: t.TempDir(), Known: func(string) error { return nil },
		Record: func(_ context.Context, r api.StateRecord) error {
			what := r.Kind
			if r.Failed {
				what += " failed: " + r.Resource
			}
			w.recorded = append(w.recorded, what)
			return w.fails
		},
		Hold: func(context.Context, string) (func() error, error) { return nil, errors.New("nothing runs") },
	}
	return w
}

// A workspace whose description names a folder in which no cloister was used changes nothing there.
func TestWorkspaceOfAnotherFolder(t *testing.T) {
	w := newWorld(t)
	w.session(t, map[string]string{"a": "new"})
	w.Known = func(main string) error { return fmt.Errorf("%s: %w", main, fs.ErrNotExist) }
	ws, err := w.Store.Lock("k")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.Close() }()
	d, err := w.Diff(t.Context(), ws, "", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	unused := (*kept.Unused)(nil)
	if _, err := w.Apply(t.Context(), ws, d, nil, true); !errors.As(err, &unused) || len(unused.Hints()) == 0 {
		t.Errorf("apply: %v", err)
	}
	if _, err := w.Undo(t.Context(), ws, 1); !errors.As(err, &unused) {
		t.Errorf("undo: %v", err)
	}
	if entries, err := os.ReadDir(w.project); err != nil || len(entries) > 0 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	if len(w.recorded) > 0 {
		t.Errorf("recorded %q", w.recorded)
	}
}

// session writes files as one session does.
func (w *world) session(t *testing.T, files map[string]string) {
	t.Helper()
	use, err := w.Store.Begin("k", w.project, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(use.Mount.Store, use.Mount.Project.Upper, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := use.Close(); err != nil {
		t.Fatal(err)
	}
}

func (w *world) there(name string) bool {
	_, err := os.Lstat(filepath.Join(w.project, name))
	return err == nil
}

// TestShownIsApplied: a page's apply brings over what it showed, or nothing.
func TestShownIsApplied(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.session(t, map[string]string{"a": "one\n", ".envrc": "export A=1\n"})
	d, err := w.Shown(ctx, "k", kept.Look{Path: "a"})
	if err != nil || d.Patch == "" || len(d.Changes) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	d, err = w.Shown(ctx, "k", kept.Look{})
	if err != nil || len(d.Changes) != 2 || len(d.Held) != 1 || d.Held[0].Path != ".envrc" {
		t.Fatalf("%+v, %v", d, err)
	}
	yes := api.WorkspaceAct{Digest: d.Digest, AutoRun: true}
	for name, act := range map[string]api.WorkspaceAct{
		"without the word":   {Digest: d.Digest},
		"without the digest": {AutoRun: true},
		"another digest":     {AutoRun: true, Digest: d.Digest[1:] + "0"},
	} {
		if _, err := w.Act(ctx, "k", "apply", act); err == nil || w.there("a") {
			t.Errorf("%s: applied, %v", name, err)
		}
	}
	w.session(t, map[string]string{"a": "two\n"}) // of the same size
	var refused *kept.Refused
	if _, err := w.Act(ctx, "k", "apply", yes); !errors.As(err, &refused) || w.there("a") {
		t.Errorf("what changed after it was shown: %v", err)
	}
	d, err = w.Shown(ctx, "k", kept.Look{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.Act(ctx, "k", "apply", api.WorkspaceAct{Digest: d.Digest, AutoRun: true})
	if err != nil || len(out.Changes) != 2 || !w.there("a") {
		t.Fatalf("%+v, %v", out, err)
	}
	list, err := w.List(ctx)
	if err != nil || len(list) != 1 || len(list[0].Applied) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := w.Act(ctx, "k", "undo", api.WorkspaceAct{Message: "another"}); !errors.As(err, &refused) || !w.there("a") {
		t.Errorf("undo of another apply: %v", err)
	}
	if _, err := w.Act(ctx, "k", "undo", api.WorkspaceAct{Message: list[0].Applied[0]}); err != nil || w.there("a") {
		t.Errorf("undo: %v", err)
	}
}

// TestRunningIsNotApplied: what may change after it was shown needs a checkpoint.
func TestRunningIsNotApplied(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.session(t, map[string]string{"a": "one\n"})
	made, err := w.Act(ctx, "k", "checkpoint", api.WorkspaceAct{Message: "m"})
	if err != nil {
		t.Fatal(err)
	}
	use, err := w.Store.Begin("k", w.project, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = use.Close() }()
	now, err := w.Shown(ctx, "k", kept.Look{})
	if err != nil {
		t.Fatal(err)
	}
	var refused *kept.Refused
	if _, err := w.Act(ctx, "k", "apply", api.WorkspaceAct{Digest: now.Digest}); !errors.As(err, &refused) || w.there("a") {
		t.Errorf("a running one: %v", err)
	}
	var running *store.Running
	if _, err := w.Act(ctx, "k", "restore", api.WorkspaceAct{Checkpoint: made.Checkpoint.ID}); !errors.As(err, &running) {
		t.Errorf("restore of a running one: %v", err)
	}
	then, err := w.Shown(ctx, "k", kept.Look{At: made.Checkpoint.ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Act(ctx, "k", "apply", api.WorkspaceAct{Checkpoint: made.Checkpoint.ID, Digest: then.Digest}); err != nil || !w.there("a") {
		t.Errorf("its checkpoint: %v", err)
	}
}

// TestUnrecorded: what cannot be recorded is not done.
func TestUnrecorded(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.session(t, map[string]string{"a": "one\n"})
	made, err := w.Act(ctx, "k", "checkpoint", api.WorkspaceAct{Message: "m"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := w.Shown(ctx, "k", kept.Look{})
	if err != nil {
		t.Fatal(err)
	}
	w.fails = errors.New("the disk is full")
	for verb, act := range map[string]api.WorkspaceAct{
		"checkpoint": {}, "restore": {Checkpoint: made.Checkpoint.ID}, "fork": {}, "apply": {Digest: d.Digest},
	} {
		if _, err := w.Act(ctx, "k", verb, act); !errors.Is(err, w.fails) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	names, err := w.Store.Names()
	list, lerr := w.List(ctx)
	if errors.Join(err, lerr) != nil || !slices.Equal(names, []string{"k"}) || len(list[0].Checkpoints) != 1 || w.there("a") {
		t.Errorf("something was done: %v %+v %v", names, list, errors.Join(err, lerr))
	}
}

// TestBusy: nobody waits for a workspace that a command has locked.
func TestBusy(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.session(t, map[string]string{"a": "one\n"})
	locked, err := w.Store.Lock("k")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locked.Close() }()
	list, err := w.List(ctx)
	if err != nil || len(list) != 1 || !list[0].Busy || list[0].Project != w.project {
		t.Errorf("%+v, %v", list, err)
	}
	var busy *store.Busy
	if _, err := w.Act(ctx, "k", "checkpoint", api.WorkspaceAct{}); !errors.As(err, &busy) {
		t.Errorf("an act: %v", err)
	}
	if _, err := w.Shown(ctx, "nosuch", kept.Look{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("one that there is none of: %v", err)
	}
}

// TestForgedTime: a time that a program set does not hide what changed since a checkpoint.
func TestForgedTime(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.session(t, map[string]string{"a": "one\n", "b": "same\n"})
	made, err := w.Act(ctx, "k", "checkpoint", api.WorkspaceAct{})
	if err != nil {
		t.Fatal(err)
	}
	use, err := w.Store.Begin("k", w.project, "")
	if err != nil {
		t.Fatal(err)
	}
	layer := filepath.Join(use.Mount.Store, use.Mount.Project.Lower[0])
	for name, text := range map[string]string{"a": "two\n", "b": "same\n"} {
		then, err := os.Stat(filepath.Join(layer, name))
		if err != nil {
			t.Fatal(err)
		}
		now := filepath.Join(use.Mount.Store, use.Mount.Project.Upper, name)
		if err := errors.Join(os.WriteFile(now, []byte(text), 0o600), os.Chtimes(now, then.ModTime(), then.ModTime())); err != nil {
			t.Fatal(err)
		}
	}
	if err := use.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := w.Shown(ctx, "k", kept.Look{Since: made.Checkpoint.ID})
	if err != nil || len(d.Changes) != 1 || d.Changes[0].Path != "a" {
		t.Errorf("since the checkpoint: %+v, %v", d.Changes, err)
	}
}

// TestHoles: files of terabytes that take no room are not read.
func TestHoles(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	const huge = 4 << 40
	sparse := func(dir, name string) {
		t.Helper()
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Truncate(huge), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	sparse(w.project, "moved")
	sparse(w.project, "touched")
	use, err := w.Store.Begin("k", w.project, "")
	if err != nil {
		t.Fatal(err)
	}
	upper := filepath.Join(use.Mount.Store, use.Mount.Project.Upper)
	sparse(upper, "elsewhere")
	sparse(upper, "touched")
	if err := errors.Join(os.Chmod(filepath.Join(upper, "touched"), 0o755), os.Remove(filepath.Join(w.project, "moved")), use.Close()); err != nil {
		t.Fatal(err)
	}
	made, err := w.Act(ctx, "k", "checkpoint", api.WorkspaceAct{})
	if err != nil {
		t.Fatal(err)
	}
	for _, since := range []string{"", made.Checkpoint.ID} {
		began := time.Now()
		if _, err := w.Shown(ctx, "k", kept.Look{Since: since, Path: "elsewhere"}); err != nil {
			t.Errorf("since %q: %v", since, err)
		}
		if took := time.Since(began); took > time.Minute { // reading one takes ten
			t.Errorf("since %q took %v", since, took)
		}
	}
}

// TestMoreThanShown: a page's apply brings over nothing where it could not show all.
func TestMoreThanShown(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	files := map[string]string{}
	for i := range 2001 {
		files[fmt.Sprintf("f%d", i)] = "x"
	}
	w.session(t, files)
	d, err := w.Shown(ctx, "k", kept.Look{})
	if err != nil || len(d.Changes) != 2000 || d.More != 1 {
		t.Fatalf("%d and %d more, %v", len(d.Changes), d.More, err)
	}
	var refused *kept.Refused
	if _, err := w.Act(ctx, "k", "apply", api.WorkspaceAct{Digest: d.Digest, AutoRun: true}); !errors.As(err, &refused) || w.there("f0") {
		t.Errorf("applied: %v", err)
	}
}

// An undo that comes to nothing is recorded as one, beside that it was begun.
func TestFailedUndoIsRecorded(t *testing.T) {
	w := newWorld(t)
	w.session(t, map[string]string{"a": "new"})
	ws, err := w.Store.Lock("k")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.Close() }()
	if _, err := w.Undo(t.Context(), ws, 3); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
	if want := []string{"state.undo", "state.undo failed: 3 of 3 applies"}; !slices.Equal(w.recorded, want) {
		t.Errorf("recorded %q, want %q", w.recorded, want)
	}
}

// TestChosenPaths: of what was shown the chosen paths are applied or given up, and no other; a
// word for what is held is for what was looked at.
func TestChosenPaths(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.session(t, map[string]string{"a": "one\n", "b": "two\n", ".envrc": "export A=1\n", "bad\xff": "x"})
	look := func() api.WorkspaceDiff {
		t.Helper()
		d, err := w.Shown(ctx, "k", kept.Look{Lines: true})
		if err != nil || len(d.Lines) != len(d.Changes) {
			t.Fatalf("%+v, %v", d, err)
		}
		return d
	}
	d := look()
	var refused *kept.Refused
	var held *kept.Held
	for name, c := range map[string]struct {
		verb string
		act  api.WorkspaceAct
		as   any
	}{
		"not shown":            {"apply", api.WorkspaceAct{Digest: d.Digest, Paths: []string{"a", "c"}}, &refused},
		"no text":              {"apply", api.WorkspaceAct{Digest: d.Digest, Paths: []string{"bad\ufffd"}}, &refused},
		"the top":              {"discard", api.WorkspaceAct{Digest: d.Digest, Paths: []string{"."}}, &refused},
		"without the digest":   {"discard", api.WorkspaceAct{Paths: []string{"a"}}, &refused},
		"held, without a word": {"apply", api.WorkspaceAct{Digest: d.Digest, Paths: []string{"a", ".envrc"}}, &held},
		"held, not looked at":  {"apply", api.WorkspaceAct{Digest: d.Digest, Paths: []string{"a", ".envrc"}, AutoRun: true, Looked: []string{"a"}}, &refused},
		"all, not as shown":    {"discard", api.WorkspaceAct{Digest: "x"}, &refused},
		"of a checkpoint":      {"discard", api.WorkspaceAct{Digest: d.Digest, Checkpoint: "x", Paths: []string{"a"}}, &refused},
	} {
		if _, err := w.Act(ctx, "k", c.verb, c.act); !errors.As(err, c.as) || w.there("a") || w.there(".envrc") {
			t.Errorf("%s: %v", name, err)
		}
	}
	out, err := w.Act(ctx, "k", "apply", api.WorkspaceAct{Digest: d.Digest, Paths: []string{".envrc"}, AutoRun: true, Looked: []string{".envrc"}})
	if err != nil || len(out.Changes) != 1 || !w.there(".envrc") || w.there("a") {
		t.Fatalf("%+v, %v", out, err)
	}
	d = look()
	if out, err = w.Act(ctx, "k", "discard", api.WorkspaceAct{Digest: d.Digest, Paths: []string{"a"}}); err != nil || len(out.Changes) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if d = look(); slices.ContainsFunc(d.Changes, func(c api.Change) bool { return c.Path == "a" }) || len(d.Changes) != 2 {
		t.Errorf("%+v is left", d.Changes)
	}
	if _, err := w.Act(ctx, "k", "discard", api.WorkspaceAct{Digest: d.Digest}); err != nil || w.Store.Has("k") {
		t.Errorf("all: %v", err)
	}
}

// TestRunningIsNotDiscarded: nothing is given up under a command that runs.
func TestRunningIsNotDiscarded(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.session(t, map[string]string{"a": "one\n"})
	d, err := w.Shown(ctx, "k", kept.Look{})
	if err != nil {
		t.Fatal(err)
	}
	use, err := w.Store.Begin("k", w.project, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = use.Close() }()
	var running *store.Running
	for _, paths := range [][]string{nil, {"a"}} {
		if _, err := w.Act(ctx, "k", "discard", api.WorkspaceAct{Digest: d.Digest, Paths: paths}); !errors.As(err, &running) {
			t.Errorf("%v: %v", paths, err)
		}
	}
}

// TestAnswerHasASize: whatever a payload names its files and writes, a look is an answer that
// can be read.
func TestAnswerHasASize(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	use, err := w.Store.Begin("k", w.project, "")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(use.Mount.Store, use.Mount.Project.Upper)
	deep := strings.Repeat("/"+strings.Repeat("<", 250), 3)
	if err := os.MkdirAll(at+deep, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 1500 {
		if err := os.WriteFile(fmt.Sprintf("%s%s/%d%s", at, deep, i, strings.Repeat("\x01", 200)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(at, "text"), bytes.Repeat([]byte("\x01<&\x1b\n"), 1<<18), 0o600), use.Close()); err != nil {
		t.Fatal(err)
	}
	d, err := w.Shown(ctx, "k", kept.Look{Path: "text", Lines: true})
	if err != nil || !d.Cut {
		t.Fatalf("cut %t, %v", d.Cut, err)
	}
	all, err := w.Shown(ctx, "k", kept.Look{Lines: true})
	if err != nil || all.More == 0 || all.More+len(all.Changes) != 1501 {
		t.Fatalf("%d and %d more, %v", len(all.Changes), all.More, err)
	}
	all.Patch = d.Patch
	if text, err := json.Marshal(all); err != nil || len(text) > api.MaxBody {
		t.Errorf("an answer of %d bytes, %v", len(text), err)
	}
	var refused *kept.Refused
	if _, err := w.Act(ctx, "k", "apply", api.WorkspaceAct{Digest: all.Digest}); !errors.As(err, &refused) {
		t.Errorf("all of it is applied: %v", err)
	}
}
