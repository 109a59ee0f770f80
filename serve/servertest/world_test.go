//go:build linux

package servertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloister/api"
	"cloister/serve"
	"cloister/serve/database"
	"cloister/serve/database/postgres"
	"cloister/serve/e2b"
	"cloister/serve/forward"
	"cloister/serve/tenants"
	"cloister/session/launch"
)

// The role of a server, which this program plays when its environment says so.
const roleVar = "CLOISTER_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(roleVar) != "" {
		if err := beServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
		syscall.Exit(0)
	}
	os.Exit(m.Run())
}

// A double has the sessions of one host, each a file that outlives the server.
type double struct {
	dir string
	mu  sync.Mutex
	own map[string]chan struct{}
}

func newDouble(dir string) (*double, error) {
	return &double{dir: dir, own: map[string]chan struct{}{}}, os.MkdirAll(dir, 0o700)
}

func (d *double) live(name string) serve.Live {
	d.mu.Lock()
	defer d.mu.Unlock()
	gone := make(chan struct{})
	d.own[name] = gone
	return serve.Live{Name: name, Gone: gone}
}

// Start fails where the session is there: two would have it.
func (d *double) Start(_ context.Context, _ serve.Place, o launch.Order) (serve.Live, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, o.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return serve.Live{}, err
	}
	return d.live(o.Name), f.Close()
}

func (d *double) Find(_ context.Context, _ serve.Place, name string) (serve.Live, error) {
	if _, err := os.Stat(filepath.Join(d.dir, name)); err != nil {
		return serve.Live{}, serve.ErrNoSession
	}
	return d.live(name), nil
}

func (d *double) Record(_ context.Context, p serve.Place, a serve.Act) error {
	name := filepath.Join(filepath.Dir(d.dir), "record")
	if text, err := os.ReadFile(name); a.Kind == serve.ActLost && err == nil && strings.Contains(string(text), a.Session+" lost") {
		return nil // as a guardian does
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, p.Tenant, a.Session, a.Action)
	return errors.Join(err, f.Close())
}

func (d *double) Narrow(context.Context, serve.Place, string, []api.CedarFile) error { return nil }

func (d *double) Stop(_ context.Context, _ serve.Place, name, _ string) error {
	err := os.Remove(filepath.Join(d.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return serve.ErrNoSession
	}
	return err
}

// sessions are those that the host of a server has.
func sessions(dir string) []string {
	list, _ := os.ReadDir(filepath.Join(dir, "sessions")) // none yet
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// dialled gives the connection to a database without the program that has it.
func dialled(db *postgres.Database) func(context.Context) (io.ReadWriteCloser, error) {
	return func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := net.Pipe()
		go func() { _ = db.Serve(theirs) }() // until ours is closed
		return ours, nil
	}
}

// server is a host with what it depends on, on a database or on files.
type server struct {
	host   *serve.Host
	shared *database.Client
	tables *tenants.Register
	close  func()
}

// open opens one in a folder. address is the database's, empty for files, and at its own.
func open(ctx context.Context, dir, address, at string, lease time.Duration, log *slog.Logger) (*server, error) {
	d, err := newDouble(filepath.Join(dir, "sessions"))
	if err != nil {
		return nil, err
	}
	s := &server{close: func() {}}
	o := serve.Options{Engine: d, Program: "/cloister", Log: log}
	if address != "" {
		db, err := postgres.Open(ctx, address)
		if err != nil {
			return nil, err
		}
		place, err := database.Place(dir)
		if err != nil {
			return nil, err
		}
		s.shared = database.New(database.Options{Dial: dialled(db), Server: place, Address: at, Lease: lease})
		s.close = func() { s.shared.Close(); _ = db.Close() } // nothing is asked any more
		o.Shared = s.shared
		s.tables, err = tenants.OpenKept(dir, s.shared)
		if err != nil {
			return nil, err
		}
	} else if s.tables, err = tenants.Open(dir); err != nil {
		return nil, err
	}
	o.Tenants = s.tables
	if s.host, err = serve.Open(ctx, o); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// beServer is a server on a database, as a process of its own.
func beServer() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", os.Getenv("AT"))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := open(context.WithoutCancel(ctx), os.Getenv("DIR"), os.Getenv("DB"), "http://"+os.Getenv("AT"), 10*time.Minute, log)
	if err != nil {
		return err
	}
	others := forward.New(s.shared, "", log)
	door := e2b.New(e2b.Options{
		Host: s.host, Tenants: s.tables, Log: log, Elsewhere: others.Answer,
		Images: func(string, string) (string, error) { return "", nil },
	})
	web := &http.Server{Handler: door, ReadHeaderTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		_ = web.Close() // requests of a test are over
	}()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	door.Close()
	s.host.Close()
	others.Close()
	s.close()
	return nil
}

// addTenant adds a tenant by a server's register, and gives its key.
func addTenant(t *testing.T, r *tenants.Register, name string, l tenants.Limits) (tenants.Tenant, string) {
	t.Helper()
	one := tenants.Tenant{Name: name, Created: time.Now().UTC().Truncate(time.Microsecond), Limits: l, Config: tenants.Standard}
	if err := r.Add(one, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	_, key, err := r.MakeKey(tenants.Key{Tenant: name, Scope: tenants.All, Created: time.Now()}, func(tenants.Key) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return one, key
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !f(); {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func lines(file, word string) (n int) {
	text, _ := os.ReadFile(file) // none was written yet
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.HasSuffix(line, word) {
			n++
		}
	}
	return n
}
