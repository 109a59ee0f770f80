package needs

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Postgres is a real PostgreSQL of one test, in a folder of its own, on a unix socket there. It
// runs as an ordinary user, and ends with the test.
type Postgres struct {
	t    testing.TB
	bin  string
	dir  string
	log  bytes.Buffer
	stop func()
}

// NewPostgres starts one.
func NewPostgres(t testing.TB) *Postgres {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		Missing(t, "postgres", os.ErrNotExist)
	}
	dir, err := os.MkdirTemp("", "pg") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	p := &Postgres{t: t, bin: filepath.Dir(found[len(found)-1]), dir: dir, stop: func() {}}
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("postgres: %s", p.log.Bytes())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if os.Getuid() == 0 {
		if err := os.Chown(dir, ordinary, ordinary); err != nil {
			t.Fatal(err)
		}
	}
	p.do("initdb", "-D", "db", "-U", "owner", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8")
	p.Start()
	return p
}

// ordinary is the user that it runs as where the test is root.
const ordinary = 65534

func (p *Postgres) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(p.bin, program), args...)
	c.Dir, c.Env = p.dir, []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin", "PGHOST=" + p.dir, "PGUSER=owner"}
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	}
	return c
}

func (p *Postgres) do(program string, args ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if out, err := p.command(ctx, program, args...).CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// Start starts it, again where it was stopped.
func (p *Postgres) Start() {
	p.t.Helper()
	server := p.command(context.Background(), "postgres", "-D", "db", "-h", "", "-k", p.dir, "-F",
		"-c", "shared_buffers=16MB", "-c", "max_connections=60", "-c", "full_page_writes=off")
	server.Stderr = &p.log
	if err := server.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Wait() // it is stopped by a signal
	}()
	p.stop = func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // at once, with its children
		<-ended
		p.stop = func() {}
	}
	ready := func() bool { return p.command(context.Background(), "pg_isready", "-d", "postgres").Run() == nil }
	for deadline := time.Now().Add(time.Minute); !ready(); {
		select {
		case <-ended:
			p.t.Fatalf("postgres ended: %s", p.log.Bytes())
		case <-time.After(30 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.t.Fatal("postgres does not come up")
		}
	}
}

// Stop stops it at once, as a crash does.
func (p *Postgres) Stop() { p.stop() }

// Database makes an empty database and gives its address.
func (p *Postgres) Database(name string) string {
	p.t.Helper()
	p.do("createdb", name)
	return "postgres:///" + name + "?user=owner&host=" + url.QueryEscape(p.dir)
}

// Do carries out SQL in a database.
func (p *Postgres) Do(name, sql string) {
	p.t.Helper()
	p.do("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", name, "-c", sql)
}
