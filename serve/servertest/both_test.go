//go:build linux

package servertest

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/internal/needs"
	"cloister/serve"
	"cloister/serve/database"
	"cloister/serve/tenants"
)

// quiet are limits of a tenant that has nothing started ahead.
func quiet(n int) tenants.Limits {
	l := tenants.Usual()
	l.Sandboxes, l.Ahead = n, 0
	return l
}

func base() serve.Request {
	return serve.Request{Template: "base", Timeout: time.Hour, Env: map[string]string{"SECRET": "hunter2"}}
}

// world opens servers of one test, each in a folder of its own.
type world struct {
	t       *testing.T
	address string // of the database, empty for files
}

func (w world) open(dir string) *server {
	w.t.Helper()
	s, err := open(w.t.Context(), dir, w.address, "http://127.0.0.1:1", 10*time.Minute, slog.New(slog.DiscardHandler))
	if err != nil {
		w.t.Fatal(err)
	}
	closed := false
	stop := s.close
	s.close = func() {
		if !closed {
			closed = true
			s.host.Close()
			stop()
		}
	}
	w.t.Cleanup(func() { s.close() })
	return s
}

// TestOnFiles and TestOnPostgres are the same tests.
func TestOnFiles(t *testing.T) { suite(t, func(string) string { return "" }) }

func TestOnPostgres(t *testing.T) {
	p := needs.NewPostgres(t)
	suite(t, p.Database)
	for name, f := range map[string]func(world, *needs.Postgres){
		"two servers": twoServers, "a lost server": lostServer, "lost twice": lostTwice, "hostile rows": hostileRows, "out of touch": outOfTouch, "configurations": configurations,
	} {
		address := p.Database(strings.ReplaceAll(name, " ", "_"))
		t.Run(name, func(t *testing.T) { f(world{t, address}, p) })
	}
}

func suite(t *testing.T, address func(string) string) {
	for name, f := range map[string]func(world){"life": life, "limit": limit, "restart": restart, "removed": removed} {
		at := address(name)
		t.Run(name, func(t *testing.T) { f(world{t, at}) })
	}
}

