package snapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloister/serve/database"
	"cloister/serve/objects"
	"cloister/serve/tenants"
)

// Collect removes objects that nothing needs: below IDs that the database does not have, and chunks of removed
// snapshots that no other one uses. An ID is never used again, so what comes late meets nothing that is alive. The
// bucket is listed before the database is asked, which has each ID before its first object.
func (c *Cell) Collect(ctx context.Context) error {
	if err := c.dropAbandoned(ctx); err != nil {
		return err
	}
	first, err := c.Shared.SettleSnapshots(ctx)
	if err != nil {
		return err
	}
	names, err := c.Bucket.List(ctx, first.Cell+"/")
	if err != nil {
		return &Away{err}
	}
	rows, err := c.Shared.SettleSnapshots(ctx)
	if err != nil {
		return err
	}
	alive := map[string]bool{}
	for _, r := range rows.Snaps {
		alive[r.ID] = true
	}
	for _, name := range names {
		if id := strings.TrimSuffix(name, "/"); IsID(id) && !alive[id] {
			err = errors.Join(err, c.clear(ctx, rows.Cell, id, nil))
		}
	}
	for _, r := range rows.Snaps {
		if r.State == database.SnapRemoved {
			err = errors.Join(err, c.trim(ctx, rows, r))
		}
	}
	return err
}

// clear removes the objects below an ID, but those that are needed.
func (c *Cell) clear(ctx context.Context, cell, id string, needed map[string]bool) error {
	folder := cell + "/" + id + "/"
	names, err := c.Bucket.List(ctx, folder)
	if err != nil {
		return &Away{err}
	}
	var gone []string
	for _, name := range names {
		if !needed[name] && !strings.Contains(name, "/") {
			gone = append(gone, folder+name)
		}
	}
	for part := range slices.Chunk(gone, objects.MostRemoved) {
		if err := c.Bucket.Remove(ctx, part...); err != nil {
			return &Away{err}
		}
	}
	return nil
}

// trim removes what of a removed snapshot none of those needs that use it. None begins to use it any more.
func (c *Cell) trim(ctx context.Context, rows database.Snaps, removed database.Snap) error {
	var users []string
	needed := map[string]bool{}
	for _, r := range rows.Snaps {
		if r.State == database.SnapRemoved || !slices.Contains(r.Uses, removed.ID) {
			continue
		}
		if r.State == database.SnapMaking {
			return nil // another time: it has no manifest yet
		}
		users = append(users, r.ID)
	}
	now := strings.Join(users, " ")
	if c.trimmed[removed.ID] == now {
		return nil
	}
	for _, r := range rows.Snaps {
		if !slices.Contains(users, r.ID) {
			continue
		}
		m, err := c.manifest(ctx, tenants.Tenant{Name: r.Tenant, Created: r.Since}, rows.Cell, r)
		if err != nil {
			return fmt.Errorf("what snapshot %s has of %s: %w", r.ID, removed.ID, err)
		}
		for _, one := range m.Chunks {
			if one.In == removed.ID {
				needed[one.Name] = true
			}
		}
	}
	err := c.clear(ctx, rows.Cell, removed.ID, needed)
	if err == nil {
		c.trimmed[removed.ID] = now
	}
	return err
}

// dropAbandoned drops the rows of what could not be kept.
func (c *Cell) dropAbandoned(ctx context.Context) error {
	c.mu.Lock()
	var list []database.Snap
	for _, row := range c.abandoned {
		list = append(list, row)
	}
	c.mu.Unlock()
	for _, row := range list {
		if err := c.Shared.DropSnapshot(ctx, row); err != nil && !errors.Is(err, database.ErrNone) {
			return err
		}
		c.mu.Lock()
		delete(c.abandoned, row.ID)
		c.mu.Unlock()
	}
	return nil
}
