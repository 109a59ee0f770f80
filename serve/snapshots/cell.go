package snapshots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"cloister/serve/database"
	"cloister/serve/narrow"
	"cloister/serve/tenants"
)

// Bucket is where objects are. What it gives is not believed.
type Bucket interface {
	// Put writes an object, whatever was there.
	Put(ctx context.Context, name string, text []byte) error
	// Get reads one of at most so many bytes; [objects.ErrMissing] for none.
	Get(ctx context.Context, name string, most int) ([]byte, error)
	// List gives the names right below a folder's, those of folders with a slash at the end.
	List(ctx context.Context, folder string) ([]string, error)
	// Remove removes objects; those that are not there are removed already.
	Remove(ctx context.Context, names ...string) error
}

// Cell has the snapshots of the servers that have one database: a row says that there is one, whose and by which name,
// and the bucket has its manifest and its chunks, below its ID.
type Cell struct {
	Shared *database.Client
	Bucket Bucket
	Keys   *Keys
	Log    *slog.Logger

	wake chan struct{}

	mu        sync.Mutex
	abandoned map[string]database.Snap // rows to be dropped when the database can be asked, by ID
	trimmed   map[string]string        // what of removed snapshots was looked at already
}

// NewCell gives a cell's. Of its options Shared, Bucket, Keys and Log are needed.
func NewCell(shared *database.Client, b Bucket, k *Keys, log *slog.Logger) *Cell {
	return &Cell{
		Shared: shared, Bucket: b, Keys: k, Log: log, wake: make(chan struct{}, 1),
		abandoned: map[string]database.Snap{}, trimmed: map[string]string{},
	}
}

// Away is the error of a bucket that cannot be asked, or takes nothing.
type Away struct{ Why error }

func (e *Away) Error() string { return "the bucket of snapshots cannot be used: " + e.Why.Error() }
func (e *Away) Unwrap() error { return e.Why }

// Bad is the error of a snapshot that the bucket does not give back as it was kept.
type Bad struct {
	ID  string
	Why error
}

func (e *Bad) Error() string {
	return fmt.Sprintf("snapshot %s is refused: the bucket does not give back what was kept: %v", e.ID, e.Why)
}
func (e *Bad) Unwrap() error { return e.Why }

// row is a snapshot as the database has it.
func (c *Cell) row(t tenants.Tenant, s Snapshot) database.Snap {
	return database.Snap{
		ID: s.ID, Tenant: t.Name, Since: t.Created, Sandbox: s.Sandbox, Name: s.Name, Created: s.Created,
		Key: c.Keys.current(),
	}
}

// near is how many of a tenant's newest snapshots a new one is compared with.
const near = 4

// keep enters a snapshot as one that is being made, writes its chunks and its manifest, and has it count then. A server
// that is killed meanwhile leaves a row that no list has, which another takes away.
func (c *Cell) keep(ctx context.Context, t tenants.Tenant, s Snapshot, pack Pack) error {
	row := c.row(t, s)
	begun, err := c.Shared.BeginSnapshot(ctx, row, near)
	var many *database.Over
	switch {
	case errors.As(err, &many):
		return &Over{many.What}
	case errors.Is(err, tenants.ErrMissing):
		return &narrow.BadRequest{What: "the tenant was removed"}
	case err == nil:
		err = c.fill(ctx, t, s, row, begun, pack)
	}
	if err == nil {
		return nil
	}
	// The row may be there, whatever the answer was: the tenant has room for another one at once.
	gone := c.Shared.DropSnapshot(context.WithoutCancel(ctx), row)
	if gone != nil && !errors.Is(gone, database.ErrNone) {
		c.mu.Lock()
		c.abandoned[row.ID] = row
		c.mu.Unlock()
	}
	c.soon()
	return fmt.Errorf("keep snapshot: %w", err)
}

