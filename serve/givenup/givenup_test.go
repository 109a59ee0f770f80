package givenup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"cloister/serve/database"
	"cloister/serve/givenup"
	"cloister/serve/tenants"
)

// TestGive: ten thousand rows are few calls; each is recorded and struck once, and what failed comes again.
func TestGive(t *testing.T) {
	var looks, strikes int
	recorded, struck := map[string]int{}, map[string]int{}
	away := errors.New("away")
	failing := map[string]bool{}
	l := &givenup.List{
		Log: slog.New(slog.DiscardHandler),
		Ready: func(tenant string) error {
			looks++
			if tenant == "t9" {
				return tenants.ErrMissing
			}
			return nil
		},
		Record: func(_ context.Context, r database.Row) error {
			if failing[r.ID] {
				return away
			}
			recorded[r.ID]++
			return nil
		},
		Strike: func(_ context.Context, ids ...string) error {
			if strikes++; len(ids) > database.MaxStruck {
				t.Errorf("%d rows at once", len(ids))
			}
			if failing["strike"] {
				return away
			}
			for _, id := range ids {
				struck[id]++
			}
			return nil
		},
	}
	give := func(rows ...database.Row) {
		for part := range l.Parts(rows) {
			l.Give(t.Context(), part)
		}
	}
	var rows []database.Row
	for i := range 10_000 {
		rows = append(rows, database.Row{ID: fmt.Sprint("i", i), Tenant: fmt.Sprint("t", i%10)})
	}
	failing["i5"] = true
	give(rows...)
	if len(recorded) != 8999 || len(struck) != 9999 || looks != 100 || strikes != 10 {
		t.Errorf("%d recorded, %d struck, %d looks, %d strikes", len(recorded), len(struck), looks, strikes)
	}
	failing = map[string]bool{"strike": true}
	give()
	failing = nil
	give()
	give()
	if recorded["i5"] != 1 || struck["i5"] != 1 || strikes != 12 {
		t.Errorf("%d, %d, %d strikes", recorded["i5"], struck["i5"], strikes)
	}
	for id, n := range struck {
		if n != 1 {
			t.Errorf("%s was struck %d times", id, n)
		}
	}
}
