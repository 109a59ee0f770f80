package serve

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/serve/snapshots"
	"cloister/serve/tenants"
)

// TestSnapshotNames gives names that are IDs: of the tenant's own snapshots, and of another tenant's.
func TestSnapshotNames(t *testing.T) {
	register, err := tenants.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{Options: Options{Tenants: register}, snaps: &snapshots.Keeper{Home: register.Home}}
	put := func(tenant, id, name string, age time.Duration) {
		dir := filepath.Join(register.Home(tenant), "snapshots", id)
		text, err := json.Marshal(Snapshot{ID: id, Tenant: tenant, Name: name, Created: time.Now().Add(-age)})
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "snapshot.json"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	acme := tenants.Tenant{Name: "acme", Limits: tenants.Usual()}
	first, second, others := "snap"+strings.Repeat("a", 16), "snap"+strings.Repeat("b", 16), "snap"+strings.Repeat("c", 16)
	put("acme", first, "", time.Hour)
	put("acme", second, first, 0) // of a server before names of that form were refused
	put("other", others, "", 0)
	if s, err := h.FindSnapshot(t.Context(), acme, first); err != nil || s == nil || s.ID != first {
		t.Errorf("by the ID %s: %v, %v", first, s, err)
	}
	if s, err := h.FindSnapshot(t.Context(), acme, others); err != nil || s != nil {
		t.Errorf("by the ID of another tenant's: %v, %v", s, err)
	}
	s := &Sandbox{host: h, tenant: acme, record: Record{ID: "i", Tenant: "acme", State: Running}}
	for _, name := range []string{first, others} {
		if _, err := s.Snapshot(t.Context(), name); err == nil || !strings.Contains(err.Error(), "the form of a snapshot's ID") {
			t.Errorf("a snapshot called %s: %v", name, err)
		}
	}
	if _, err := s.Snapshot(t.Context(), "snapshot-of-mine"); err == nil || strings.Contains(err.Error(), "the form") {
		t.Errorf("the control, a name that is none, of a sandbox that does not run: %v", err)
	}
}
