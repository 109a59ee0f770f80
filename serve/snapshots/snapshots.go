// Package snapshots keeps the files of sandboxes at a moment: in this server's own folder, or, for all servers of a
// cell, in a bucket.
//
// The promise: a bucket is not believed. What comes back of it is the tenant's own snapshot of that ID, byte for byte,
// or an error; a bucket that edits, exchanges, withholds, cuts or rolls back objects, is full, slow or away is a
// refusal, and takes nothing from what is kept elsewhere. Whoever has the bucket without the servers' keys reads no
// file, and sees of what two tenants have in common how large it is. Objects that no snapshot needs are removed.
//
// It starts no sandbox, and knows neither a wire nor S3.
//
// Most readers want [Keeper.Keep] and [Keeper.Open].
package snapshots

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/serve/narrow"
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
	Network narrow.Network `json:"network,omitzero"`
	Made    templates.Made `json:"made,omitzero"` // of what its sandbox was made

	in *manifest // of one in the bucket; nil for one of this server's own
}

// Over is the error of a bound that is reached.
type Over struct{ What string }

// Error says which.
func (e *Over) Error() string { return e.What }

// Most bounds the bytes of one snapshot.
const Most = 10 << 30

// prefix begins the ID of each.
const prefix = "snap"

// pattern is the form of an ID: a name of that form could stand for another snapshot's.
var pattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + prefix + `[a-z2-7]{16}$`) })

// NewID makes an ID.
func NewID() string { return prefix + strings.ToLower(rand.Text()[:16]) }

// IsID says that a word has the form of an ID.
func IsID(word string) bool { return pattern().MatchString(word) }

// CheckName refuses what cannot be a snapshot's name.
func CheckName(name string) error {
	if len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return &narrow.BadRequest{What: "name: want at most 128 printable letters without spaces"}
	}
	if IsID(name) {
		return &narrow.BadRequest{What: "name: it has the form of a snapshot's ID"}
	}
	return nil
}

// Keeper keeps the snapshots of all tenants of a server.
type Keeper struct {
	Home func(tenant string) string // a tenant's folder on this server
	Cell *Cell                      // of several servers; nil for a server's own folder alone

	mu     sync.Mutex
	making map[string]int // in this server's folder, by tenant
}

func (k *Keeper) folder(tenant string) folder {
	return folder(filepath.Join(k.Home(tenant), "snapshots"))
}

// SealedBy says by which key a snapshot is sealed that all servers find, for the record; empty for one that none is.
func (k *Keeper) SealedBy() string {
	if k.Cell == nil {
		return ""
	}
	return ", sealed by the key " + k.Cell.Keys.current()
}

// Pack writes the files of a sandbox as a stream.
type Pack func(io.Writer) error

// Keep keeps a snapshot where all servers find it, else on this server.
func (k *Keeper) Keep(ctx context.Context, t tenants.Tenant, s Snapshot, pack Pack) error {
	if k.Cell != nil {
		return k.Cell.keep(ctx, t, s, pack)
	}
	return k.KeepHere(t, s, pack)
}

// KeepHere keeps a snapshot on this server.
func (k *Keeper) KeepHere(t tenants.Tenant, s Snapshot, pack Pack) error {
	release, err := k.reserve(t)
	if err != nil {
		return err
	}
	defer release()
	return k.folder(t.Name).keep(s, pack)
}

// reserve counts a snapshot before it is made, so that many requests at once stay within the limit too.
func (k *Keeper) reserve(t tenants.Tenant) (release func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list, err := k.folder(t.Name).list()
	if err != nil {
		return nil, err
	}
	if n := len(list) + k.making[t.Name]; n >= t.Limits.Snapshots {
		return nil, over(n)
	}
	if k.making == nil {
		k.making = map[string]int{}
	}
	k.making[t.Name]++
	return func() {
		k.mu.Lock()
		k.making[t.Name]--
		k.mu.Unlock()
	}, nil
}

func over(n int) error {
	return &Over{fmt.Sprintf("the tenant has %d snapshots, which is its limit", n)}
}

// Sweep removes what a server that was killed had half made on this host.
func (k *Keeper) Sweep(tenant string) error { return k.folder(tenant).sweep() }

// List lists a tenant's snapshots, the newest first: those in the bucket without what only their manifest says.
func (k *Keeper) List(ctx context.Context, t tenants.Tenant) ([]Snapshot, error) {
	list, err := k.folder(t.Name).list()
	if err == nil && k.Cell != nil {
		var all []Snapshot
		all, err = k.Cell.list(ctx, t)
		list = append(list, all...)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b Snapshot) int { return b.Created.Compare(a.Created) })
	return list, nil
}

// find finds one by its ID or its name, as it is listed; nil for none.
func (k *Keeper) find(ctx context.Context, t tenants.Tenant, id string) (*Snapshot, error) {
	list, err := k.List(ctx, t)
	byID := func(s Snapshot) bool { return s.ID == id }
	byName := func(s Snapshot) bool { return s.Name != "" && s.Name == id }
	for _, is := range []func(Snapshot) bool{byID, byName} { // a name takes no ID's place
		if i := slices.IndexFunc(list, is); i >= 0 {
			return &list[i], err
		}
	}
	return nil, err
}

// Find finds a tenant's snapshot by its ID or its name, whole; nil for none.
func (k *Keeper) Find(ctx context.Context, t tenants.Tenant, id string) (*Snapshot, error) {
	s, err := k.find(ctx, t, id)
	if err != nil || s == nil || s.in == nil {
		return s, err
	}
	return k.Cell.load(ctx, t, s)
}

// ID is that of a tenant's snapshot by its ID or its name; empty for none. Nothing of what was kept is read, so that
// a damaged one can be removed too.
func (k *Keeper) ID(ctx context.Context, t tenants.Tenant, id string) (string, error) {
	s, err := k.find(ctx, t, id)
	if err != nil || s == nil {
		return "", err
	}
	return s.ID, nil
}

// Remove removes a tenant's snapshot; it says false for none.
func (k *Keeper) Remove(ctx context.Context, t tenants.Tenant, id string) (bool, error) {
	s, err := k.find(ctx, t, id)
	switch {
	case s == nil || err != nil:
		return false, err
	case s.in != nil:
		return k.Cell.remove(ctx, t, s.ID)
	}
	return true, k.folder(t.Name).remove(s.ID)
}

// RemoveHere removes one that was kept on this server.
func (k *Keeper) RemoveHere(t tenants.Tenant, id string) error { return k.folder(t.Name).remove(id) }

// Open gives the stream of a snapshot that [Keeper.Find] gave, or that was kept here.
func (k *Keeper) Open(ctx context.Context, t tenants.Tenant, s *Snapshot) (io.ReadCloser, error) {
	if s.in != nil {
		return k.Cell.open(ctx, t, s.in), nil
	}
	return k.folder(t.Name).open(s.ID)
}

// limited gives an error after so many bytes.
type limited struct {
	io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, &Over{fmt.Sprintf("a snapshot may have %d bytes", int64(Most))}
	}
	return l.Writer.Write(p)
}
