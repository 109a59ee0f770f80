// Package tenants knows whose requests a server answers, by their keys.
//
// [Open] reads the register of one server: tenants, their bounds, and the digests of their
// keys. [Register.Find] gives the tenant of a key as the file on disk has it now, so that a
// key that was removed opens nothing any more.
//
// The promise: a key is shown once, when it is made, and kept as its SHA-256 digest alone;
// it has 160 random bits, so a digest gives nothing to guess. A name is one word of a path.
// It knows no sandbox and judges no request.
//
// Most readers want [Register.Find].
package tenants

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/durable"
	"cloister/internal/realpath"
)

// Limits bound one tenant.
type Limits struct {
	Sandboxes         int           `json:"sandboxes"`           // that exist at once, paused ones too
	Lifetime          time.Duration `json:"lifetime"`            // the longest timeout of a sandbox
	RequestsPerMinute int           `json:"requests_per_minute"` // of all its keys together
	Streams           int           `json:"streams"`             // requests under way at once
	Snapshots         int           `json:"snapshots"`
	Memory            string        `json:"memory,omitempty"` // of one sandbox; empty for the configuration's
	CPUs              float64       `json:"cpus,omitempty"`   // of one sandbox
	Ahead             int           `json:"ahead,omitempty"`  // sandboxes that are made before a request
}

// Usual are the limits of a tenant for which nothing else was said.
func Usual() Limits {
	return Limits{Sandboxes: 20, Lifetime: 24 * time.Hour, RequestsPerMinute: 6000, Streams: 512, Snapshots: 100, Ahead: 2}
}

// Tenant is one customer of a server.
type Tenant struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Limits  Limits    `json:"limits"`
	// Config is the configuration of its instances, where several servers have one each.
	Config string `json:"config,omitempty"`
}

// Scope is what a key may do.
type Scope string

// The closed set of scopes.
const (
	All  Scope = "all"
	Read Scope = "read" // list and look, change nothing and enter nothing
)

// Table is the register as a value, and the file.
type Table struct {
	Version int      `json:"version"`
	Tenants []Tenant `json:"tenants"`
	Keys    []Key    `json:"keys"`
}

// Register is the register of one server, or of several with one keeper.
type Register struct {
	dir  string
	kept Keeper // nil where the file is the register

	writing sync.Mutex // one configuration at a time

	mu    sync.Mutex
	seen  fs.FileInfo
	now   Table
	byKey map[string]Key
}

// Keeper has the register of several servers.
type Keeper interface {
	// Now gives the register, and its revision. With latest it is as it is at this moment; else
	// it may be a moment old, and is given without waiting.
	Now(latest bool) (t Table, revision int64, err error)
	// Replace puts another in the place of that of a revision; an error where it is not the
	// latest any more.
	Replace(t Table, revision int64) error
}

// OpenKept opens the register that a keeper has. The folder is for what this server has of each tenant.
func OpenKept(dir string, kept Keeper) (*Register, error) {
	r, err := Open(dir)
	if err != nil {
		return nil, err
	}
	if r.seen != nil {
		return nil, fmt.Errorf("open the register of tenants: %s has tenants of its own, "+
			"and the database would hide them: name another XDG_DATA_HOME", r.dir)
	}
	r.kept = kept
	return r, nil
}

// Kept says that several servers have this register.
func (r *Register) Kept() bool { return r.kept != nil }

// Prefix begins every key.
const Prefix = "e2b_"

// ErrNone is the error of a key that opens nothing, whatever the reason.
var ErrNone = errors.New("the key is not known")

// ErrTaken and ErrMissing are errors of names.
var (
	ErrTaken   = errors.New("a tenant of that name exists")
	ErrMissing = errors.New("no tenant has that name")
)

// Open opens the register in a folder, which is made.
func Open(dir string) (*Register, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the register of tenants: %w", err)
	}
	real, err := realpath.Of(dir)
	if err != nil {
		return nil, fmt.Errorf("open the register of tenants: %w", err)
	}
	r := &Register{dir: real}
	_, err = r.readFile()
	return r, err
}

func (r *Register) file() string { return filepath.Join(r.dir, "tenants.json") }

// Home is the folder of one tenant.
func (r *Register) Home(name string) string { return filepath.Join(r.dir, "t", name) }

// CheckName refuses what cannot be a tenant's name.
func CheckName(name string) error {
	ok := len(name) >= 1 && len(name) <= 32 && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	}) && name[0] != '-'
	if !ok {
		return fmt.Errorf("tenant name %q: want at most 32 of a-z, 0-9 and hyphens, no hyphen first", name)
	}
	return nil
}

// read gives the table as it is now.
func (r *Register) read() (Table, error) {
	if r.kept != nil {
		t, _, err := r.kept.Now(true)
		return t, err
	}
	return r.readFile()
}

// recent is read, for what is asked many times a second: a keeper's may be a moment old.
func (r *Register) recent() (Table, error) {
	if r.kept != nil {
		t, _, err := r.kept.Now(false)
		return t, err
	}
	return r.readFile()
}