func (s *server) create(w world, of tenants.Tenant) *serve.Sandbox {
	w.t.Helper()
	eventually(w.t, "this server does not learn of the tenant", func() bool { _, err := s.tables.Named(of.Name); return err == nil })
	made, err := s.host.Create(w.t.Context(), of, base())
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

func (s *server) ids(w world, tenant string) []string {
	w.t.Helper()
	list, err := s.host.ListAll(w.t.Context(), tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, r := range list {
		out = append(out, r.ID)
	}
	return out
}

// life: a sandbox is listed as it is, found by its tenant alone, and gone when it is killed.
func life(w world) {
	t, dir := w.t, w.t.TempDir()
	s := w.open(dir)
	acme, _ := addTenant(t, s.tables, "acme", quiet(5))
	addTenant(t, s.tables, "other", quiet(5))
	one, two := s.create(w, acme), s.create(w, acme)
	if got := s.ids(w, "acme"); !slices.Equal(got, []string{two.Record().ID, one.Record().ID}) {
		t.Errorf("listed %v", got)
	}
	if got := s.ids(w, "other"); len(got) > 0 {
		t.Errorf("another tenant's list: %v", got)
	}
	if _, err := s.host.Get("other", one.Record().ID); !errors.Is(err, serve.ErrNone) {
		t.Errorf("by another tenant: %v", err)
	}
	if err := one.SetEnd(2*time.Hour, false); err != nil {
		t.Fatal(err)
	}
	if did, err := one.Pause(t.Context(), false); !did || err != nil {
		t.Fatal(err)
	}
	list, err := s.host.ListAll(t.Context(), "acme")
	if err != nil || list[1].State != serve.Paused || !list[1].End.Equal(one.Record().End) {
		t.Errorf("%v, %v", list, err)
	}
	if err := errors.Join(one.Kill(t.Context()), two.Kill(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := s.ids(w, "acme"); len(got) > 0 || len(sessions(dir)) > 0 {
		t.Errorf("after the end: %v, %v", got, sessions(dir))
	}
}

// limit: of many creates at once the limit's number succeed, and an end gives room.
func limit(w world) {
	t := w.t
	s := w.open(t.TempDir())
	acme, _ := addTenant(t, s.tables, "acme", quiet(3))
	made := make(chan *serve.Sandbox, 10)
	for range 10 {
		go func() {
			one, err := s.host.Create(t.Context(), acme, base())
			var over *serve.Over
			if err != nil && !errors.As(err, &over) {
				t.Error(err)
			}
			made <- one
		}()
	}
	var all []*serve.Sandbox
	for range 10 {
		if one := <-made; one != nil {
			all = append(all, one)
		}
	}
	if len(all) != 3 {
		t.Fatalf("%d were made of 3", len(all))
	}
	if err := all[0].Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.create(w, acme)
}

// restart: the next server of a folder goes on with what the last one had.
func restart(w world) {
	t, dir := w.t, w.t.TempDir()
	s := w.open(dir)
	acme, _ := addTenant(t, s.tables, "acme", quiet(5))
	kept, lost := s.create(w, acme), s.create(w, acme)
	s.close()
	if err := os.Remove(filepath.Join(dir, "sessions", lost.Record().ID)); err != nil { // it ended meanwhile
		t.Fatal(err)
	}
	s = w.open(dir)
	if got := s.ids(w, "acme"); !slices.Equal(got, []string{kept.Record().ID}) {
		t.Errorf("listed %v", got)
	}
	again, err := s.host.Get("acme", kept.Record().ID)
	if err != nil || again.Record().Token != kept.Record().Token {
		t.Errorf("the one that lives on: %v", err)
	}
}

// removed: the sandboxes of a removed tenant end.
func removed(w world) {
	t, dir := w.t, w.t.TempDir()
	s := w.open(dir)
	acme, _ := addTenant(t, s.tables, "acme", quiet(5))
	s.create(w, acme)
	if err := s.tables.Remove("acme", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the sandbox of a removed tenant lives on", func() bool { return len(sessions(dir)) == 0 })
	if _, err := s.host.Create(t.Context(), acme, base()); err == nil {
		t.Error("a removed tenant was given a sandbox")
	}
}

// twoServers: one tenant's sandboxes on two servers are one list and one number, and the database has
// nothing that opens them.
func twoServers(w world, p *needs.Postgres) {
	t := w.t
	a, b := w.open(t.TempDir()), w.open(t.TempDir())
	acme, key := addTenant(t, a.tables, "acme", quiet(2))
	if got, _, err := b.tables.Find(key, time.Now()); err != nil || got.Name != "acme" {
		t.Errorf("a key that was made at the other: %v, %v", got, err)
	}
	one := a.create(w, acme)
	two := b.create(w, acme)
	var over *serve.Over
	for _, s := range []*server{a, b} {
		if _, err := s.host.Create(t.Context(), acme, base()); !errors.As(err, &over) {
			t.Errorf("beyond the limit: %v", err)
		}
		if got := s.ids(w, "acme"); len(got) != 2 {
			t.Errorf("listed %v", got)
		}
	}
	if _, err := b.host.Get("acme", one.Record().ID); !errors.Is(err, serve.ErrNone) {
		t.Errorf("the other's own: %v", err)
	}
	rows, err := a.shared.List(t.Context(), "acme")
	text, _ := json.Marshal(rows)
	for _, secret := range []string{one.Record().Token, one.Record().Traffic, two.Record().Token, "hunter2", key} {
		if err != nil || strings.Contains(string(text), secret) {
			t.Errorf("the database has %q: %v", secret, err)
		}
	}
	if err := one.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.create(w, acme)
	_ = p
}

// lostServer: what a lost server had is struck and recorded once, and ended where it is when it is back.
func lostServer(w world, p *needs.Postgres) {
	t, dirA, dirB, dirC := w.t, w.t.TempDir(), w.t.TempDir(), w.t.TempDir()
	a, b, c := w.open(dirA), w.open(dirB), w.open(dirC)
	acme, _ := addTenant(t, a.tables, "acme", quiet(20))
	for range 6 {
		a.create(w, acme)
	}
	kept := b.create(w, acme)
	a.close() // as a process that was killed: its sessions live on
	p.Do("a_lost_server", "update cloister_servers set lease_until = now() - interval '1 hour' where id = '"+a.shared.ID()+"'; "+
		"update cloister_servers set in_touch_since = now() - interval '1 hour' where id <> '"+a.shared.ID()+"'")
	for range 4 {
		for _, s := range []*server{b, c} {
			go func() {
				rows, err := s.shared.TakeOver(t.Context())
				if err == nil {
					s.host.TakenOver(t.Context(), rows)
				}
			}()
		}
	}
	eventually(t, "the lost server's are not given up", func() bool { return slices.Equal(b.ids(w, "acme"), []string{kept.Record().ID}) })
	if n := lines(filepath.Join(dirB, "record"), "lost") + lines(filepath.Join(dirC, "record"), "lost"); n != 6 {
		t.Errorf("%d of 6 were recorded as lost", n)
	}
	if len(sessions(dirA)) != 6 || len(sessions(dirB)) != 1 {
		t.Errorf("sessions: %v, %v", sessions(dirA), sessions(dirB))
	}
	again := w.open(dirA)
	eventually(t, "a server that is back keeps what others gave up", func() bool { return len(sessions(dirA)) == 0 })
	if got := again.ids(w, "acme"); !slices.Equal(got, []string{kept.Record().ID}) {
		t.Errorf("listed %v", got)
	}
}

// lostTwice: a server that is killed after it was given a lost one's, and before it recorded them, records them when it is
// back.
func lostTwice(w world, p *needs.Postgres) {
	t, dirA, dirB := w.t, w.t.TempDir(), w.t.TempDir()
	a, b := w.open(dirA), w.open(dirB)
	acme, _ := addTenant(t, a.tables, "acme", quiet(20))
	for range 3 {
		a.create(w, acme)
	}
	a.close()
	p.Do("lost_twice", "update cloister_servers set lease_until = now() - interval '1 hour' where id = '"+a.shared.ID()+"'; "+
		"update cloister_servers set in_touch_since = now() - interval '1 hour' where id <> '"+a.shared.ID()+"'")
	if rows, err := b.shared.TakeOver(t.Context()); err != nil || len(rows) != 3 { // the control: they are its own now
		t.Fatal(rows, err)
	}
	b.close()
	b = w.open(dirB)
	eventually(t, "what was given up is listed", func() bool { return len(b.ids(w, "acme")) == 0 })
	if n := lines(filepath.Join(dirB, "record"), "lost"); n != 3 {
		t.Errorf("%d of 3 were recorded as lost", n)
	}
}

// hostileRows: who writes to the database makes no sandbox, opens none and breaks no list.
func hostileRows(w world, p *needs.Postgres) {
	t, dir := w.t, w.t.TempDir()
	a := w.open(dir)
	acme, _ := addTenant(t, a.tables, "acme", quiet(20))
	addTenant(t, a.tables, "other", quiet(20))
	mine := a.create(w, acme)
	id := mine.Record().ID
	row := func(id, tenant, record string) string {
		return "insert into cloister_sandboxes values ('" + id + "', '" + tenant + "', '" + a.shared.ID() + "', '" + record + "'); "
	}
	stolen := strings.Replace(id, id[1:4], "zzz", 1)
	p.Do("hostile_rows", row("i"+strings.Repeat("1", 19), "other", `"no record"`)+row("i"+strings.Repeat("2", 19), "other", `{"state": 7}`)+
		row("i"+strings.Repeat("3", 19), "other", `{"id": "`+id+`", "tenant": "acme", "state": "running", "token": "t"}`)+
		row(stolen, "other", `{"id": "../../../../etc", "state": "running", "metadata": {"a": "b"}}`)+
		"update cloister_sandboxes set tenant = 'other' where id = '"+id+"'")
	list, err := a.host.ListAll(t.Context(), "other")
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, r := range list {
		if r.Tenant != "other" || r.Token != "" || strings.Contains(r.ID, "/") {
			t.Errorf("believed %+v", r)
		}
		if _, err := a.host.Get("other", r.ID); !errors.Is(err, serve.ErrNone) {
			t.Errorf("%s was found for the tenant that a row names: %v", r.ID, err)
		}
	}
	if got, err := a.host.Get("acme", id); err != nil || got != mine {
		t.Errorf("the tenant's own, whose row was given to another: %v", err)
	}
	a.close()
	a = w.open(dir) // strikes what no session is behind, and makes none
	if n := len(sessions(dir)); n > 1 {
		t.Errorf("%d sessions", n)
	}
}

// outOfTouch: without the database nothing is given out, and it says so in one line.
func outOfTouch(w world, p *needs.Postgres) {
	t, dir := w.t, w.t.TempDir()
	a := w.open(dir)
	acme, key := addTenant(t, a.tables, "acme", quiet(20))
	one := a.create(w, acme)
	p.Stop()
	var away *database.Away
	if _, err := a.host.Create(t.Context(), acme, base()); !errors.As(err, &away) || strings.Contains(err.Error(), "\n") {
		t.Errorf("create: %v", err)
	}
	if _, _, err := a.tables.Find(key, time.Now()); !errors.As(err, &away) {
		t.Errorf("a key: %v", err)
	}
	if _, err := a.host.ListAll(t.Context(), "acme"); !errors.As(err, &away) {
		t.Errorf("a list: %v", err)
	}
	if got, err := a.host.ByID(one.Record().ID); err != nil || got != one {
		t.Errorf("what runs here, while the lease holds: %v", err)
	}
	if len(sessions(dir)) != 1 {
		t.Errorf("sessions %v", sessions(dir))
	}
	if err := one.SetEnd(3*time.Hour, false); err != nil { // told when the database is back
		t.Fatal(err)
	}
	p.Start()
	eventually(t, "what was done meanwhile is not told", func() bool {
		list, err := a.host.ListAll(t.Context(), "acme")
		return err == nil && len(list) == 1 && list[0].End.Equal(one.Record().End)
	})
	a.create(w, acme)
}

// configurations: a tenant's configuration comes to every server before its next sandbox.
func configurations(w world, _ *needs.Postgres) {
	t, dirA, dirB := w.t, w.t.TempDir(), w.t.TempDir()
	a, b := w.open(dirA), w.open(dirB)
	acme, _ := addTenant(t, a.tables, "acme", quiet(20))
	if err := a.tables.Configure("acme", "version: 1\n# another\n", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dirA, dirB} {
		eventually(t, "the configuration does not come", func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, "t", "acme", "config", "cloister", "config.yaml")) // not yet
			return strings.Contains(string(text), "another")
		})
	}
	b.create(w, acme)
}
