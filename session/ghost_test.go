package session_test

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/api"
	"cloister/session/registry"
)

// TestEndedBeforeTheSave: the list on disk is up to half a second old when a
// guardian is killed. A session that ended in that time is not one that runs.
func TestEndedBeforeTheSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.json")
	r, _, err := registry.OpenRegistry(path, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := api.SessionInfo{Name: "w", Path: "/p", Project: "/p", Agent: "sh", Terminal: true}
	was, err := r.Create(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(path), "live", was.ID)); err != nil {
		t.Fatal(err)
	}
	r, _, err = registry.OpenRegistry(path, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if list := r.List(false); len(list) != 0 || r.Live() != 0 {
		t.Errorf("it is shown as running: %+v", list)
	}
	if list := r.List(true); len(list) != 1 || list[0].State != api.StateFailed || list[0].Reason == "" {
		t.Errorf("%+v", list)
	}
	if _, err := r.Create(want); err != nil {
		t.Errorf("another of its name: %v", err)
	}
}
