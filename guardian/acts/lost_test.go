package acts_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"cloister/api"
	"cloister/audit"
	"cloister/guardian/acts"
	"cloister/guardian/sessionctx"
)

// TestLostOnce: a loss is one record, however often and by however many it is told, also to the next guardian, which
// reads the record of the one before; a session that there is none of is known to no other act.
func TestLostOnce(t *testing.T) {
	dir := t.TempDir()
	tell := func(s *acts.Service, in api.TenantRecord) error {
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Tenant(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(text))))
		return err
	}
	open := func() (*acts.Service, *audit.Log) {
		log, err := audit.Open(dir, audit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return &acts.Service{
			Record: log.Append, Session: func(string) (*sessionctx.Context, error) { return nil, api.BadRequest("no such session") },
			Losses: &acts.Losses{Dir: dir},
		}, log
	}
	of := func(name string) api.TenantRecord {
		return api.TenantRecord{Kind: audit.TenantSandbox, Session: name, Action: "lost", Resource: "why", Lost: true}
	}
	for range 2 { // the next guardian
		s, log := open()
		var all sync.WaitGroup
		for range 4 {
			for _, name := range []string{"i1", "i2", "i3"} {
				all.Go(func() {
					if err := tell(s, of(name)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
		}
		all.Wait()
		plain := of("i4")
		plain.Lost = false
		if err := tell(s, plain); err == nil {
			t.Error("an act in a session that there is none of was recorded")
		}
		for _, bad := range []api.TenantRecord{
			{Kind: audit.Exec, Session: "i5", Action: "lost", Lost: true},
			{Kind: audit.TenantSandbox, Session: "i5", Action: "use", Lost: true},
			{Kind: audit.TenantSandbox, Action: "lost", Lost: true},
		} {
			if err := tell(s, bad); err == nil {
				t.Errorf("%+v was recorded", bad)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	n := map[string]int{}
	for e, err := range audit.Read(dir, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n[e.Session]++
	}
	if len(n) != 3 || n["i1"] != 1 || n["i2"] != 1 || n["i3"] != 1 {
		t.Errorf("recorded %v", n)
	}
	// What cannot be recorded is not taken for recorded.
	s, log := open()
	t.Cleanup(func() { _ = log.Close() })
	full := true
	record := s.Record
	s.Record = func(ctx context.Context, e audit.Event) error {
		if full {
			return context.DeadlineExceeded
		}
		return record(ctx, e)
	}
	if err := tell(s, of("i6")); err == nil {
		t.Error("what was not recorded was taken for recorded")
	}
	full = false
	if err := tell(s, of("i6")); err != nil {
		t.Error(err)
	}
	for e, err := range audit.Read(dir, audit.Filter{Session: "i6"}) {
		if err != nil || e.Action != "lost" {
			t.Errorf("%+v, %v", e, err)
		}
		n["i6"]++
	}
	if n["i6"] != 1 {
		t.Errorf("recorded %d times once the record could be written", n["i6"])
	}
}
