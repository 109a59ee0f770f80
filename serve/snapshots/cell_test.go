package snapshots_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/internal/needs"
	"cloister/serve/database"
	"cloister/serve/database/postgres"
	"cloister/serve/objects"
	"cloister/serve/snapshots"
	"cloister/serve/tenants"
)

// bucket is a double in memory, which a test changes behind the servers' backs. before is asked before each call.
type bucket struct {
	mu      sync.Mutex
	stored  int // how often an object was put
	objects map[string][]byte
	before  func(ctx context.Context, op, name string) error
	hides   bool // lists nothing
}

func (b *bucket) ask(ctx context.Context, op, name string) error {
	b.mu.Lock()
	f := b.before
	b.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx, op, name)
}

func (b *bucket) Put(ctx context.Context, name string, text []byte) error {
	if err := b.ask(ctx, "put", name); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[name] = bytes.Clone(text)
	b.stored++
	return nil
}

func (b *bucket) Get(ctx context.Context, name string, most int) ([]byte, error) {
	if err := b.ask(ctx, "get", name); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	text, ok := b.objects[name]
	switch {
	case !ok:
		return nil, objects.ErrMissing
	case len(text) > most:
		return nil, objects.ErrLarge
	}
	return bytes.Clone(text), nil
}

func (b *bucket) List(ctx context.Context, folder string) ([]string, error) {
	if err := b.ask(ctx, "list", folder); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for name := range b.objects {
		below, ok := strings.CutPrefix(name, folder)
		if first, _, deeper := strings.Cut(below, "/"); deeper {
			below = first + "/"
		}
		if ok && !slices.Contains(out, below) && !b.hides {
			out = append(out, below)
		}
	}
	return out, nil
}

func (b *bucket) Remove(ctx context.Context, names ...string) error {
	if err := b.ask(ctx, "remove", names[0]); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		delete(b.objects, name)
	}
	return nil
}

func (b *bucket) copy() map[string][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.objects)
}

