package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/internal/durable"
	"cloister/serve/templates"
	"cloister/serve/tenants"
)

// Snapshot is the files of a sandbox at a moment.
type Snapshot struct {
	ID      string            `json:"id"`
	Tenant  string            `json:"tenant"`
	Sandbox string            `json:"sandbox"`
	Name    string            `json:"name,omitempty"`
	Created time.Time         `json:"created"`
	Env     map[string]string `json:"env,omitempty"`
	// Network is what the sandbox's maker had taken away: a copy has no more.
	Network Network        `json:"network,omitzero"`
	Made    templates.Made `json:"made,omitzero"` // of what its sandbox was made
}

// maxSnapshot bounds the files of one snapshot.
const maxSnapshot = 10 << 30

// snapshotPrefix begins the ID of each.
const snapshotPrefix = "snap"

// snapshotID is the form of an ID: a name of that form could stand for another snapshot's.
var snapshotID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^` + snapshotPrefix + `[a-z2-7]{16}$`)
})

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
	if snapshotID().MatchString(name) {
		return Snapshot{}, &BadRequest{What: "name: it has the form of a snapshot's ID"}
	}
	pool, err := s.Files()
	if err != nil {
		return Snapshot{}, err
	}
	r := s.Record()
	snap := Snapshot{
		ID: snapshotPrefix + strings.ToLower(rand.Text()[:16]), Tenant: r.Tenant, Sandbox: r.ID, Name: name,
		Created: time.Now().UTC(), Env: r.Env, Network: r.Network, Made: r.Made,
	}
	dir := filepath.Join(s.host.snapshots(r.Tenant), snap.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return snap, fmt.Errorf("make snapshot: %w", err)
	}
	err = keep(filepath.Join(dir, "files.tar"), func(w io.Writer) error { return pool.Pack(ctx, Home, w) })
	if err == nil {
		var text []byte
		if text, err = json.MarshalIndent(snap, "", "  "); err == nil {
			err = durable.WriteFile(filepath.Join(dir, "snapshot.json"), append(text, '\n'), 0o600)
		}
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

// sweepSnapshots removes what a server that was killed had half made.
func (h *Host) sweepSnapshots(tenant string) error {
	dirs, err := filepath.Glob(filepath.Join(h.snapshots(tenant), snapshotPrefix+"*"))
	for _, dir := range dirs {
		if _, serr := os.Lstat(filepath.Join(dir, "snapshot.json")); errors.Is(serr, os.ErrNotExist) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err != nil {
		return fmt.Errorf("remove unfinished snapshots: %w", err)
	}
	return nil
}

// keep writes a file that did not exist.
func keep(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = write(&limited{f, maxSnapshot})
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// limited gives an error after so many bytes.
type limited struct {
	io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, &Over{fmt.Sprintf("a snapshot may have %d bytes", int64(maxSnapshot))}
	}
	return l.Writer.Write(p)
}

// Snapshots lists a tenant's snapshots, the newest first.
func (h *Host) Snapshots(tenant string) ([]Snapshot, error) {
	names, err := filepath.Glob(filepath.Join(h.snapshots(tenant), "*", "snapshot.json"))
	if err != nil {
		return nil, err
	}
	var out []Snapshot
	for _, name := range names {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // it was removed meanwhile
		}
		var s Snapshot
		if err == nil {
			err = json.Unmarshal(text, &s)
		}
		if err != nil {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Snapshot) int { return b.Created.Compare(a.Created) })
	return out, nil
}

// FindSnapshot finds a tenant's snapshot by its ID or its name; nil for none.
func (h *Host) FindSnapshot(tenant, id string) (*Snapshot, error) {
	list, err := h.Snapshots(tenant)
	byID := func(s Snapshot) bool { return s.ID == id }
	byName := func(s Snapshot) bool { return s.Name != "" && s.Name == id }
	for _, is := range []func(Snapshot) bool{byID, byName} { // a name takes no ID's place
		if i := slices.IndexFunc(list, is); i >= 0 {
			return &list[i], err
		}
	}
	return nil, err
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
	f, err := os.Open(filepath.Join(s.host.snapshots(s.tenant.Name), from.ID, "files.tar"))
	if err != nil {
		return fmt.Errorf("begin with a snapshot: %w", err)
	}
	defer f.Close()
	pool, err := s.Files()
	if err == nil {
		err = pool.Unpack(ctx, Home, f)
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
