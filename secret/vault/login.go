package vault

import (
	"context"
	"fmt"
	"time"

	"cloister/secret"
)

// A Renewer makes the value of a login as of now from what is kept of it. next is
// what is to be kept from now on, where that is another.
type Renewer func(ctx context.Context, login string, kept secret.Value) (value, next secret.Value, err error)

// SetLogin stores what is kept of a login.
func (v *Vault) SetLogin(name, login string, kept secret.Value, now time.Time) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return v.put(name, &held{Item: Item{Name: name, Login: login, SetAt: now}, value: kept})
}

// login is the value of a login, renewed where it must be.
func (v *Vault) login(ctx context.Context, h *held) (secret.Value, uint64, error) {
	h.fetching.Lock()
	defer h.fetching.Unlock()
	v.mu.Lock()
	kept, failed, age := h.value, h.failed, time.Since(h.fetched)
	v.mu.Unlock()
	if failed != nil && age < retryAfter {
		return secret.Value{}, 0, fmt.Errorf("secret %q: %w", h.Name, failed)
	}
	value, next, err := v.renew(ctx, h.Login, kept)
	v.mu.Lock()
	defer v.mu.Unlock()
	if h.failed = err; err != nil {
		h.fetched = time.Now()
		return secret.Value{}, 0, fmt.Errorf("secret %q: %w", h.Name, err)
	}
	if next.IsZero() {
		return value, h.revision, nil
	}
	v.renewed(h, next)
	return value, h.revision, nil
}

// renewed keeps what a login became. The old one is worth nothing any more: the new
// one rules, also when it cannot be written. Where another hand wrote the vault
// meanwhile, it goes to the same login there. The caller has the lock.
func (v *Vault) renewed(h *held, next secret.Value) {
	err := v.reread()
	now := v.items[h.Name]
	v.revision++
	h.value, h.revision = next, v.revision
	if now == nil || now != h && !now.sameLogin(h) {
		// Removed, or another login; or the vault is just being brought back.
		h.unwritten = unwrittenError(ErrNotFound)
		v.aside[h.Name] = h
		return
	}
	now.value, now.revision = next, v.revision
	if err == nil {
		err = v.save()
	}
	if err != nil {
		now.unwritten = unwrittenError(err)
	}
}

func unwrittenError(why error) error {
	return fmt.Errorf("it was renewed, and could not be written; it is gone when the guardian ends: %w", why)
}

// sameLogin reports whether two are of one login, at two times: a new login sets
// another time, and a renewal none.
func (h *held) sameLogin(o *held) bool {
	return h.Login != "" && h.Login == o.Login && h.SetAt.Equal(o.SetAt)
}

// fresh is the last answer of a command, or its last failure, where that is young
// enough.
func (v *Vault) fresh(h *held) (value secret.Value, revision uint64, err error, fresh bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	age := time.Since(h.fetched)
	switch {
	case h.failed != nil && age < retryAfter:
		return secret.Value{}, 0, fmt.Errorf("secret %q: %w", h.Name, h.failed), true
	case h.failed == nil && !h.fetched.IsZero() && age < h.Refresh:
		return h.value, h.revision, nil, true
	}
	return secret.Value{}, 0, nil, false
}
