package realtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/audit"
)

// A database is a real PostgreSQL on loopback that wants TLS and a password.
type database struct {
	bin  string
	addr string
}

// newDatabase makes one for the host name, as an ordinary user: the server does
// not run as root.
func newDatabase(t *testing.T, w *world, name string) *database {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		need(t, "postgres", "initdb")
	}
	d := &database{bin: filepath.Dir(found[len(found)-1])}
	dir := shortTemp(t)
	cert, err := w.net.certificate(&tls.ClientHelloInfo{ServerName: name})
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})), 0o644)
	write(t, filepath.Join(dir, "key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})), 0o600)
	write(t, filepath.Join(dir, "password"), "secret\n", 0o600)
	var as *syscall.Credential
	if os.Getuid() == 0 {
		as = &syscall.Credential{Uid: 65534, Gid: 65534}
		for _, path := range []string{"", "crt", "key", "password"} {
			if err := os.Chown(filepath.Join(dir, path), 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
	}
	command := func(ctx context.Context, program string, args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, filepath.Join(d.bin, program), args...)
		c.Dir, c.Env = dir, []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin", "PGPASSWORD=secret"}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		return c
	}
	if out, err := command(t.Context(), "initdb", "-D", "db", "-U", "owner", "-A", "scram-sha-256", "--pwfile=password", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	d.addr = freePort(t)
	_, port, _ := net.SplitHostPort(d.addr)
	server := command(context.Background(), "postgres", "-D", "db", "-h", "127.0.0.1", "-p", port, "-k", dir, "-F",
		"-c", "ssl=on", "-c", "ssl_cert_file=../crt", "-c", "ssl_key_file=../key", "-c", "shared_buffers=16MB", "-c", "max_connections=20")
	log := &strings.Builder{}
	server.Stderr = log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // at once, with its children
		_ = server.Wait()
		if t.Failed() {
			t.Logf("the server: %s", log)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); command(t.Context(), "pg_isready", "-h", "127.0.0.1", "-p", port, "-U", "owner", "-d", "postgres").Run() != nil; {
		if time.Now().After(deadline) {
			t.Fatalf("the server does not come up: %s", log)
		}
		<-time.After(50 * time.Millisecond)
	}
	sql := "CREATE ROLE app LOGIN PASSWORD 'secret'; CREATE ROLE root LOGIN SUPERUSER PASSWORD 'secret'; CREATE DATABASE shop OWNER app; CREATE DATABASE other;"
	for one := range strings.SplitSeq(strings.TrimSuffix(sql, ";"), "; ") {
		if out, err := command(t.Context(), "psql", "-h", "127.0.0.1", "-p", port, "-U", "owner", "-d", "postgres", "-c", one).CombinedOutput(); err != nil {
			t.Fatalf("psql: %v\n%s", err, out)
		}
	}
	return d
}

// freePort is an address on loopback where nothing listens, and none that the
// kernel gives to whoever asks for any before it is used.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(22000)))
		if err == nil {
			_ = ln.Close()
			return ln.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// The real psql, unmodified, with a password by SCRAM, through a gate that knows
// who it is and which database it wants; to the server it is TLS.
func TestReadPostgres(t *testing.T) {
	w := newWorld(t)
	w.net.handle("db.example.com", http.NotFoundHandler()) // a certificate for it
	db := newDatabase(t, w, "db.example.com")
	w.net.forward("db.example.com", db.addr)
	w.rules = map[string][]string{"db.example.com": {`{domain: db.example.com, protocol: postgres, users: [app], databases: [shop]}`}}
	psql := fmt.Sprintf("export PGPASSWORD=secret PGCONNECT_TIMEOUT=20; psql() { %s/psql -h db.example.com -XAt \"$@\"; }\n", db.bin)
	res := w.script(psql + `
psql -U app -d shop -c "create table t as select generate_series(1, 20000) as n"
psql -U app -d shop -c "select sum(n) from t"
psql -U app -d shop -c "select 'tls ' || ssl from pg_stat_ssl where pid = pg_backend_pid()"
psql -U root -d shop -c "select 1" 2>&1 || echo refused
psql -U app -d other -c "select 1" 2>&1 || echo refused
psql -U app -d shop -c "copy t to stdout" | wc -l
export PGSSLMODE=require
psql -U app -d shop -c "select 'required ' || ssl from pg_stat_ssl where pid = pg_backend_pid()"
PGSSLMODE=verify-full PGSSLROOTCERT=$SSL_CERT_FILE psql -U app -d shop -c "select 'verified ' || ssl from pg_stat_ssl where pid = pg_backend_pid()"
psql -U app -d mine -c "select 1" 2>&1 || echo refused
unset PGSSLMODE PGCHANNELBINDING
psql -U app -d shop -c "select 'unbound ' || ssl from pg_stat_ssl where pid = pg_backend_pid()"
`)
	for _, want := range []string{"200010000\n", "tls true\n", "\n20000", "required true\n", "verified true\n", "unbound true\n", "not this user with this database", `users: ["root"], databases: ["shop"]`, `users: ["app"], databases: ["other"]`} {
		if !strings.Contains(res.stdout, want) {
			t.Errorf("no %q in %s\n%s", want, res.stdout, res.stderr)
		}
	}
	if n := strings.Count(res.stdout, "refused\n"); n != 3 {
		t.Errorf("%d refused", n)
	}
	denied := 0
	for _, e := range w.events() {
		if e.Kind == audit.NetConnect && e.Action == "login" && e.Verdict == "deny" && strings.Contains(e.Reason, `user "root" database "shop"`) {
			denied++
		}
	}
	if denied != 2 { // libpq that is refused by TLS tries without
		t.Errorf("the record:\n%s", w.journal())
	}
}