func (c *Cell) fill(
	ctx context.Context, t tenants.Tenant, s Snapshot, row database.Snap, begun database.Snaps, pack Pack,
) error {
	seal, err := c.Keys.of(row.Key, begun.Cell, t)
	if err != nil {
		return err
	}
	w := &writer{cell: c, seal: seal, in: begun.Cell, id: s.ID, known: c.known(ctx, t, begun)}
	m, err := w.write(ctx, pack)
	if err != nil {
		return err
	}
	m.Snapshot = s
	text, err := json.Marshal(m)
	if err == nil && len(text) > mostManifest {
		err = &Over{"a snapshot has too many chunks"}
	}
	if err != nil {
		return err
	}
	place := manifestPlace(begun.Cell, s.ID)
	if err := c.Bucket.Put(ctx, place, seal.seal(place, text)); err != nil {
		return &Away{err}
	}
	row.Uses = m.uses()
	return c.Shared.KeepSnapshot(ctx, row)
}

// known are the chunks that the tenant's newest snapshots have, by name. One that cannot be read is not compared with.
func (c *Cell) known(ctx context.Context, t tenants.Tenant, begun database.Snaps) map[string]chunk {
	out := map[string]chunk{}
	for _, row := range begun.Snaps {
		m, err := c.manifest(ctx, t, begun.Cell, row)
		if err != nil {
			c.Log.Warn("compare with a snapshot", "tenant", t.Name, "snapshot", row.ID, "error", err)
			continue
		}
		for _, one := range m.Chunks {
			// Of a snapshot that is removed by now nothing more is used: only those of begun stay for this one.
			if one.In == row.ID {
				out[one.Name] = one
			}
		}
	}
	return out
}

// list gives a tenant's snapshots as their rows have them.
func (c *Cell) list(ctx context.Context, t tenants.Tenant) ([]Snapshot, error) {
	rows, err := c.Shared.Snapshots(ctx, t)
	if err != nil {
		return nil, err
	}
	var out []Snapshot
	for _, r := range rows.Snaps {
		if IsID(r.ID) {
			out = append(out, Snapshot{
				ID: r.ID, Tenant: t.Name, Sandbox: r.Sandbox, Name: r.Name, Created: r.Created,
				in: &manifest{row: r, cell: rows.Cell},
			})
		}
	}
	return out, nil
}

// load reads the manifest of one that was listed.
func (c *Cell) load(ctx context.Context, t tenants.Tenant, s *Snapshot) (*Snapshot, error) {
	m, err := c.manifest(ctx, t, s.in.cell, s.in.row)
	if err != nil {
		return nil, err
	}
	out := m.Snapshot
	out.in = m
	return &out, nil
}

// remove has a snapshot be in no list any more. Its objects are removed later.
func (c *Cell) remove(ctx context.Context, t tenants.Tenant, id string) (bool, error) {
	err := c.Shared.DropSnapshot(ctx, database.Snap{ID: id, Tenant: t.Name, Since: t.Created})
	if errors.Is(err, database.ErrNone) {
		return false, nil
	}
	c.soon()
	return err == nil, err
}

// open gives the stream of a snapshot whose manifest was read.
func (c *Cell) open(ctx context.Context, t tenants.Tenant, m *manifest) io.ReadCloser {
	seal, err := c.Keys.of(m.row.Key, m.cell, t)
	return newReader(ctx, c.Bucket, seal, m, err)
}

// soon has what nothing needs be removed in the background.
func (c *Cell) soon() {
	select {
	case c.wake <- struct{}{}:
	default: // it is on its way
	}
}

// How often what nothing needs is looked for, and how long after one look the next may be.
const (
	collectEvery = time.Hour
	collectPause = 5 * time.Second
)

// Run removes what nothing needs, until the context ends.
func (c *Cell) Run(ctx context.Context) {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	c.soon() // what an earlier process left
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.wake:
		}
		if err := c.Collect(ctx); err != nil && ctx.Err() == nil {
			c.Log.Error("collect snapshots", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(collectPause):
		}
	}
}
