//go:build linux

package servertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloister/internal/needs"
	"cloister/serve/database"
	"cloister/serve/database/postgres"
	"cloister/serve/servertest/clients"
	"cloister/serve/tenants"
)

// A replica is a server as a process, which is killed and started again.
type replica struct {
	t       *testing.T
	dir, at string
	env     []string
	mu      sync.Mutex
	cmd     *exec.Cmd
	log     *os.File
}

func newReplica(t *testing.T, address string) *replica {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{t: t, dir: dir, at: at, log: log, env: append(os.Environ(), roleVar+"=1", "DIR="+dir, "AT="+at, "DB="+address)}
	r.start()
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name()) // it is only shown
			t.Logf("the server at %s: %s", at, text[max(0, len(text)-4000):])
		}
		log.Close()
	})
	return r
}

func (r *replica) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd = exec.CommandContext(context.Background(), "/proc/self/exe")
	r.cmd.Env, r.cmd.Stderr = r.env, r.log
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
}

// kill ends it as a crash does.
func (r *replica) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.cmd.Wait()         // it was killed
}

// stop ends it as an operator does.
func (r *replica) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	if err := r.cmd.Wait(); err != nil {
		r.t.Errorf("the server at %s: %v", r.at, err)
	}
}

func (r *replica) call(key, method, path, body string) (status int, answer string) {
	return clients.Call(context.WithoutCancel(r.t.Context()), "http://"+r.at, key, method, path, body)
}

// ready waits for it to answer.
func (r *replica) ready(key string) {
	r.t.Helper()
	eventually(r.t, "a server does not answer", func() bool { s, _ := r.call(key, "GET", "/sandboxes", ""); return s == http.StatusOK })
}

func (r *replica) list(key string) []string {
	r.t.Helper()
	list, err := clients.List(r.t.Context(), "http://"+r.at, key)
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// TestStorm has clients make and end sandboxes through two servers on one PostgreSQL, each of which is
// killed at random moments. Afterwards each sandbox that a client was given and nobody ended is there,
// none that was ended is, and no session, folder or row is left of any other. CLOISTER_KILLS is how many
// kills, CLOISTER_SESSIONS how many sandboxes at least.
func TestStorm(t *testing.T) {
	kills, sandboxes := 8, 60
	if n := os.Getenv("CLOISTER_KILLS"); n != "" {
		if _, err := fmt.Sscan(n, &kills); err != nil {
			t.Fatal(err)
		}
		sandboxes = kills * 10
	}
	began := time.Now()
	p := needs.NewPostgres(t)
	address := p.Database("storm")
	tables := connectTables(t, address)
	l := tenants.Usual()
	l.Sandboxes, l.RequestsPerMinute, l.Ahead = 1_000_000, 1_000_000, 2
	_, key := addTenant(t, tables, "acme", l)
	_, stranger := addTenant(t, tables, "other", l)
	both := []*replica{newReplica(t, address), newReplica(t, address)}
	for _, r := range both {
		r.ready(key)
	}
	b := clients.New(key, 5, 40)
	var over atomic.Bool
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for !over.Load() {
				b.Act(t.Context(), "http://"+both[rand.IntN(2)].at)
			}
		})
	}
	for n := 0; n < kills || b.Count() < sandboxes; n++ {
		<-time.After(time.Duration(rand.IntN(250)) * time.Millisecond)
		r := both[rand.IntN(2)]
		r.kill()
		r.start()
		if n >= kills {
			r.ready(key) // the kills are done: sandboxes are to come
		}
	}
	over.Store(true)
	all.Wait()
	for _, r := range both {
		r.kill() // what was half made by the last requests is ended by the next
		r.start()
		r.ready(key)
	}
	check(t, b, both, key, stranger)
	t.Logf("%d kills, %d sandboxes made, %d requests without an answer, %d known to live at the end; %s",
		kills, b.Made, b.Uncertain, len(b.Alive), time.Since(began).Round(time.Second))
	lost(t, p, both, key)
}

