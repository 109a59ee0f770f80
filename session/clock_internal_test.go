package session

import (
	"path/filepath"
	"testing"
	"time"

	"cloister/api"
	"cloister/session/registry"
)

// A clock that is set back while a session runs hides none of the files that changed.
func TestBackdated(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		elapsed time.Duration
		now     time.Time
		want    time.Time
	}{
		"nobody set it":          {time.Minute, began.Add(time.Minute), began},
		"set forward by an hour": {time.Minute, began.Add(time.Hour + time.Minute), began},
		"set back by an hour":    {time.Minute, began.Add(time.Minute - time.Hour), began.Add(-time.Hour)},
		"set back behind it":     {0, began.Add(-24 * time.Hour), began.Add(-24 * time.Hour)},
	} {
		if got := backdated(began, c.elapsed, c.now); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A registry whose clock jumps by a day, both ways, at every event: sessions end as
// what they are, keep their names to themselves while they live, and are remembered.
func TestRegistryClockJumps(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	by := 24 * time.Hour
	jump := func() time.Time {
		by = -by
		now = now.Add(by)
		return now
	}
	path := filepath.Join(t.TempDir(), "sessions.json")
	open := func() *registry.Registry {
		r, note, err := registry.OpenRegistry(path, registry.Options{Now: jump})
		if err != nil || note != "" {
			t.Fatal(err, note)
		}
		return r
	}
	r := open()
	first, err := r.Create(api.SessionInfo{Name: "one", Project: "/p", Path: "/p", Agent: "a", Terminal: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Create(api.SessionInfo{Project: "/p", Path: "/p", Agent: "a", Terminal: true}); err == nil {
		t.Error("two of one agent in one folder")
	}
	if _, err := r.Apply(first.ID, registry.Started, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Apply(first.ID, registry.Ended, nil); err != nil {
		t.Fatal(err)
	}
	second, err := r.Create(api.SessionInfo{Name: "one", Project: "/p", Path: "/p"})
	if err != nil {
		t.Fatalf("the name of one that ended: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open()
	defer func() { _ = r.Close() }()
	states := map[string]api.State{}
	for _, s := range r.List(true) {
		states[s.ID] = s.State
	}
	if states[first.ID] != api.StateStopped || states[second.ID] != api.StateStarting {
		t.Errorf("remembered as %v", states)
	}
}
