package store_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/state/quota"
	"cloister/state/store"
)

// Of two workspaces what nobody asked for goes, the oldest first, as far as it must; what is
// named, and what a workspace stands on, stays and is refused.
func TestQuota(t *testing.T) {
	w := newWorld(t)
	text := strings.Repeat("x", 1<<20)
	kept := map[string][]string{}
	for _, name := range []string{"old", "new"} {
		for _, message := range []string{"auto", "named", "auto later"} {
			w.session(name, func(up string) { put(t, up, "f", message+text) })
			ws := w.lock(name)
			c := must(t, must2(ws.Save(t.Context(), message, message != "named", nil)), nil)
			if err := ws.Close(); err != nil {
				t.Fatal(err)
			}
			kept[name] = append(kept[name], c.ID)
		}
		// What none stands on any more: each has a layer of its own.
		ws := w.lock(name)
		for _, id := range []string{kept[name][1], kept[name][2], kept[name][1]} {
			if _, err := ws.Restore(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if err := ws.Close(); err != nil {
			t.Fatal(err)
		}
	}
	has := func(name, id string) bool {
		ws := w.lock(name)
		defer func() { _ = ws.Close() }()
		return slices.ContainsFunc(ws.Checkpoints, func(c store.Checkpoint) bool { return c.ID == id })
	}
	begin := func(bounds quota.Bounds, name string) error {
		w.store.Quota = bounds
		defer func() { w.store.Quota = quota.Bounds{} }()
		use, err := w.store.Begin(name, w.project, "")
		if err != nil {
			return err
		}
		return use.Close()
	}
	// Six layers of about a MiB. The newest of each is no layer of its workspace any more.
	if err := begin(quota.Bounds{Whole: 12 << 20}, "new"); err != nil || !has("old", kept["old"][2]) {
		t.Fatal("with room:", err)
	}
	if err := begin(quota.Bounds{Whole: 5<<20 + 1<<19}, "new"); err != nil {
		t.Fatal(err)
	}
	if has("old", kept["old"][2]) || !has("new", kept["new"][2]) {
		t.Error("the oldest alone should have gone")
	}
	if err := begin(quota.Bounds{Project: 4<<20 + 1<<19}, "new"); err != nil || has("new", kept["new"][2]) {
		t.Error("the next should have gone:", err)
	}
	for _, bounds := range []quota.Bounds{{Whole: 1 << 20}, {Project: 1 << 20}} {
		err := begin(bounds, "new")
		if full, ok := errors.AsType[*quota.Full](err); !ok || full.Largest == "" || (full.Bound.Project != "") != (bounds.Project > 0) {
			t.Errorf("%+v: %v", bounds, err)
		}
		if !has("old", kept["old"][1]) || !has("new", kept["new"][1]) {
			t.Error("a named one is gone")
		}
	}
	// The layers of what went are gone too, once no lock is held.
	if g, err := w.store.Collect(true); err != nil || g.Layers != 0 {
		t.Errorf("%+v, %v", g, err)
	}
	if found, err := filepath.Glob(filepath.Join(w.data, "state/fs*", kept["old"][2])); err != nil || len(found) != 0 {
		t.Errorf("%q, %v", found, err)
	}
}

// A layer that is too deep to be measured could take any room: under a quota it is refused,
// with the workspace that has it.
func TestQuotaOfWhatIsTooDeep(t *testing.T) {
	w := newWorld(t)
	w.session("deep", func(up string) { put(t, up, strings.Repeat("d/", 300)+"f", "x") })
	begin := func() error {
		use, err := w.store.Begin("other", w.project, "")
		return errors.Join(err, use.Close())
	}
	if err := begin(); err != nil {
		t.Fatal("without a quota:", err)
	}
	w.store.Quota = quota.Bounds{Whole: 1 << 40}
	err := begin()
	if deep, ok := errors.AsType[*quota.Unmeasured](err); !ok || deep.Name != "deep" || !strings.Contains(err.Error(), "256 folders") {
		t.Errorf("got %v", err)
	}
	if err := w.store.Remove("deep"); err != nil {
		t.Fatal(err)
	}
	if err := begin(); err != nil {
		t.Error("once it is gone:", err)
	}
}
