package postgres_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/internal/needs"
	"cloister/serve/database"
	"cloister/serve/database/postgres"
	"cloister/serve/tenants"
)

// TestDatabase has all that needs a server on one real PostgreSQL.
func TestDatabase(t *testing.T) {
	p := needs.NewPostgres(t)
	for name, f := range map[string]func(*testing.T, *needs.Postgres, string){
		"leases": leases, "limits": limits, "migrations": migrations, "newer": newer, "readonly": readOnly, "rows": rows,
		"clock": clock, "registers": registers, "remainder": remainder,
		"struck": struck,
	} {
		address := p.Database(name)
		t.Run(name, func(t *testing.T) { f(t, p, address) })
	}
	t.Run("away", func(t *testing.T) { away(t, p, p.Database("away")) }) // the last: it stops the server
}

// connect gives a server's client of a database.
func connect(t *testing.T, address, place string, lease time.Duration) *database.Client {
	t.Helper()
	c := connectRaw(t, address, place, lease)
	if place != "" {
		if err := c.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// connectRaw is one that has not joined.
func connectRaw(t *testing.T, address, place string, lease time.Duration) *database.Client {
	t.Helper()
	db, err := postgres.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	c := database.New(database.Options{
		Server: place, Address: "http://127.0.0.1:1", Lease: lease,
		Dial: func(context.Context) (io.ReadWriteCloser, error) {
			ours, theirs := net.Pipe()
			go func() { _ = db.Serve(theirs) }() // until ours is closed
			return ours, nil
		},
	})
	t.Cleanup(func() {
		c.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// register gives the register of a client with some tenants.
func register(t *testing.T, c *database.Client, limit int, names ...string) (*tenants.Register, []tenants.Tenant) {
	t.Helper()
	r, err := tenants.OpenKept(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	var out []tenants.Tenant
	for _, name := range names {
		one := tenants.Tenant{Name: name, Created: time.Now().UTC().Truncate(time.Microsecond), Limits: tenants.Usual(), Config: "x: 1\n"}
		one.Limits.Sandboxes = limit
		if err := r.Add(one, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return r, out
}

func id(n int) string { return fmt.Sprintf("i%019d", n) }

// watcher notes what a client's beats brought.
type watcher struct {
	mu     sync.Mutex
	lapses int
	taken  []database.Row
	rows   []database.Row
}

func (w *watcher) Changed() {}
func (w *watcher) Lapsed(_ context.Context, rows []database.Row) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lapses++
	w.rows = rows
	return nil
}
func (w *watcher) TakenOver(_ context.Context, rows []database.Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken = append(w.taken, rows...)
}

func (w *watcher) got() (lapses int, taken []database.Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lapses, w.taken
}

func run(t *testing.T, c *database.Client) *watcher {
	w := &watcher{}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx, w) // an end by another's schema is another test
	}()
	t.Cleanup(func() { stop(); <-done })
	return w
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !f(); {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// Two servers' words by which a test moves the database's clock, for them.
const (
	leaseOver = "update cloister_servers set lease_until = lease_until - interval '1 hour' where id = 'a'"
	inTouch   = "update cloister_servers set in_touch_since = in_touch_since - interval '1 hour' where id <> 'a'"
)

// leases: what a lost server had becomes one other's, once; the lost one writes nothing any more; when
// it is back it learns what it lost before it goes on.
func leases(t *testing.T, p *needs.Postgres, address string) {
	a := connect(t, address, "a", time.Minute)
	_, list := register(t, a, 50, "acme")
	for n := range 40 {
		if err := a.Enter(t.Context(), list[0], id(n), map[string]string{"state": "running"}); err != nil {
			t.Fatal(err)
		}
	}
	others := make([]*database.Client, 4)
	for n := range others {
		others[n] = connect(t, address, fmt.Sprint("b", n), time.Minute)
	}
	if taken, err := others[0].TakeOver(t.Context()); err != nil || len(taken) > 0 {
		t.Errorf("of a server whose lease holds: %v, %v", taken, err)
	}
	p.Do("leases", leaseOver)
	if taken, err := others[0].TakeOver(t.Context()); err != nil || len(taken) > 0 {
		t.Errorf("by a server that is back for less than a lease: %v, %v", taken, err)
	}
	p.Do("leases", inTouch)
	var mu sync.Mutex
	var all sync.WaitGroup
	seen := map[string]int{}
	for n := range 40 {
		all.Go(func() {
			taken, err := others[n%4].TakeOver(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range taken {
				seen[r.ID]++
			}
		})
	}
	all.Wait()
	for n := range 40 {
		if seen[id(n)] != 1 {
			t.Errorf("%s has %d new owners", id(n), seen[id(n)])
		}
	}
	var is *database.Away
	if err := a.Note(t.Context(), "acme", id(0), "x"); !errors.As(err, &is) {
		t.Errorf("a server whose lease is over wrote: %v", err)
	}
	if err := a.Enter(t.Context(), list[0], id(99), "x"); !errors.As(err, &is) {
		t.Errorf("a server whose lease is over made a sandbox: %v", err)
	}
	w := run(t, a)
	eventually(t, "the lost server did not come back", func() bool { n, _ := w.got(); return n == 1 && a.Holds() == nil })
	if len(w.rows) != 0 {
		t.Errorf("it has %v", w.rows)
	}
	if err := a.Note(t.Context(), "acme", id(0), "x"); !errors.Is(err, database.ErrLost) {
		t.Errorf("a stale server wrote to what is another's: %v", err)
	}
	if err := a.Leave(t.Context(), id(0)); err != nil {
		t.Fatal(err)
	}
	if at, err := a.Find(t.Context(), id(0)); err != nil || at.Owner == "a" {
		t.Errorf("a stale server struck what is another's: %v, %v", at, err)
	}
	// A second process of one place takes it over; the first one is none any more.
	second := connect(t, address, "a", time.Minute)
	if err := second.Enter(t.Context(), list[0], id(100), "x"); err != nil {
		t.Fatal(err)
	}
	if err := a.Note(t.Context(), "acme", id(100), "x"); !errors.Is(err, database.ErrLost) {
		t.Errorf("the first process of the place wrote: %v", err)
	}
	if _, err := a.TakeOver(t.Context()); !errors.Is(err, database.ErrLost) {
		t.Errorf("the first process of the place took over: %v", err)
	}
}

// remainder: a server believes of its lease what the database holds, and not more: at the end of that another
// may have what it had.
func remainder(t *testing.T, p *needs.Postgres, address string) {
	db, err := postgres.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	me := database.Beat{Server: database.Server{Place: "a", Incarnation: "x"}, Lease: time.Minute, Join: true, Address: "http://127.0.0.1:1"}
	if out := db.Beat(me); out.Kind != database.OK || out.Left != time.Minute {
		t.Fatalf("%+v", out)
	}
	me.Join = false
	p.Do("remainder", "update cloister_servers set lease_until = clock_timestamp() + interval '50 seconds'")
	if out := db.Beat(me); out.Kind != database.OK || out.Left > 50*time.Second {
		t.Errorf("of 50 seconds that the database holds: %s, %s", out.Left, out.Text)
	}
	p.Do("remainder", "update cloister_servers set lease_until = clock_timestamp() + interval '10 seconds'")
	if out := db.Beat(me); out.Kind != database.OK || out.Left != time.Minute || out.Lapsed {
		t.Errorf("where it was renewed: %s, %s", out.Left, out.Text)
	}
}

// limits: of many creates at once on several servers the limit's number succeed.
func limits(t *testing.T, _ *needs.Postgres, address string) {
	a, b := connect(t, address, "a", time.Minute), connect(t, address, "b", time.Minute)
	r, list := register(t, a, 7, "acme", "other")
	var mu sync.Mutex
	var made, over int
	var wg sync.WaitGroup
	for n := range 30 {
		wg.Go(func() {
			c := []*database.Client{a, b}[n%2]
			err := c.Enter(t.Context(), list[0], id(n), "x")
			var is *database.Over
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case errors.As(err, &is) && strings.Contains(is.What, "has 7 sandboxes"):
				over++
			default:
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	if made != 7 || over != 23 {
		t.Errorf("%d made, %d over the limit of 7", made, over)
	}
	if err := b.Enter(t.Context(), list[1], id(50), "x"); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	if err := r.Remove("acme", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := b.Enter(t.Context(), list[0], id(60), "x"); !errors.Is(err, tenants.ErrMissing) {
		t.Errorf("a removed tenant: %v", err)
	}
	again := list[0]
	again.Created = again.Created.Add(time.Hour)
	if err := r.Add(again, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := b.Enter(t.Context(), list[0], id(60), "x"); !errors.Is(err, tenants.ErrMissing) {
		t.Errorf("one that was removed, whose name another has: %v", err)
	}
}

// struck: a snapshot that is removed and struck while another one begins is none that it may use. The lock has the
// beginning wait at its insert, as a busy server would.
func struck(t *testing.T, p *needs.Postgres, address string) {
	a := connect(t, address, "a", time.Minute)
	_, list := register(t, a, 7, "acme")
	snap := func(id string) database.Snap {
		return database.Snap{ID: id, Tenant: "acme", Since: list[0].Created, Created: time.Now(), Key: "k"}
	}
	had, next := snap("snapaaaaaaaaaaaaaaaa"), snap("snapbbbbbbbbbbbbbbbb")
	_, err := a.BeginSnapshot(t.Context(), had, 4)
	if err = errors.Join(err, a.KeepSnapshot(t.Context(), had)); err != nil {
		t.Fatal(err)
	}
	now, err := a.Snapshots(t.Context(), list[0])
	if err != nil || len(now.Snaps) != 1 {
		t.Fatalf("the control: %+v, %v", now, err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		p.Do("struck", `begin; lock table cloister_snapshots in share mode; select pg_sleep(2);
			update cloister_snapshots set state = 'removed'; delete from cloister_snapshots where state = 'removed'; commit`)
	})
	<-time.After(time.Second)
	begun, err := a.BeginSnapshot(t.Context(), next, 4)
	wg.Wait()
	if err != nil || len(begun.Snaps) > 0 {
		t.Errorf("it may use %+v, whose objects are removed: %v", begun.Snaps, err)
	}
}

// migrations: tables of each older version, with rows, become this release's, by many programs at once.
func migrations(t *testing.T, p *needs.Postgres, address string) {
	p.Do("migrations", postgres.VersionOne+`insert into cloister_tenants values ('acme', now(), '{"sandboxes": 3}');
		insert into cloister_keys values ('k', 'acme', '', 'all', now(), null, repeat('0', 64));
		insert into cloister_servers values ('old', 'x', 'http://127.0.0.1:1', now());
		insert into cloister_sandboxes values ('`+id(1)+`', 'acme', 'old', '{}');`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			db, err := postgres.Open(t.Context(), address)
			if err != nil {
				t.Errorf("%v", err)
				return
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c := connect(t, address, "new", time.Minute)
	table, _, err := c.Now(true)
	if err != nil || len(table.Tenants) != 1 || table.Tenants[0].Limits.Sandboxes != 3 || len(table.Keys) != 1 {
		t.Errorf("%v, %v", table, err)
	}
	if list, err := c.List(t.Context(), "acme"); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// newer: tables of a newer release are refused, at the start and while a server runs.
func newer(t *testing.T, p *needs.Postgres, address string) {
	c := connect(t, address, "a", time.Minute)
	p.Do("newer", "update cloister_schema set version = version + 1")
	var is *database.Newer
	if err := c.Run(t.Context(), &watcher{}); !errors.As(err, &is) {
		t.Errorf("a server that ran: %v", err)
	}
	if err := c.Leave(t.Context(), id(1)); !errors.As(err, &is) {
		t.Errorf("a write: %v", err)
	}
	if _, err := postgres.Open(t.Context(), address); !errors.As(err, &is) || strings.Contains(err.Error(), "\n") {
		t.Errorf("a start: %v", err)
	}
}

// readOnly: a database that takes no writes, as managed ones are when their disk is full, and one that is
// full give nothing out.
func readOnly(t *testing.T, p *needs.Postgres, address string) {
	c := connect(t, address, "a", time.Minute)
	_, list := register(t, c, 50, "acme")
	if err := c.Enter(t.Context(), list[0], id(1), "x"); err != nil {
		t.Fatal(err)
	}
	p.Do("readonly", "create function full_disk() returns trigger language plpgsql as "+
		"$$ begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$; "+
		"create trigger full_disk before insert or update on cloister_sandboxes for each row execute function full_disk()")
	var is *database.Away
	if err := c.Enter(t.Context(), list[0], id(2), "x"); !errors.As(err, &is) || !strings.Contains(is.Why, "it is full") {
		t.Errorf("a full database: %v", err)
	}
	p.Do("readonly", "drop trigger full_disk on cloister_sandboxes")
	other := connectRaw(t, address+"&default_transaction_read_only=on", "zero", time.Minute)
	if err := other.Join(t.Context()); !errors.As(err, &is) || !strings.Contains(is.Why, "no writes") {
		t.Errorf("one that takes no writes: %v", err)
	}
	if err := other.Enter(t.Context(), list[0], id(3), "x"); !errors.As(err, &is) || !strings.Contains(is.Why, "no writes") {
		t.Errorf("one that takes no writes: %v", err)
	}
	if got, err := c.List(t.Context(), "acme"); err != nil || len(got) != 1 {
		t.Errorf("what is there: %v, %v", got, err)
	}
}

// rows: what stands in a row is not believed, and one tenant's is not another's.
func rows(t *testing.T, _ *needs.Postgres, address string) {
	c := connect(t, address, "a", time.Minute)
	_, list := register(t, c, 50, "acme", "other")
	if err := c.Enter(t.Context(), list[0], id(1), map[string]string{"id": id(1)}); err != nil {
		t.Fatal(err)
	}
	if got, err := c.List(t.Context(), "other"); err != nil || len(got) != 0 {
		t.Errorf("another tenant's list: %v, %v", got, err)
	}
	if err := c.Note(t.Context(), "other", id(1), "x"); !errors.Is(err, database.ErrLost) {
		t.Errorf("a word for another tenant's: %v", err)
	}
	for _, bad := range []string{"", "i", "../../etc", id(1) + "'; drop table cloister_keys; --", strings.Repeat("i", 20) + "\n"} {
		if err := c.Enter(t.Context(), list[0], bad, "x"); err == nil {
			t.Errorf("%q became a row", bad)
		}
		if _, err := c.Find(t.Context(), bad); !errors.Is(err, database.ErrNone) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// clock: the database's clock steps an hour ahead, so that every lease is over at once. Nobody takes
// anything over: each has to be in touch for a whole lease first, and the others come back meanwhile.
func clock(t *testing.T, p *needs.Postgres, address string) {
	a, b := connect(t, address, "a", time.Minute), connect(t, address, "b", time.Minute)
	_, list := register(t, a, 50, "acme")
	if err := a.Enter(t.Context(), list[0], id(1), "x"); err != nil {
		t.Fatal(err)
	}
	p.Do("clock", "update cloister_servers set lease_until = lease_until - interval '1 hour', in_touch_since = in_touch_since - interval '1 hour'")
	var is *database.Away
	if taken, err := b.TakeOver(t.Context()); !errors.As(err, &is) || len(taken) > 0 {
		t.Errorf("by a server whose own lease is over: %v, %v", taken, err)
	}
	w := run(t, b)
	eventually(t, "it did not come back", func() bool { n, _ := w.got(); return n == 1 && b.Holds() == nil })
	if taken, err := b.TakeOver(t.Context()); err != nil || len(taken) > 0 {
		t.Errorf("by a server that has just come back: %v, %v", taken, err)
	}
	w = run(t, a)
	eventually(t, "the other did not come back", func() bool { n, _ := w.got(); return n == 1 && a.Holds() == nil })
	if len(w.rows) != 1 {
		t.Errorf("the other lost its own: %v", w.rows)
	}
	if at, err := b.Find(t.Context(), id(1)); err != nil || at.Owner != "a" || !at.Alive {
		t.Errorf("the sandbox: %v, %v", at, err)
	}
}

// registers: two commands change the register at once, and one of them says so.
func registers(t *testing.T, _ *needs.Postgres, address string) {
	one, two := connect(t, address, "", 0), connect(t, address, "", 0)
	r, _ := register(t, one, 5, "acme")
	s, _ := register(t, two, 5)
	err := r.Add(tenants.Tenant{Name: "b", Created: time.Now()}, func() error {
		return s.Add(tenants.Tenant{Name: "c", Created: time.Now()}, func() error { return nil })
	})
	if err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("a change between the other's question and its answer: %v", err)
	}
	list, err := r.List()
	var names []string
	for _, one := range list {
		names = append(names, one.Name)
	}
	if err != nil || strings.Join(names, " ") != "acme c" {
		t.Errorf("%v, %v", names, err)
	}
}

// away: a database that goes away in the middle of a call, and comes back.
func away(t *testing.T, p *needs.Postgres, address string) {
	c := connect(t, address, "a", time.Minute)
	_, list := register(t, c, 50, "acme")
	if err := c.Enter(t.Context(), list[0], id(1), "x"); err != nil {
		t.Fatal(err)
	}
	p.Do("away", "create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(30); return new; end $$; "+
		"create trigger slow before insert on cloister_sandboxes for each row execute function slow()")
	done := make(chan error, 1)
	go func() { done <- c.Enter(t.Context(), list[0], id(2), "x") }()
	<-time.After(300 * time.Millisecond) // it is under way, or not begun: either is refused
	p.Stop()
	var is *database.Away
	if err := <-done; !errors.As(err, &is) || strings.Contains(err.Error(), "\n") {
		t.Errorf("in the middle of a call: %v", err)
	}
	if _, _, err := c.Now(true); !errors.As(err, &is) {
		t.Errorf("keys while it is away: %v", err)
	}
	p.Start()
	p.Do("away", "drop trigger slow on cloister_sandboxes")
	eventually(t, "it is not asked again", func() bool { return c.Enter(t.Context(), list[0], id(3), "x") == nil })
	got, err := c.List(t.Context(), "acme")
	text, _ := json.Marshal(got)
	if err != nil || len(got) != 2 || bytes.Contains(text, []byte(id(2))) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestAddresses: no password on the command line, none in the clear.
func TestAddresses(t *testing.T) {
	for address, word := range map[string]string{
		"mysql://db/x": "postgres://", "postgres://me:hunter2@db/x": "holds a password", "postgres://db/x?password=hunter2": "holds a password",
		"postgres://me@db.example/x": "would not be verified", "postgres://me@db.example/x?sslmode=require": "would not be verified",
		"postgres://me@127.0.0.1,db.example/x": "would not be verified", "postgres://me@db/x?port=hunter2": "cannot be read",
	} {
		_, err := postgres.Check(address)
		if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"postgres://me@127.0.0.1/x", "postgres:///x?host=/run/postgresql", "postgresql://me@db.example/x?sslmode=verify-full"} {
		if _, err := postgres.Check(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}
