// Package givenup gives up the sandboxes of servers that are out of touch with what several have in common.
//
// The promise: each loss is recorded before its row is struck, by one call of Record in this process; what cannot be
// recorded or struck is kept for the next time; rows of many sandboxes cost one call of the database for each
// thousand, and one look at each of their tenants. Across processes and servers a sandbox is lost once, by its ID,
// and its tenant's guardian records it once. It asks nothing of the server that is lost.
//
// Most readers want [List.Give].
package givenup

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"

	"cloister/serve/database"
	"cloister/serve/tenants"
)

// List is what could not be given up yet, with what is needed for that.
type List struct {
	Ready  func(tenant string) error // looks at a tenant as it is now
	Record func(ctx context.Context, row database.Row) error
	Strike func(ctx context.Context, ids ...string) error
	Log    *slog.Logger

	mu       sync.Mutex
	left     []database.Row
	recorded map[string]bool // IDs of those that only the strike failed of
}

// Parts are these rows and those of before, as they are given up at once.
func (l *List) Parts(rows []database.Row) iter.Seq[[]database.Row] {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows, l.left = slices.Concat(l.left, rows), nil
	return slices.Chunk(rows, database.MaxStruck)
}

// Give gives up one part.
func (l *List) Give(ctx context.Context, rows []database.Row) {
	var done []database.Row
	var ids []string
	ready := map[string]error{}
	for _, row := range rows {
		l.Log.Warn("a sandbox is lost with the server that had it", "tenant", row.Tenant, "sandbox", row.ID)
		err, known := ready[row.Tenant]
		if !known {
			err = l.Ready(row.Tenant)
			ready[row.Tenant] = err
		}
		if err == nil && !l.has(row.ID) {
			err = l.Record(ctx, row)
		}
		if err != nil && !errors.Is(err, tenants.ErrMissing) {
			l.keep(err, row)
			continue
		}
		done, ids = append(done, row), append(ids, row.ID)
	}
	if len(ids) == 0 {
		return
	}
	err := l.Strike(ctx, ids...)
	l.note(ids, err != nil)
	if err != nil {
		l.keep(err, done...)
	}
}

func (l *List) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recorded[id]
}

// note says that sandboxes are recorded and not struck, or that they are over.
func (l *List) note(ids []string, left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recorded == nil {
		l.recorded = map[string]bool{}
	}
	for _, id := range ids {
		if left {
			l.recorded[id] = true
		} else {
			delete(l.recorded, id)
		}
	}
}

func (l *List) keep(why error, rows ...database.Row) {
	l.Log.Error("give up sandboxes", "first", rows[0].ID, "number", len(rows), "error", why)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = append(l.left, rows...)
}
