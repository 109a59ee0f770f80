package tenants_test

import (
	"errors"
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

// TestATenantOfAMomentAgo: one that another server has just added is known to this one, which asks the
// database for none that it knows; and where the database is away, what was heard of holds.
func TestATenantOfAMomentAgo(t *testing.T) {
	made := time.Now()
	old := tenants.Tenant{Name: "old", Created: made}
	l := &late{heard: tenants.Table{Version: 1, Tenants: []tenants.Tenant{old}}}
	l.now = tenants.Table{Version: 1, Tenants: []tenants.Tenant{old, {Name: "new", Created: made}}}
	r, err := tenants.OpenKept(t.TempDir(), l)
	if err != nil {
		t.Fatal(err)
	}
	l.asked = 0
	if one, err := r.Named("old"); err != nil || one.Name != "old" || l.asked != 0 {
		t.Errorf("%+v, %v, asked %d times", one, err, l.asked)
	}
	if one, err := r.Named("new"); err != nil || one.Name != "new" || !one.Created.Equal(made) {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := r.Named("none"); !errors.Is(err, tenants.ErrMissing) {
		t.Errorf("one that is not there: %v", err)
	}
	l.away = errors.New("away")
	for name, want := range map[string]error{"old": nil, "new": tenants.ErrMissing} {
		if _, err := r.Named(name); !errors.Is(err, want) {
			t.Errorf("%s, with the database away: %v", name, err)
		}
	}
}
