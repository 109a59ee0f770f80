package database

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"time"

	"cloister/serve/tenants"
)

// SnapState is what a snapshot's row says of it.
type SnapState string

// The closed set of states. Of one that was removed the objects may be needed yet.
const (
	SnapMaking  SnapState = "making"
	SnapKept    SnapState = "kept"
	SnapRemoved SnapState = "removed"
)

// Snap is what the servers know of a snapshot: nothing that a sandbox had in it.
type Snap struct {
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	Since   time.Time `json:"since"` // when the tenant of that name was added
	Sandbox string    `json:"sandbox,omitempty"`
	Name    string    `json:"name,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Key     string    `json:"key,omitempty"` // what its objects are sealed by, by name
	State   SnapState `json:"state,omitempty"`
	Uses    []string  `json:"uses,omitempty"` // those whose objects it needs
}

// SnapWrite is one row to be written.
type SnapWrite struct {
	Server
	Snap
	Near int `json:"near,omitempty"`
}

// Snaps answer a question for snapshots, with the name of the cell: of the servers that have this database.
type Snaps struct {
	Fault
	Cell  string `json:"cell"`
	Snaps []Snap `json:"snaps"`
}

// cellName is the form of a cell's name.
var cellName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
})

// BeginSnapshot writes down a snapshot that is about to be made, if its tenant may have one more. It gives the newest
// ones of the tenant, near at most, whose objects stay until this one is kept or dropped.
func (c *Client) BeginSnapshot(ctx context.Context, s Snap, near int) (Snaps, error) {
	var out Snaps
	err := c.call(ctx, "BeginSnapshot", SnapWrite{c.me, s, near}, &out, &out.Fault)
	return out, missing(checked(out, err))
}

// KeepSnapshot has a snapshot that was begun be in lists.
func (c *Client) KeepSnapshot(ctx context.Context, s Snap) error {
	var out Done
	return c.call(ctx, "KeepSnapshot", SnapWrite{Server: c.me, Snap: s}, &out, &out.Fault)
}

// DropSnapshot has a snapshot be in no list any more; ErrNone where there is none.
func (c *Client) DropSnapshot(ctx context.Context, s Snap) error {
	var out Done
	return c.call(ctx, "DropSnapshot", SnapWrite{Server: c.me, Snap: s}, &out, &out.Fault)
}

// Snapshots gives those of a tenant.
func (c *Client) Snapshots(ctx context.Context, t tenants.Tenant) (Snaps, error) {
	var out Snaps
	err := c.call(ctx, "Snapshots", SnapWrite{Snap: Snap{Tenant: t.Name, Since: t.Created}}, &out, &out.Fault)
	return out, checked(out, err)
}

// SettleSnapshots strikes the rows that nothing needs, and gives what is left of all tenants: what was begun by servers
// that are out of touch, and what removed tenants had, is removed.
func (c *Client) SettleSnapshots(ctx context.Context) (Snaps, error) {
	var out Snaps
	err := c.call(ctx, "SettleSnapshots", Ask{Server: c.me}, &out, &out.Fault)
	return out, checked(out, err)
}

// checked refuses a cell's name that could be a path.
func checked(s Snaps, err error) error {
	if err == nil && !cellName().MatchString(s.Cell) {
		return &Away{"its name of the cell cannot be"}
	}
	return err
}

// missing makes ErrNone of a tenant the register's own error.
func missing(err error) error {
	if errors.Is(err, ErrNone) {
		return tenants.ErrMissing
	}
	return err
}
