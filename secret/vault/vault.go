// Package vault keeps secrets on disk, encrypted, for one user.
//
// Promise: the file is age's, written whole or not at all; one that cannot be
// read is kept as it is, named in the error, and never written over, also where it
// came to be so after it was read here. Its key lies
// in the system's keyring where there is one, else in a file beside it that only
// its user may read: Protection says which in words for a person. A secret that a
// command prints is fetched when it is used, and held in memory only.
//
// It does not guard against other programs of the same user, who can read what
// this one can. One process at a time may have a vault open.
//
// Most readers want Open.
package vault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/secret"

	"filippo.io/age"
)

// ErrNotFound says that the vault has no secret of that name.
var ErrNotFound = errors.New("no such secret")

// MinRefresh is the shortest time for which a command's answer is kept.
const MinRefresh = time.Second

// DefaultRefresh is how long a command's answer is kept where nothing is said.
const DefaultRefresh = 15 * time.Minute

const (
	keyName = "key.txt"
	version = 1
	maxFile = 16 << 20
)

// CheckName says why a text cannot be the name of a secret.
func CheckName(name string) error {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
	if len(name) > 128 || strings.Trim(name, letters+"0123456789.-") != "" || strings.IndexAny(name, letters) != 0 {
		return fmt.Errorf("%q is not the name of a secret: letters, digits, _, - and ., a letter or _ first", name)
	}
	return nil
}

// An Item is what the vault knows of one secret, without its value.
type Item struct {
	Name string
	// Kind is what the value is, where that is more than a text.
	Kind secret.Kind
	// Command prints the value; empty for one that is stored. Where the value stands
	// in it there is a mark.
	Command []string
	Refresh time.Duration
	// Login is the service that gave it, and by which it is renewed; empty for none.
	Login string
	SetAt time.Time
	// Problem is why the command gave nothing the last time.
	Problem error
}

// entry is an Item with its value as the file has it.
type entry struct {
	Name    string    `json:"name"`
	Kind    string    `json:"kind,omitempty"`
	Value   string    `json:"value,omitempty"`
	Command []string  `json:"command,omitempty"`
	Shown   []string  `json:"shown,omitempty"` // where that is not Command
	Refresh string    `json:"refresh,omitempty"`
	Login   string    `json:"login,omitempty"` // Value is what the Renewer keeps
	SetAt   time.Time `json:"set_at"`
}

// Vault is an open vault, safe for use by several goroutines.
type Vault struct {
	dir   string
	ring  Keyring
	run   Runner
	renew Renewer

	mu     sync.Mutex
	seen   os.FileInfo         // the file as it was read or written here; nil for none
	key    *age.X25519Identity // nil before the first secret
	inRing bool
	items  map[string]*held
	// aside are logins with an unwritten value of which the file has nothing now.
	aside    map[string]*held
	revision uint64
}

// held is one secret in memory.
type held struct {
	Item
	argv  []string     // Command as it is run
	value secret.Value // of a login, what the Renewer keeps
	// fetching is held while the command of a secret runs, or it is renewed.
	fetching sync.Mutex
	fetched  time.Time
	failed   error
	// unwritten is why what is held is not on the disk.
	unwritten error
	revision  uint64
}

// Open reads the vault in dir; one that does not exist is empty. ring is nil
// where this host has none; run executes commands that print a secret, renew keeps
// logins young.
func Open(dir string, ring Keyring, run Runner, renew Renewer) (*Vault, error) {
	v := &Vault{dir: dir, ring: ring, run: run, renew: renew, items: map[string]*held{}, aside: map[string]*held{}}
	if err := v.Reread(); err != nil {
		return nil, err
	}
	return v, nil
}

// Reread takes what another hand made of the vault since it was read or written
// here. What is held stays where that cannot be read.
func (v *Vault) Reread() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reread()
}

