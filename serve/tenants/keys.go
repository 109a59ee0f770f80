package tenants

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"
)

// Key is one key, without the key itself.
type Key struct {
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	Label   string    `json:"label,omitempty"`
	Scope   Scope     `json:"scope"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Digest  string    `json:"digest"`
}

// Keys gives the keys of one tenant, or of all for "".
func (r *Register) Keys(tenant string) ([]Key, error) {
	t, err := r.read()
	return slices.DeleteFunc(slices.Clone(t.Keys), func(k Key) bool { return tenant != "" && k.Tenant != tenant }), err
}

// MakeKey makes a key for a tenant and gives it, for the only time. first is as for Add.
func (r *Register) MakeKey(k Key, first func(Key) error) (Key, string, error) {
	var raw [20]byte
	_, _ = rand.Read(raw[:]) // it cannot fail (crypto/rand)
	text := Prefix + hex.EncodeToString(raw[:])
	k.ID, k.Digest = strings.ToLower(rand.Text()[:10]), digest(text)
	return k, text, r.change(func(all *Table) error {
		if !slices.ContainsFunc(all.Tenants, func(t Tenant) bool { return t.Name == k.Tenant }) {
			return ErrMissing
		}
		if err := first(k); err != nil {
			return err
		}
		all.Keys = append(all.Keys, k)
		return nil
	})
}

// ErrNoKey is the error of a key's ID that none has.
var ErrNoKey = errors.New("no key has that id")

// RemoveKey ends a key. first is as for Add.
func (r *Register) RemoveKey(id string, first func(Key) error) error {
	return r.change(func(all *Table) error {
		i := slices.IndexFunc(all.Keys, func(k Key) bool { return k.ID == id })
		if i < 0 {
			return ErrNoKey
		}
		if err := first(all.Keys[i]); err != nil {
			return err
		}
		all.Keys = slices.Delete(all.Keys, i, i+1)
		return nil
	})
}

func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Find gives the tenant and the scope of a key, at a moment.
func (r *Register) Find(key string, at time.Time) (Tenant, Scope, error) {
	t, err := r.read()
	if err != nil {
		return Tenant{}, "", err
	}
	k, ok := r.keyOf(t, digest(key))
	if !ok || !k.Expires.IsZero() && !at.Before(k.Expires) {
		return Tenant{}, "", ErrNone
	}
	i := slices.IndexFunc(t.Tenants, func(t Tenant) bool { return t.Name == k.Tenant })
	if i < 0 {
		return Tenant{}, "", ErrNone
	}
	return t.Tenants[i], k.Scope, nil
}

// keyOf finds a key by its digest.
func (r *Register) keyOf(t Table, digest string) (Key, bool) {
	if r.kept != nil {
		i := slices.IndexFunc(t.Keys, func(k Key) bool { return k.Digest == digest })
		if i < 0 {
			return Key{}, false
		}
		return t.Keys[i], true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.byKey[digest]
	return k, ok
}