// check holds what clients know to what there is.
func check(t *testing.T, b *clients.Book, both []*replica, key, stranger string) {
	t.Helper()
	var listed []string
	eventually(t, "sessions and rows are not the same", func() bool { // spares that were begun come and go
		listed = both[0].list(key)
		var there []string
		for _, r := range both {
			for _, id := range sessions(r.dir) {
				if text, err := os.ReadFile(filepath.Join(r.dir, "t", "acme", "sandboxes", id, "record.json")); err == nil &&
					!strings.Contains(string(text), `"state": "ended"`) {
					there = append(there, id)
				}
			}
		}
		slices.Sort(there)
		return slices.Equal(listed, there)
	})
	if other := both[1].list(key); !slices.Equal(listed, other) {
		t.Errorf("the two list %d and %d", len(listed), len(other))
	}
	for _, what := range b.Wrong(listed) {
		t.Error(what)
	}
	for _, id := range listed[:min(len(listed), 10)] {
		for _, r := range both { // one of them passes it on
			if status, answer := r.call(key, "GET", "/sandboxes/"+id, ""); status != http.StatusOK {
				t.Errorf("%s at %s: %d %s", id, r.at, status, answer)
			}
			status, answer := r.call(stranger, "GET", "/sandboxes/"+id, "")
			never, nothing := r.call(stranger, "GET", "/sandboxes/i"+strings.Repeat("0", 19), "")
			if status != never || answer != nothing {
				t.Errorf("another tenant's key on %s: %d %s", id, status, answer)
			}
		}
	}
	for _, r := range both { // every session is a sandbox's or a spare's, and every folder has one
		dirs, err := os.ReadDir(filepath.Join(r.dir, "t", "acme", "sandboxes"))
		if err != nil {
			t.Fatal(err)
		}
		if have := sessions(r.dir); len(dirs) < len(have) {
			t.Errorf("%d folders for %d sessions", len(dirs), len(have))
		}
	}
}

// lost ends one of the two for good: the other gives up what it had, once, and what it has itself stays.
func lost(t *testing.T, p *needs.Postgres, both []*replica, key string) {
	t.Helper()
	dead, lives := both[0], both[1]
	all := lives.list(key)
	had := 0
	for _, id := range all {
		if _, err := os.Stat(filepath.Join(dead.dir, "sessions", id)); err == nil {
			had++
		}
	}
	dead.kill()
	for _, id := range all {
		if _, err := os.Stat(filepath.Join(dead.dir, "sessions", id)); err == nil {
			if status, answer := lives.call(key, "GET", "/sandboxes/"+id, ""); status != http.StatusServiceUnavailable {
				t.Errorf("of a server that does not answer: %d %s", status, answer)
			}
			break
		}
	}
	p.Do("storm", "update cloister_servers set in_touch_since = now() - interval '1 hour'; "+
		"update cloister_servers set lease_until = now() - interval '1 hour' where address = 'http://"+dead.at+"'")
	eventually(t, "what a lost server had is not given up", func() bool { return len(lives.list(key)) == len(all)-had })
	if n := lines(filepath.Join(lives.dir, "record"), "lost"); n != had {
		t.Errorf("%d of %d were recorded as lost", n, had)
	}
	dead.start()
	dead.ready(key)
	eventually(t, "a server that is back keeps what was given up", func() bool { return len(sessions(dead.dir)) == 0 })
	for _, r := range both {
		r.stop()
	}
	if len(sessions(lives.dir)) != len(all)-had {
		t.Errorf("%d sessions live on, of %d", len(sessions(lives.dir)), len(all)-had)
	}
}

// connectTables gives the register of a database, as a command does.
func connectTables(t *testing.T, address string) *tenants.Register {
	t.Helper()
	db, err := postgres.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	c := database.New(database.Options{Dial: dialled(db)})
	t.Cleanup(func() {
		c.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := tenants.OpenKept(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