func (v *Vault) names() []string {
	names := make([]string, 0, len(v.items))
	for name := range v.items {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// put replaces one secret, or removes it where h is nil, and writes the vault.
func (v *Vault) put(name string, h *held) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.reread(); err != nil {
		return err
	}
	before, had := v.items[name]
	v.revision++
	if h != nil {
		h.revision = v.revision
		v.items[name] = h
	} else {
		delete(v.items, name)
	}
	if err := v.save(); err != nil {
		delete(v.items, name)
		if had {
			v.items[name] = before
		}
		return err
	}
	return nil
}

// Set stores a value. One that was there is replaced, and its users get the
// new one from the next use on.
func (v *Vault) Set(name string, kind secret.Kind, value secret.Value, now time.Time) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return v.put(name, &held{Item: Item{Name: name, Kind: kind, SetAt: now}, value: value})
}

// SetCommand stores a command that prints the value. It is run once: what does
// not work is not kept.
func (v *Vault) SetCommand(ctx context.Context, name string, kind secret.Kind, argv []string, refresh time.Duration,
	now time.Time) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if refresh == 0 {
		refresh = DefaultRefresh
	}
	if refresh < MinRefresh {
		return fmt.Errorf("a refresh of %s is shorter than %s", refresh, MinRefresh)
	}
	h := &held{Item: Item{Name: name, Kind: kind, Refresh: refresh, SetAt: now}, argv: slices.Clone(argv)}
	value, err := v.fetch(ctx, kind, argv, argv)
	if err != nil {
		return err
	}
	h.Command = masked(argv, value)
	h.value, h.fetched = value, time.Now()
	return v.put(name, h)
}

// Remove forgets a secret.
func (v *Vault) Remove(name string) error {
	v.mu.Lock()
	_, ok := v.items[name]
	v.mu.Unlock()
	if !ok {
		return fmt.Errorf("secret %q: %w", name, ErrNotFound)
	}
	return v.put(name, nil)
}

// List tells what there is, by name.
func (v *Vault) List() []Item {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]Item, 0, len(v.items))
	for _, name := range v.names() {
		out = append(out, v.items[name].shown())
	}
	return out
}

// shown is the item as of now. The vault's lock is held.
func (h *held) shown() Item {
	i := h.Item
	i.Problem = errors.Join(h.failed, h.unwritten)
	return i
}

// Find tells of one secret.
func (v *Vault) Find(name string) (Item, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h := v.items[name]; h != nil {
		return h.shown(), nil
	}
	return Item{}, fmt.Errorf("secret %q: %w", name, ErrNotFound)
}

// Get is a secret's value as of now. The revision is another one whenever the
// value may be. A command whose answer is too old is run again; where it fails,
// the old answer is not used: the service would refuse it in worse words.
func (v *Vault) Get(ctx context.Context, name string) (secret.Value, uint64, error) {
	v.mu.Lock()
	h := v.items[name]
	v.mu.Unlock()
	if h == nil {
		return secret.Value{}, 0, fmt.Errorf("secret %q: %w", name, ErrNotFound)
	}
	switch {
	case h.Login != "":
		return v.login(ctx, h)
	case len(h.argv) == 0:
		return h.value, h.revision, nil
	}
	h.fetching.Lock()
	defer h.fetching.Unlock()
	if value, revision, err, fresh := v.fresh(h); fresh {
		return value, revision, err
	}
	value, err := v.fetch(ctx, h.Kind, h.argv, h.Command)
	v.mu.Lock()
	defer v.mu.Unlock()
	h.fetched, h.failed = time.Now(), err
	if err != nil {
		return secret.Value{}, 0, fmt.Errorf("secret %q: %w", name, err)
	}
	if value.Reveal() != h.value.Reveal() {
		v.revision++
		h.revision = v.revision
	}
	h.value = value
	h.Command = masked(h.Command, value) // as an older cloister stored it, it is not
	return value, h.revision, nil
}

// readBounded reads a file of a vault; a link is none.
func readBounded(name string) ([]byte, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a plain file", name)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return os.ReadFile(name)
}
