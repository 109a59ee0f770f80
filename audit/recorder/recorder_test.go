package recorder_test

import (
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"cloister/audit"
	"cloister/audit/recorder"
)

// No number is lost: what was counted when the guardian ends is told by Rest.
func TestRest(t *testing.T) {
	const many, at = 1600, 16 // of these at once, so that they share the waits for the disk
	dir := filepath.Join(t.TempDir(), "audit")
	r, err := recorder.Open(dir, slog.New(slog.DiscardHandler), func(audit.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range at {
		all.Go(func() {
			for range many / at {
				if err := r.Append(t.Context(), audit.Event{SessionID: "a", Session: "a", Kind: audit.NetDNS, Verdict: "deny", Reason: "no rule", Host: "x.example"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	r.Rest(t.Context())
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	records, counted := 0, uint64(0)
	for e, err := range audit.Read(dir, audit.Filter{Kind: audit.NetDNS}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Action == "suppressed":
			counted += e.Suppressed
		default:
			records++
		}
	}
	if counted == 0 || uint64(records)+counted != many {
		t.Errorf("%d records and %d counted, of %d", records, counted, many)
	}
}