func (b *bucket) set(all map[string][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects = maps.Clone(all)
}

func (b *bucket) bytes() (n int) {
	for _, text := range b.copy() {
		n += len(text)
	}
	return n
}

// world is a cell: a database, a bucket, and servers.
type world struct {
	t       *testing.T
	p       *needs.Postgres
	name    string
	address string
	keys    *snapshots.Keys
	bucket  *bucket
}

// server is one of the cell.
type server struct {
	*snapshots.Keeper
	shared *database.Client
	tables *tenants.Register
}

func newWorld(t *testing.T, p *needs.Postgres, name string) *world {
	return &world{t, p, name, p.Database(name), keysOf(t, strings.Repeat("11", 32)), &bucket{objects: map[string][]byte{}}}
}

func keysOf(t *testing.T, lines ...string) *snapshots.Keys {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := snapshots.ReadKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// server opens one at a place; two of one place are a process and the next one.
func (w *world) server(place string) *server {
	w.t.Helper()
	db, err := postgres.Open(w.t.Context(), w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	c := database.New(database.Options{
		Server: place, Address: "http://127.0.0.1:1", Lease: time.Hour,
		Dial: func(context.Context) (io.ReadWriteCloser, error) {
			ours, theirs := net.Pipe()
			go func() { _ = db.Serve(theirs) }() // until ours is closed
			return ours, nil
		},
	})
	w.t.Cleanup(func() {
		c.Close()
		if err := db.Close(); err != nil {
			w.t.Error(err)
		}
	})
	if err := c.Join(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	dir := w.t.TempDir()
	r, err := tenants.OpenKept(dir, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return &server{&snapshots.Keeper{Home: r.Home, Cell: snapshots.NewCell(c, w.bucket, w.keys, slog.New(slog.DiscardHandler))}, c, r}
}

func (s *server) add(t *testing.T, name string, most int) tenants.Tenant {
	t.Helper()
	one := tenants.Tenant{Name: name, Created: time.Now().UTC().Truncate(time.Microsecond), Limits: tenants.Usual(), Config: "x: 1\n"}
	one.Limits.Snapshots = most
	if err := s.tables.Add(one, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	return one
}

// random is a stream that is the same for one number.
func random(seed byte, n int) []byte {
	out := make([]byte, n)
	r := rand.NewChaCha8(sha256.Sum256([]byte{seed}))
	_, _ = r.Read(out) // it cannot fail
	return out
}

func writing(text []byte) snapshots.Pack {
	return func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(text))
		return err
	}
}

func (s *server) keep(t *testing.T, of tenants.Tenant, name string, text []byte) string {
	t.Helper()
	id, err := s.tryKeep(t.Context(), of, name, text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (s *server) tryKeep(ctx context.Context, of tenants.Tenant, name string, text []byte) (string, error) {
	snap := snapshots.Snapshot{
		ID: snapshots.NewID(), Tenant: of.Name, Sandbox: "i" + strings.Repeat("0", 19), Name: name, Created: time.Now().UTC(),
		Env: map[string]string{"SECRET": "hunter2"},
	}
	return snap.ID, s.Keep(ctx, of, snap, writing(text))
}

// read gives the stream of a snapshot, found by its ID or name; ok is false where there is none.
func (s *server) read(ctx context.Context, of tenants.Tenant, id string) (text []byte, ok bool, err error) {
	snap, err := s.Find(ctx, of, id)
	if err != nil || snap == nil {
		return nil, false, err
	}
	if snap.Env["SECRET"] != "hunter2" {
		return nil, true, fmt.Errorf("it has other variables: %v", snap.Env)
	}
	r, err := s.Open(ctx, of, snap)
	if err != nil {
		return nil, true, err
	}
	defer r.Close()
	text, err = io.ReadAll(r)
	return text, true, err
}

func (s *server) same(t *testing.T, of tenants.Tenant, id string, want []byte) {
	t.Helper()
	got, ok, err := s.read(t.Context(), of, id)
	if err != nil || !ok || !bytes.Equal(got, want) {
		t.Errorf("snapshot %s: %d bytes of %d, %t, %v", id, len(got), len(want), ok, err)
	}
}

func (s *server) collect(t *testing.T) {
	t.Helper()
	if err := s.Cell.Collect(t.Context()); err != nil {
		t.Errorf("collect: %v", err)
	}
}

func TestCell(t *testing.T) {
	p := needs.NewPostgres(t)
	for name, f := range map[string]func(*testing.T, *world){
		"servers": servers, "chunks": chunks, "strangers": strangers, "hostile": hostile, "hostilerows": hostileRows,
		"failing": failing, "killed": killed, "keys": keys, "removed": removed, "listings": listings,
	} {
		t.Run(name, func(t *testing.T) { f(t, newWorld(t, p, name)) })
	}
}

// servers: what one keeps is found, opened and removed by another, within one limit; the database has nothing of it.
func servers(t *testing.T, w *world) {
	a, b := w.server("a"), w.server("b")
	acme := a.add(t, "acme", 2)
	text := random(1, 9<<20)
	one := a.keep(t, acme, "mine", text)
	b.same(t, acme, one, text)
	b.same(t, acme, "mine", text)
	two := b.keep(t, acme, "", []byte("little"))
	for _, s := range []*server{a, b} {
		var over *snapshots.Over
		if _, err := s.tryKeep(t.Context(), acme, "", nil); !errors.As(err, &over) {
			t.Errorf("beyond the limit of both: %v", err)
		}
		if list, err := s.List(t.Context(), acme); err != nil || len(list) != 2 || list[0].ID != two || list[1].ID != one {
			t.Errorf("listed %v, %v", list, err)
		}
	}
	rows, err := a.shared.SettleSnapshots(t.Context())
	if said := fmt.Sprint(rows); err != nil || strings.Contains(said, "hunter2") {
		t.Errorf("the database has %s, %v", said, err)
	}
	for name, object := range w.bucket.copy() {
		if bytes.Contains(object, []byte("hunter2")) || bytes.Contains(object, []byte("little")) || bytes.Contains(object, text[:64]) {
			t.Errorf("the bucket can read %s", name)
		}
	}
	if ok, err := b.Remove(t.Context(), acme, "mine"); !ok || err != nil {
		t.Errorf("remove: %t, %v", ok, err)
	}
	if ok, err := a.Remove(t.Context(), acme, one); ok || err != nil {
		t.Errorf("remove again: %t, %v", ok, err)
	}
	if _, ok, err := a.read(t.Context(), acme, one); ok || err != nil {
		t.Errorf("after its end: %t, %v", ok, err)
	}
	b.collect(t)
	a.same(t, acme, two, []byte("little"))
	for name := range w.bucket.copy() {
		if strings.Contains(name, one) {
			t.Errorf("left: %s", name)
		}
	}
}

// chunks: what a snapshot has in common with one before is not sent again, and stays as long as it is needed.
func chunks(t *testing.T, w *world) {
	a, b := w.server("a"), w.server("b")
	acme := a.add(t, "acme", 10)
	text := random(2, 24<<20)
	one := a.keep(t, acme, "", text)
	before := w.bucket.bytes()
	changed := slices.Concat(text[:5<<20], []byte("a little more"), text[5<<20:])
	two := b.keep(t, acme, "", changed)
	if more := w.bucket.bytes() - before; more > 8<<20 {
		t.Errorf("a change of 13 bytes cost %d", more)
	}
	three := a.keep(t, acme, "", text[:3<<20])
	if ok, err := a.Remove(t.Context(), acme, one); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := b.Remove(t.Context(), acme, three); err != nil {
		t.Fatal(err)
	}
	full := w.bucket.bytes()
	for range 2 {
		b.collect(t)
	}
	if w.bucket.bytes() >= full {
		t.Error("nothing of a removed snapshot was taken away that no other needs")
	}
	b.same(t, acme, two, changed)
	four := b.keep(t, acme, "", text) // by the chunks of two; those of one are not begun with any more
	if _, err := a.Remove(t.Context(), acme, two); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		a.collect(t)
	}
	a.same(t, acme, four, text)
	if _, err := a.Remove(t.Context(), acme, four); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		a.collect(t)
	}
	if left := w.bucket.copy(); len(left) > 0 {
		t.Errorf("left: %v", slices.Collect(maps.Keys(left)))
	}
}

// strangers: of two tenants with the same bytes neither finds the other's snapshot, nor does the bucket have one thing that
// says that they are the same: no name, and no length of a chunk but the last.
func strangers(t *testing.T, w *world) {
	a := w.server("a")
	acme, other := a.add(t, "acme", 10), a.add(t, "other", 10)
	text := random(3, 12<<20)
	mine := a.keep(t, acme, "mine", text)
	names := w.bucket.copy()
	theirs := a.keep(t, other, "theirs", text)
	sizes, shared := map[int]bool{}, 0
	for _, object := range names {
		sizes[len(object)] = true
	}
	for name, object := range w.bucket.copy() {
		if _, was := names[name]; was {
			continue
		}
		if sizes[len(object)] {
			shared++
		}
		for was := range names {
			if filepath.Base(was) == filepath.Base(name) && filepath.Base(name) != "manifest" {
				t.Errorf("%s is called as %s", name, was)
			}
		}
	}
	if shared > 1 {
		t.Errorf("%d objects have the length of another tenant's", shared)
	}
	again := w.bucket.bytes()
	a.keep(t, other, "", text) // the control: a tenant's own is the same
	if more := w.bucket.bytes() - again; more > 64<<10 {
		t.Errorf("a tenant's own bytes were sent again: %d", more)
	}
	for _, id := range []string{mine, "mine", snapshots.NewID()} {
		if _, ok, err := a.read(t.Context(), other, id); ok || err != nil {
			t.Errorf("%s by another tenant: %t, %v", id, ok, err)
		}
		if ok, err := a.Remove(t.Context(), other, id); ok || err != nil {
			t.Errorf("%s removed by another tenant: %t, %v", id, ok, err)
		}
	}
	a.same(t, acme, mine, text)
	a.same(t, other, theirs, text)
}

// hostile: a bucket that gives back anything but what was kept is refused by name, and what it gives is none of another's.
func hostile(t *testing.T, w *world) {
	a, b := w.server("a"), w.server("b")
	acme, other := a.add(t, "acme", 10), a.add(t, "other", 10)
	text := random(4, 6<<20)
	older := w.bucket.copy()
	one, foreign := a.keep(t, acme, "", text), a.keep(t, other, "", text)
	two := a.keep(t, acme, "", random(5, 6<<20))
	good := w.bucket.copy()
	of := func(id string) (manifest string, chunks []string) {
		for name := range good {
			switch {
			case !strings.Contains(name, id):
			case strings.HasSuffix(name, "/manifest"):
				manifest = name
			default:
				chunks = append(chunks, name)
			}
		}
		slices.Sort(chunks)
		return manifest, chunks
	}
	manifest, mine := of(one)
	manifest2, mine2 := of(two)
	theirManifest, theirs := of(foreign)
	if len(mine) < 2 {
		t.Fatal("it has one chunk alone")
	}
	flip := func(name string, at int) func(map[string][]byte) {
		return func(all map[string][]byte) {
			all[name] = bytes.Clone(all[name])
			all[name][(at+len(all[name]))%len(all[name])] ^= 1
		}
	}
	for what, edit := range map[string]func(map[string][]byte){
		"a bit of a chunk":           flip(mine[0], 5000),
		"a chunk's nonce":            flip(mine[0], 0),
		"a chunk's last byte":        flip(mine[1], -1),
		"a bit of the manifest":      flip(manifest, 40),
		"a chunk that is cut":        func(all map[string][]byte) { all[mine[0]] = all[mine[0]][:1000] },
		"a chunk of nothing":         func(all map[string][]byte) { all[mine[0]] = nil },
		"a chunk that is vast":       func(all map[string][]byte) { all[mine[0]] = make([]byte, 64<<20) },
		"two chunks exchanged":       func(all map[string][]byte) { all[mine[0]], all[mine[1]] = all[mine[1]], all[mine[0]] },
		"a chunk of another one":     func(all map[string][]byte) { all[mine[0]] = all[mine2[0]] },
		"a chunk of another tenant":  func(all map[string][]byte) { all[mine[0]] = all[theirs[0]] },
		"another's manifest":         func(all map[string][]byte) { all[manifest] = all[manifest2] },
		"another tenant's manifest":  func(all map[string][]byte) { all[manifest] = all[theirManifest] },
		"a chunk as the manifest":    func(all map[string][]byte) { all[manifest] = all[mine[0]] },
		"a chunk that is not there":  func(all map[string][]byte) { delete(all, mine[1]) },
		"no manifest":                func(all map[string][]byte) { delete(all, manifest) },
		"a manifest that is vast":    func(all map[string][]byte) { all[manifest] = make([]byte, 64<<20) },
		"all is as it was before it": func(all map[string][]byte) { clear(all); maps.Copy(all, older) },
	} {
		w.bucket.set(good)
		a.same(t, acme, one, text) // the control
		bad := maps.Clone(good)
		edit(bad)
		w.bucket.set(bad)
		got, _, err := b.read(t.Context(), acme, one)
		var refused *snapshots.Bad
		if !errors.As(err, &refused) || refused.ID != one || !bytes.HasPrefix(text, got) {
			t.Errorf("%s: %d bytes, %v", what, len(got), err)
		}
		if what != "all is as it was before it" {
			b.same(t, other, foreign, text) // nothing else is lost
		}
		list, err := a.List(t.Context(), acme)
		if err != nil || len(list) != 2 {
			t.Errorf("%s: listed %v, %v", what, list, err)
		}
		three := b.keep(t, acme, "", []byte("a new one")) // a broken one is not compared with
		b.same(t, acme, three, []byte("a new one"))
		if _, err := b.Remove(t.Context(), acme, three); err != nil {
			t.Fatal(err)
		}
	}
	// One that was removed comes back in the bucket alone.
	w.bucket.set(good)
	if _, err := a.Remove(t.Context(), acme, one); err != nil {
		t.Fatal(err)
	}
	a.collect(t)
	w.bucket.set(good)
	if _, ok, err := b.read(t.Context(), acme, one); ok || err != nil {
		t.Errorf("one that was removed: %t, %v", ok, err)
	}
	a.collect(t)
	for name := range w.bucket.copy() {
		if strings.Contains(name, one) {
			t.Errorf("left: %s", name)
		}
	}
	a.same(t, acme, two, random(5, 6<<20))
}

// hostileRows: who writes to the database gives no tenant another's files.
func hostileRows(t *testing.T, w *world) {
	a := w.server("a")
	acme, other := a.add(t, "acme", 10), a.add(t, "other", 10)
	text := random(6, 1<<20)
	one, two := a.keep(t, acme, "", text), a.keep(t, acme, "", random(7, 1<<20))
	theirs := a.keep(t, other, "", random(8, 1<<20))
	var refused *snapshots.Bad
	for what, change := range map[string]string{
		"given to another tenant": "update cloister_snapshots set tenant = 'other', since = (select created from cloister_tenants where name = 'other') " +
			"where id = '" + one + "'",
		"of another key":     "update cloister_snapshots set key = 'x' where id = '" + one + "'",
		"of another cell":    "update cloister_register set cell = gen_random_uuid()::text",
		"a cell that climbs": "update cloister_register set cell = '../../other'",
	} {
		w.p.Do(w.name, "create table was as select * from cloister_snapshots; create table cell as select cell from cloister_register")
		a.same(t, acme, one, text) // the control
		w.p.Do(w.name, change)
		of := acme
		if strings.Contains(what, "given") {
			of = other
		}
		got, ok, err := a.read(t.Context(), of, one)
		var away *database.Away
		if len(got) > 0 || ok && err == nil || !errors.As(err, &refused) && !errors.As(err, &away) {
			t.Errorf("%s: %d bytes, %t, %v", what, len(got), ok, err)
		}
		w.p.Do(w.name, "delete from cloister_snapshots; insert into cloister_snapshots select * from was; drop table was; "+
			"update cloister_register set cell = (select cell from cell); drop table cell")
	}
	a.same(t, acme, two, random(7, 1<<20))
	a.same(t, other, theirs, random(8, 1<<20))
}

// failing: a bucket that is full, away or hangs leaves no snapshot and takes none away, and the server goes on when it is
// back.
func failing(t *testing.T, w *world) {
	a := w.server("a")
	acme := a.add(t, "acme", 2)
	text := random(9, 6<<20)
	one := a.keep(t, acme, "", text)
	before := w.bucket.copy()
	sick := errors.New("507 insufficient storage")
	giveUp := func() {}
	for what, f := range map[string]func(ctx context.Context, op, name string) error{
		"full": func(_ context.Context, op, _ string) error { return map[bool]error{true: sick}[op == "put"] },
		"full at last": func(_ context.Context, op, name string) error {
			return map[bool]error{true: sick}[op == "put" && strings.HasSuffix(name, "manifest")]
		},
		"away": func(context.Context, string, string) error { return sick },
		"slow": func(ctx context.Context, op, _ string) error {
			if op != "put" {
				return nil
			}
			giveUp() // whoever waits for it
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		w.bucket.mu.Lock()
		w.bucket.before, giveUp = f, cancel
		w.bucket.mu.Unlock()
		_, err := a.tryKeep(ctx, acme, "", random(10, 6<<20))
		cancel()
		var away *snapshots.Away
		if !errors.As(err, &away) {
			t.Errorf("%s: %v", what, err)
		}
		if what == "away" {
			if _, _, err := a.read(t.Context(), acme, one); !errors.As(err, &away) {
				t.Errorf("%s: read: %v", what, err)
			}
			if err := a.Cell.Collect(t.Context()); !errors.As(err, &away) {
				t.Errorf("%s: collect: %v", what, err)
			}
		}
		if list, err := a.List(t.Context(), acme); err != nil || len(list) != 1 {
			t.Errorf("%s: listed %v, %v", what, list, err)
		}
		w.bucket.mu.Lock()
		w.bucket.before = nil
		w.bucket.mu.Unlock()
		for range 2 {
			a.collect(t)
		}
		if now := w.bucket.copy(); !maps.EqualFunc(now, before, bytes.Equal) {
			t.Errorf("%s: it has %d objects, and had %d", what, len(now), len(before))
		}
		a.same(t, acme, one, text)
	}
	// An end of the stream that is the sandbox's own is its error, and leaves nothing.
	gone := errors.New("the sandbox ended")
	err := a.Keep(t.Context(), acme, snapshots.Snapshot{ID: snapshots.NewID(), Tenant: "acme"}, func(out io.Writer) error {
		_, err := out.Write(random(11, 3<<20))
		return errors.Join(err, gone)
	})
	if !errors.Is(err, gone) {
		t.Errorf("a sandbox that ends: %v", err)
	}
	a.keep(t, acme, "", text) // the tenant has room for it
}

// killed: of a server that is killed in the middle of an upload nothing is left, also where its last objects come late.
func killed(t *testing.T, w *world) {
	a, b := w.server("a"), w.server("b")
	acme := a.add(t, "acme", 10)
	text := random(12, 8<<20)
	one := a.keep(t, acme, "", text)
	before := w.bucket.copy()
	reached, goOn := make(chan string, 100), make(chan struct{})
	w.bucket.mu.Lock()
	puts, had := 0, w.bucket.stored
	w.bucket.before = func(_ context.Context, op, name string) error {
		w.bucket.mu.Lock()
		if op == "put" {
			puts++
		}
		n := puts
		w.bucket.mu.Unlock()
		if op == "put" && n > 2 {
			reached <- name
			<-goOn
		}
		return nil
	}
	w.bucket.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		_, err := a.tryKeep(t.Context(), acme, "half", slices.Concat(text, random(13, 8<<20)))
		done <- err
	}()
	<-reached
	stored := func() int {
		w.bucket.mu.Lock()
		defer w.bucket.mu.Unlock()
		return w.bucket.stored
	}
	for limit := time.Now().Add(time.Minute); stored() < had+2; { // the first two have come, and no other before goOn
		if time.Now().After(limit) {
			t.Fatal("what was let through does not come")
		}
		<-time.After(time.Millisecond)
	}
	half := w.bucket.copy()
	b.collect(t) // while it is being made nothing is taken from it
	if len(half) <= len(before) || !maps.EqualFunc(half, w.bucket.copy(), bytes.Equal) {
		t.Fatal("nothing was sent before the kill, or it is gone")
	}
	again := w.server("a") // the next process of that place
	if list, err := again.List(t.Context(), acme); err != nil || len(list) != 1 {
		t.Errorf("listed %v, %v", list, err)
	}
	for range 2 {
		b.collect(t)
	}
	if now := w.bucket.copy(); !maps.EqualFunc(now, before, bytes.Equal) {
		t.Errorf("it has %d objects, and had %d", len(now), len(before))
	}
	close(goOn) // the killed one's last words
	if err := <-done; err == nil {
		t.Error("a process that was followed by another kept a snapshot")
	}
	b.collect(t)
	if now := w.bucket.copy(); !maps.EqualFunc(now, before, bytes.Equal) {
		t.Errorf("late: it has %d objects, and had %d", len(now), len(before))
	}
	again.same(t, acme, one, text)
}

// keys: a server with another key refuses by name, and one with both reads what the older sealed.
func keys(t *testing.T, w *world) {
	a := w.server("a")
	acme := a.add(t, "acme", 10)
	one := a.keep(t, acme, "", []byte("old"))
	old := w.keys
	w.keys = keysOf(t, strings.Repeat("22", 32))
	b := w.server("b")
	if _, _, err := b.read(t.Context(), acme, one); err == nil || !strings.Contains(err.Error(), "--snapshot-keys") {
		t.Errorf("by another key: %v", err)
	}
	two := b.keep(t, acme, "", []byte("new"))
	w.keys = keysOf(t, strings.Repeat("22", 32), strings.Repeat("11", 32), "")
	both := w.server("c")
	both.same(t, acme, one, []byte("old"))
	both.same(t, acme, two, []byte("new"))
	w.keys = old
	for what, text := range map[string]string{"none": "", "short": "11", "no number": strings.Repeat("zz", 32)} {
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := snapshots.ReadKeys(file); err == nil {
			t.Errorf("%s was taken for a key", what)
		}
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(strings.Repeat("11", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshots.ReadKeys(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
}

// removed: a tenant that was removed and added again has nothing of the first one, whose objects go.
func removed(t *testing.T, w *world) {
	a := w.server("a")
	acme, other := a.add(t, "acme", 10), a.add(t, "other", 10)
	one := a.keep(t, acme, "mine", []byte("text"))
	kept := a.keep(t, other, "", []byte("text"))
	if err := a.tables.Remove("acme", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := a.tryKeep(t.Context(), acme, "", nil); err == nil || !strings.Contains(err.Error(), "removed") {
		t.Errorf("a removed tenant's: %v", err)
	}
	anew := a.add(t, "acme", 10)
	for _, id := range []string{one, "mine"} {
		if _, ok, err := a.read(t.Context(), anew, id); ok || err != nil {
			t.Errorf("%s of the one before: %t, %v", id, ok, err)
		}
	}
	for range 2 {
		a.collect(t)
	}
	for name := range w.bucket.copy() {
		if !strings.Contains(name, kept) {
			t.Errorf("left: %s", name)
		}
	}
	a.same(t, other, kept, []byte("text"))
}

// listings: what a bucket lists takes away nothing that is alive, whatever it names, and what it hides is only left.
func listings(t *testing.T, w *world) {
	a := w.server("a")
	acme := a.add(t, "acme", 10)
	one := a.keep(t, acme, "", []byte("text"))
	rows, err := a.shared.Snapshots(t.Context(), acme)
	if err != nil {
		t.Fatal(err)
	}
	mine := w.bucket.copy()
	planted := maps.Clone(mine)
	dead := snapshots.NewID()
	for _, name := range []string{
		rows.Cell + "/" + dead + "/manifest", rows.Cell + "/notes.txt", rows.Cell + "/" + dead + "/../" + one + "/manifest",
		"another-cell/" + dead + "/manifest", rows.Cell + "/SNAP/x",
	} {
		planted[name] = []byte("planted")
	}
	w.bucket.set(planted)
	w.bucket.hides = true
	a.collect(t)
	if len(w.bucket.copy()) != len(planted) {
		t.Error("what is not listed was removed")
	}
	w.bucket.hides = false
	a.collect(t)
	if _, there := w.bucket.copy()[rows.Cell+"/"+dead+"/manifest"]; there {
		t.Error("the control: what no row names is left")
	}
	for name := range planted {
		if _, there := w.bucket.copy()[name]; !there && name != rows.Cell+"/"+dead+"/manifest" {
			t.Errorf("removed: %s", name)
		}
	}
	a.same(t, acme, one, []byte("text"))
}
