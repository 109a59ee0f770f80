package tenants_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/internal/needs"
	"cloister/serve/database"
	"cloister/serve/database/postgres"
	"cloister/serve/tenants"
)

// opener opens a register in a folder, again and again.
type opener func(t *testing.T, dir string) *tenants.Register

func (o opener) open(t *testing.T) (*tenants.Register, string) {
	t.Helper()
	dir := t.TempDir()
	return o(t, dir), dir
}

func inFile(t *testing.T, dir string) *tenants.Register {
	t.Helper()
	r, err := tenants.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// suite is what holds wherever the register is kept.
var suite = map[string]func(*testing.T, opener){
	"keys that open nothing": keysThatOpenNothing, "names": names, "unrecorded": unrecordedChanges,
}

func TestInAFile(t *testing.T) {
	for name, f := range suite {
		t.Run(name, func(t *testing.T) { f(t, inFile) })
	}
}

// TestInADatabase has the same of a register that PostgreSQL keeps.
func TestInADatabase(t *testing.T) {
	p := needs.NewPostgres(t)
	for name, f := range suite {
		address := p.Database(strings.ReplaceAll(name, " ", "_"))
		t.Run(name, func(t *testing.T) {
			f(t, func(t *testing.T, dir string) *tenants.Register {
				t.Helper()
				db, err := postgres.Open(t.Context(), address)
				if err != nil {
					t.Fatal(err)
				}
				c := database.New(database.Options{Dial: func(context.Context) (io.ReadWriteCloser, error) {
					ours, theirs := net.Pipe()
					go func() { _ = db.Serve(theirs) }() // until ours is closed
					return ours, nil
				}})
				t.Cleanup(func() {
					c.Close()
					if err := db.Close(); err != nil {
						t.Error(err)
					}
				})
				r, err := tenants.OpenKept(dir, c)
				if err != nil {
					t.Fatal(err)
				}
				return r
			})
		})
	}
}

func TestAKeyIsKeptAsADigest(t *testing.T) {
	r, dir := opener(inFile).open(t)
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

func keysThatOpenNothing(t *testing.T, o opener) {
	r, dir := o.open(t)
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
	second := o(t, dir)
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

func names(t *testing.T, o opener) {
	r, _ := o.open(t)
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

// unrecordedChanges: what cannot be recorded is not done.
func unrecordedChanges(t *testing.T, o opener) {
	r, _ := o.open(t)
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
	k, text, err := r.MakeKey(tenants.Key{Tenant: "a", Scope: tenants.All}, unrecorded)
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
