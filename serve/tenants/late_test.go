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
