package tenants_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/serve/tenants"
)

func open(t *testing.T) (*tenants.Register, string) {
	t.Helper()
	dir := t.TempDir()
	r, err := tenants.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r, dir
}

func TestAKeyIsKeptAsADigest(t *testing.T) {
	r, dir := open(t)
	now := time.Now()
	if err := r.Add(tenants.Tenant{Name: "acme", Limits: tenants.Usual()}, nothing); err != nil {
		t.Fatal(err)
	}
	_, key, err := r.MakeKey(tenants.Key{Tenant: "acme", Scope: tenants.All}, unrecorded)
	if err != nil {
		t.Fatal(err)
	}
	if len(key) != 44 || !strings.HasPrefix(key, "e2b_") {
		t.Errorf("%q is no key of the form that the SDKs check", key)
	}
	text, err := os.ReadFile(filepath.Join(dir, "tenants.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), key[4:]) {
		t.Error("the file holds the key itself")
	}
	if info, err := os.Stat(filepath.Join(dir, "tenants.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	got, scope, err := r.Find(key, now)
	if err != nil || got.Name != "acme" || scope != tenants.All {
		t.Errorf("found %v, %q, %v", got, scope, err)
	}
}

func TestKeysThatOpenNothing(t *testing.T) {
	r, dir := open(t)
	now := time.Now()
	for _, name := range []string{"acme", "other"} {
		if err := r.Add(tenants.Tenant{Name: name, Limits: tenants.Usual()}, nothing); err != nil {
			t.Fatal(err)
		}
	}
	make := func(k tenants.Key) (tenants.Key, string) {
		k, text, err := r.MakeKey(k, unrecorded)
		if err != nil {
			t.Fatal(err)
		}
		return k, text
	}
	_, expired := make(tenants.Key{Tenant: "acme", Scope: tenants.All, Expires: now})
	removed, removedText := make(tenants.Key{Tenant: "acme", Scope: tenants.All})
	_, orphan := make(tenants.Key{Tenant: "other", Scope: tenants.All})
	_, good := make(tenants.Key{Tenant: "acme", Scope: tenants.All})
	// Another process changes the file: this one must see it.
	second, err := tenants.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(second.RemoveKey(removed.ID, unrecorded), second.Remove("other", nothing)); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{
		"none": "", "made up": "e2b_" + strings.Repeat("0", 40), "expired": expired, "removed": removedText,
		"of a removed tenant": orphan, "one letter more": good + "0", "without its head": good[4:],
	} {
		if got, _, err := r.Find(key, now); !errors.Is(err, tenants.ErrNone) {
			t.Errorf("%s: found %v, %v", name, got, err)
		}
	}
	if _, _, err := r.Find(good, now); err != nil {
		t.Errorf("the good key: %v", err)
	}
}

func TestNames(t *testing.T) {
	r, _ := open(t)
	for _, name := range []string{"", "..", "a/b", "-a", "A", "a.b", strings.Repeat("a", 33), "a\x00"} {
		if err := r.Add(tenants.Tenant{Name: name}, nothing); err == nil {
			t.Errorf("%q became a tenant", name)
		}
	}
	if err := r.Add(tenants.Tenant{Name: "a-1"}, nothing); err != nil {
		t.Error(err)
	}
	if err := r.Add(tenants.Tenant{Name: "a-1"}, nothing); !errors.Is(err, tenants.ErrTaken) {
		t.Errorf("twice: %v", err)
	}
	if _, _, err := r.MakeKey(tenants.Key{Tenant: "none"}, unrecorded); !errors.Is(err, tenants.ErrMissing) {
		t.Errorf("a key of no tenant: %v", err)
	}
}

func nothing() error               { return nil }
func unrecorded(tenants.Key) error { return nil }

// TestUnrecorded: what cannot be recorded is not done.
func TestUnrecorded(t *testing.T) {
	r, _ := open(t)
	full := errors.New("the disk is full")
	if err := r.Add(tenants.Tenant{Name: "b"}, func() error { return full }); !errors.Is(err, full) {
		t.Errorf("add: %v", err)
	}
	if _, err := r.Named("b"); !errors.Is(err, tenants.ErrMissing) {
		t.Errorf("a tenant that was not recorded: %v", err)
	}
	if err := r.Add(tenants.Tenant{Name: "a"}, nothing); err != nil {
		t.Fatal(err)
	}
	k, text, err := r.MakeKey(tenants.Key{Tenant: "a"}, unrecorded)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.RemoveKey(k.ID, func(tenants.Key) error { return full }); !errors.Is(err, full) {
		t.Errorf("remove a key: %v", err)
	}
	if err := r.Remove("a", func() error { return full }); !errors.Is(err, full) {
		t.Errorf("remove: %v", err)
	}
	if _, _, err := r.Find(text, time.Now()); err != nil {
		t.Errorf("the key whose removal was not recorded: %v", err)
	}
}
