package tenants_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cloister/serve/tenants"
)

// late is a register that another server has changed since this one heard of it.
type late struct {
	heard, now tenants.Table
	away       error
	asked      int
}

func (l *late) Now(latest bool) (tenants.Table, int64, error) {
	if latest {
		l.asked++
		return l.now, 2, l.away
	}
	return l.heard, 1, nil
}

func (*late) Replace(tenants.Table, int64) error { return errors.New("nothing is replaced here") }

// TestATenantOfAMomentAgo: one that another server has just added, or added anew, is had from the database, which
// is asked for nothing else; and where that is away, there is no answer about it.
func TestATenantOfAMomentAgo(t *testing.T) {
	made := time.Now()
	old := tenants.Tenant{Name: "old", Created: made}
	anew := tenants.Tenant{Name: "old", Created: made.Add(time.Second)}
	l := &late{heard: tenants.Table{Version: 1, Tenants: []tenants.Tenant{old}}}
	l.now = tenants.Table{Version: 1, Tenants: []tenants.Tenant{anew, {Name: "new", Created: made}}}
	r, err := tenants.OpenKept(t.TempDir(), l)
	if err != nil {
		t.Fatal(err)
	}
	l.asked = 0
	if one, err := r.Named("old"); err != nil || one.Name != "old" || l.asked != 0 {
		t.Errorf("%+v, %v, asked %d times", one, err, l.asked)
	}
	if one, err := r.Latest("new"); err != nil || one.Name != "new" || !one.Created.Equal(made) {
		t.Errorf("%+v, %v", one, err)
	}
	if one, err := r.Latest("old"); err != nil || !one.Created.Equal(anew.Created) {
		t.Errorf("%+v, %v", one, err)
	}
	for _, look := range []func(string) (tenants.Tenant, error){r.Named, r.Latest} {
		if _, err := look("none"); !errors.Is(err, tenants.ErrMissing) {
			t.Errorf("one that is not there: %v", err)
		}
	}
	l.away = errors.New("away")
	if _, err := r.Latest("new"); err == nil || errors.Is(err, tenants.ErrMissing) {
		t.Errorf("with the database away: %v", err)
	}
}

// TestConfigurationOfAMomentAgo: a request that found its tenant before that was configured anew, or
// removed, writes nothing of what it found.
func TestConfigurationOfAMomentAgo(t *testing.T) {
	made := time.Now()
	was := tenants.Tenant{Name: "old", Created: made, Config: "wide"}
	now := was
	now.Config = "narrow"
	l := &late{heard: tenants.Table{Version: 1, Tenants: []tenants.Tenant{now}}}
	r, err := tenants.OpenKept(t.TempDir(), l)
	if err != nil {
		t.Fatal(err)
	}
	reads := func(want string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(r.Home("old"), "config", "cloister", "config.yaml"))
		if err != nil || string(text) != want {
			t.Errorf("%q, %v; want %q", text, err, want)
		}
	}
	if err := r.Write(was); err != nil {
		t.Error(err)
	}
	reads("narrow")
	l.heard.Tenants[0] = tenants.Tenant{Name: "old", Created: made.Add(time.Second), Config: "another's"}
	if err := r.Write(was); !errors.Is(err, tenants.ErrMissing) {
		t.Errorf("of one that is another's by now: %v", err)
	}
	reads("narrow")
}
