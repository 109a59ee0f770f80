package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cloister/serve/snapshots"
	"cloister/serve/tenants"
)

// Snapshot is the files of a sandbox at a moment.
type Snapshot = snapshots.Snapshot

// maxSnapshot bounds the files of one snapshot, and of one sandbox that waits without a machine.
const maxSnapshot = 10 << 30

func tooMuch() error { return &Over{fmt.Sprintf("a snapshot may have %d bytes", int64(maxSnapshot))} }

func (h *Host) snapshots(tenant string) string {
	return filepath.Join(h.Tenants.Home(tenant), "snapshots")
}

// Snapshot keeps the sandbox's files as they are now.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (Snapshot, error) {
	release, err := s.host.reserveSnapshot(s.tenant)
	if err != nil {
		return Snapshot{}, err
	}
	defer release()
	if len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return Snapshot{}, &BadRequest{What: "name: want at most 128 printable letters without spaces"}
	}
	if snapshots.IsID(name) {
		return Snapshot{}, &BadRequest{What: "name: it has the form of a snapshot's ID"}
	}
	pool, err := s.Files()
	if err != nil {
		return Snapshot{}, err
	}
	r := s.Record()
	snap := Snapshot{
		ID: snapshots.NewID(), Tenant: r.Tenant, Sandbox: r.ID, Name: name,
		Created: time.Now().UTC(), Env: r.Env, Network: r.Network, Made: r.Made,
	}
	dir := filepath.Join(s.host.snapshots(r.Tenant), snap.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return snap, fmt.Errorf("make snapshot: %w", err)
	}
	err = pool.Keep(ctx, Home, filepath.Join(dir, "files.tar"), maxSnapshot, tooMuch())
	if err == nil {
		err = snapshots.Write(dir, snap)
	}
	if err != nil {
		return snap, errors.Join(fmt.Errorf("make snapshot: %w", err), os.RemoveAll(dir))
	}
	return snap, nil
}

// reserveSnapshot counts a snapshot before it is made, so that many requests at once stay
// within the limit too.
func (h *Host) reserveSnapshot(t tenants.Tenant) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list, err := h.Snapshots(t.Name)
	if err != nil {
		return nil, err
	}
	if n := len(list) + h.kept[t.Name]; n >= t.Limits.Snapshots {
		return nil, &Over{fmt.Sprintf("the tenant has %d snapshots, which is its limit", n)}
	}
	h.kept[t.Name]++
	return func() {
		h.mu.Lock()
		h.kept[t.Name]--
		h.mu.Unlock()
	}, nil
}

// Snapshots lists a tenant's snapshots, the newest first.
func (h *Host) Snapshots(tenant string) ([]Snapshot, error) {
	return snapshots.List(h.snapshots(tenant))
}

// FindSnapshot finds a tenant's snapshot by its ID or its name; nil for none.
func (h *Host) FindSnapshot(tenant, id string) (*Snapshot, error) {
	return snapshots.Find(h.snapshots(tenant), id)
}

// RemoveSnapshot removes a tenant's snapshot; it says false for none.
func (h *Host) RemoveSnapshot(tenant, id string) (bool, error) {
	s, err := h.FindSnapshot(tenant, id)
	if s == nil || err != nil {
		return false, err
	}
	if err := os.RemoveAll(filepath.Join(h.snapshots(tenant), s.ID)); err != nil {
		return false, fmt.Errorf("remove snapshot: %w", err)
	}
	return true, nil
}

// fill gives a new sandbox the files of a snapshot.
func (s *Sandbox) fill(ctx context.Context, from *Snapshot) error {
	pool, err := s.Files()
	if err == nil {
		err = pool.Give(ctx, Home, filepath.Join(s.host.snapshots(s.tenant.Name), from.ID, "files.tar"))
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
	snap, err := s.Snapshot(ctx, "")
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
	_, err = s.host.RemoveSnapshot(t.Name, snap.ID)
	return out, err
}