// readFile gives the table as it is on disk.
func (r *Register) readFile() (Table, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fi, err := os.Stat(r.file())
	if errors.Is(err, fs.ErrNotExist) {
		r.seen, r.now, r.byKey = nil, Table{Version: 1}, nil
		return r.now, nil
	}
	if err != nil {
		return Table{}, fmt.Errorf("read the register of tenants: %w", err)
	}
	if r.seen != nil && os.SameFile(fi, r.seen) && fi.ModTime().Equal(r.seen.ModTime()) && fi.Size() == r.seen.Size() {
		return r.now, nil
	}
	text, err := os.ReadFile(r.file())
	if err != nil {
		return Table{}, fmt.Errorf("read the register of tenants: %w", err)
	}
	var t Table
	if err := json.Unmarshal(text, &t); err != nil {
		return Table{}, fmt.Errorf("read the register of tenants: %s: %w", r.file(), err)
	}
	if t.Version != 1 {
		return Table{}, fmt.Errorf("read the register of tenants: %s has version %d, want 1", r.file(), t.Version)
	}
	byKey := make(map[string]Key, len(t.Keys))
	for _, k := range t.Keys {
		byKey[k.Digest] = k
	}
	r.seen, r.now, r.byKey = fi, t, byKey
	return t, nil
}

// Alone gives a file whose lock says that a server answers for these tenants, until it is
// closed. Two servers would each end what the other one makes.
func (r *Register) Alone() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(r.dir, "serve.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrServed
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve: %w", err), f.Close())
	}
	return f, nil
}

// ErrServed says that another server answers for the tenants.
var ErrServed = errors.New("another cloister serve answers for these tenants: end it first, or use another " +
	"XDG_DATA_HOME")

// change replaces the table, one writer at a time.
func (r *Register) change(f func(*Table) error) error {
	if r.kept != nil {
		t, revision, err := r.kept.Now(true)
		if err != nil {
			return err
		}
		t.Tenants, t.Keys = slices.Clone(t.Tenants), slices.Clone(t.Keys)
		if err := f(&t); err != nil {
			return err
		}
		return r.kept.Replace(t, revision)
	}
	return durable.Edit(r.file(), filepath.Join(r.dir, "tenants.lock"), r.readFile, func(t Table) (Table, error) {
		t.Tenants, t.Keys = slices.Clone(t.Tenants), slices.Clone(t.Keys)
		return t, f(&t)
	})
}

// Add adds a tenant. first is called before anything changes; its error leaves all as it is.
func (r *Register) Add(t Tenant, first func() error) error {
	if err := CheckName(t.Name); err != nil {
		return err
	}
	return r.change(func(all *Table) error {
		if slices.ContainsFunc(all.Tenants, func(o Tenant) bool { return o.Name == t.Name }) {
			return ErrTaken
		}
		if err := first(); err != nil {
			return err
		}
		all.Tenants = append(all.Tenants, t)
		return nil
	})
}

// Remove removes a tenant with its keys. Its folder stays. first is as for Add.
func (r *Register) Remove(name string, first func() error) error {
	return r.change(func(all *Table) error {
		n := len(all.Tenants)
		all.Tenants = slices.DeleteFunc(all.Tenants, func(t Tenant) bool { return t.Name == name })
		if len(all.Tenants) == n {
			return ErrMissing
		}
		if err := first(); err != nil {
			return err
		}
		all.Keys = slices.DeleteFunc(all.Keys, func(k Key) bool { return k.Tenant == name })
		return nil
	})
}

// Configure gives a tenant another configuration, for servers that have one register. first is
// as for Add.
func (r *Register) Configure(name, text string, first func() error) error {
	return r.change(func(all *Table) error {
		i := slices.IndexFunc(all.Tenants, func(t Tenant) bool { return t.Name == name })
		if i < 0 {
			return ErrMissing
		}
		if err := first(); err != nil {
			return err
		}
		all.Tenants[i].Config = text
		return nil
	})
}

// List gives all tenants.
func (r *Register) List() ([]Tenant, error) {
	t, err := r.recent()
	return slices.Clone(t.Tenants), err
}

// Named gives a tenant by its name, as this server has heard of it.
func (r *Register) Named(name string) (Tenant, error) {
	t, err := r.recent()
	if err != nil {
		return Tenant{}, err
	}
	return t.named(name)
}

// Latest gives a tenant by its name as it is at this moment, for which the database is asked: another
// server may have added it, or removed it and added it anew, a moment ago.
func (r *Register) Latest(name string) (Tenant, error) {
	if r.kept == nil {
		return r.Named(name)
	}
	t, _, err := r.kept.Now(true)
	if err != nil {
		return Tenant{}, err
	}
	return t.named(name)
}

func (t Table) named(name string) (Tenant, error) {
	i := slices.IndexFunc(t.Tenants, func(t Tenant) bool { return t.Name == name })
	if i < 0 {
		return Tenant{}, ErrMissing
	}
	return t.Tenants[i], nil
}
