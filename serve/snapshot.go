package serve

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"cloister/serve/snapshots"
	"cloister/serve/tenants"
)

// Snapshot is the files of a sandbox at a moment.
type Snapshot = snapshots.Snapshot

// maxSnapshot bounds the files of one snapshot, and of one sandbox that waits without a machine.
const maxSnapshot = snapshots.Most

func tooMuch() error { return &Over{fmt.Sprintf("a snapshot may have %d bytes", int64(maxSnapshot))} }

// Snapshot keeps the sandbox's files as they are now, for all servers where they have a bucket.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (Snapshot, error) {
	if err := snapshots.CheckName(name); err != nil {
		return Snapshot{}, err
	}
	snap, pack, err := s.snapshot(ctx, name)
	if err == nil {
		err = s.recorded(ctx, ActSandbox, "snapshot", strings.TrimSpace(snap.ID+" "+name)+s.host.snaps.SealedBy())
	}
	if err == nil {
		err = s.host.snaps.Keep(ctx, s.tenant, snap, pack)
	}
	return snap, err
}

// snapshot describes one, and gives its files.
func (s *Sandbox) snapshot(ctx context.Context, name string) (Snapshot, snapshots.Pack, error) {
	pool, err := s.Files()
	if err != nil {
		return Snapshot{}, nil, err
	}
	r := s.Record()
	return Snapshot{
		ID: snapshots.NewID(), Tenant: r.Tenant, Sandbox: r.ID, Name: name,
		Created: time.Now().UTC(), Env: r.Env, Network: r.Network, Made: r.Made,
	}, func(w io.Writer) error { return pool.Pack(ctx, Home, w) }, nil
}

// Snapshots lists a tenant's snapshots, the newest first.
func (h *Host) Snapshots(ctx context.Context, t tenants.Tenant) ([]Snapshot, error) {
	return h.snaps.List(ctx, t)
}

// FindSnapshot finds a tenant's snapshot by its ID or its name; nil for none.
func (h *Host) FindSnapshot(ctx context.Context, t tenants.Tenant, id string) (*Snapshot, error) {
	return h.snaps.Find(ctx, t, id)
}

// RemoveSnapshot removes a tenant's snapshot; it says false for none.
func (h *Host) RemoveSnapshot(ctx context.Context, t tenants.Tenant, id string) (bool, error) {
	one, err := h.snaps.ID(ctx, t, id)
	if err == nil && one != "" {
		err = h.Record(ctx, t.Name, Act{Kind: ActTemplate, Action: "remove", Resource: "the snapshot " + one})
	}
	if err != nil || one == "" {
		return false, err
	}
	return h.snaps.Remove(ctx, t, one) // the one on record, whatever has the name by now
}

// fill gives a new sandbox the files of a snapshot.
func (s *Sandbox) fill(ctx context.Context, from *Snapshot) error {
	if err := s.recorded(ctx, ActSandbox, "begin", "with the snapshot "+from.ID); err != nil {
		return err
	}
	files, err := s.host.snaps.Open(ctx, s.tenant, from)
	if err != nil {
		return err
	}
	defer files.Close()
	pool, err := s.Files()
	if err == nil {
		err = pool.Unpack(ctx, Home, files)
	}
	if err != nil {
		return fmt.Errorf("begin with a snapshot: %w", err)
	}
	return nil
}

// Made is one of the sandboxes that Fork was to make.
type Made struct {
	Sandbox *Sandbox
	Err     error
}

// MaxForks bounds what one request makes.
const MaxForks = 100

// Fork makes sandboxes with the files that this one has now, each with an identity and
// tokens of its own.
func (s *Sandbox) Fork(ctx context.Context, t tenants.Tenant, count int, d time.Duration) ([]Made, error) {
	if count < 1 || count > MaxForks {
		return nil, &BadRequest{What: fmt.Sprintf("count: want a number from 1 to %d", MaxForks)}
	}
	snap, pack, err := s.snapshot(ctx, "")
	if err == nil {
		err = s.host.snaps.KeepHere(s.tenant, snap, pack) // the copies are this server's
	}
	if err != nil {
		return nil, err
	}
	r := s.Record()
	var out []Made
	for range count {
		made, err := s.host.Create(ctx, t, Request{
			Template: r.Template, Made: r.Made, Metadata: r.Metadata, Env: r.Env, Timeout: d,
			AutoPause: r.AutoPause, KeepDisk: r.KeepDisk, AutoStart: r.AutoStart,
			Network: Network{}.Less(r.Network), Private: r.Private, PortHost: r.PortHost, From: &snap,
		})
		out = append(out, Made{made, err})
	}
	return out, s.host.snaps.RemoveHere(t, snap.ID)
}
