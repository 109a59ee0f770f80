//go:build linux

package servetest

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/internal/needs"
)

// fleet has cloister-fleet beside cloister, as a release does.
func fleet(t *testing.T) {
	t.Helper()
	beside := filepath.Join(filepath.Dir(binary), "cloister-fleet")
	if _, err := os.Stat(beside); err == nil { // script/test built it
		return
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", beside, "cloister/cmd/cloister-fleet")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build cloister-fleet: %v\n%s", err, out)
	}
}

// TestReplicas has two servers of one tenant on one PostgreSQL: what is made through one is listed, used and
// ended through the other, within one limit, and another tenant's key finds nothing on either.
func TestReplicas(t *testing.T) {
	p := needs.NewPostgres(t)
	fleet(t)
	t.Setenv("CLOISTER_DATABASE", p.Database("replicas"))
	words := []string{"--domain", "sandboxes.example", "--lease", "10m"} // a busy machine may not run it for seconds
	a := newServerAt(t, "", []string{"--ahead", "0", "--sandboxes", "2"}, words, "acme", "other")
	b := newServerAt(t, "", nil, words)
	b.keys = a.keys
	eventually(t, "the other server does not learn of the keys", func() bool { return b.api("acme", "GET", "/sandboxes", "").status == http.StatusOK })

	one := a.create("acme", `{"templateID":"base","metadata":{"made":"through a"}}`)
	two := b.create("acme", `{"templateID":"base"}`)
	for _, s := range []*server{a, b} {
		if list := s.api("acme", "GET", "/v2/sandboxes", ""); !strings.Contains(list.body, one.id) || !strings.Contains(list.body, two.id) ||
			!strings.Contains(list.body, "through a") {
			t.Errorf("listed %s", list.body)
		}
		if got := s.api("acme", "POST", "/v2/sandboxes", `{"templateID":"base"}`); got.status != http.StatusTooManyRequests {
			t.Errorf("beyond the limit of both: %d %s", got.status, got.body)
		}
		if got := (sandbox{s, one.id, one.token}).output("echo here"); got != "here\n" {
			t.Errorf("a command through %s: %q", s.url, got)
		}
		if got := (sandbox{s, one.id, two.token}).read("/etc/hostname"); got.status != http.StatusUnauthorized {
			t.Errorf("by another's token: %d %s", got.status, got.body)
		}
		never := s.api("other", "GET", "/sandboxes/i0000000000000000000", "")
		for _, id := range []string{one.id, two.id} {
			if got := s.api("other", "GET", "/sandboxes/"+id, ""); got.status != never.status || got.body != never.body {
				t.Errorf("another tenant's key through %s: %d %s", s.url, got.status, got.body)
			}
			if got := s.api("other", "DELETE", "/sandboxes/"+id, ""); got.status != never.status || got.body != never.body {
				t.Errorf("another tenant ends it through %s: %d %s", s.url, got.status, got.body)
			}
		}
	}
	through := sandbox{b, one.id, one.token}
	if got := through.write("hello.txt", "from b"); got.status != http.StatusOK {
		t.Fatalf("write: %d %s", got.status, got.body)
	}
	if got := one.read("hello.txt"); got.body != "from b" {
		t.Errorf("read: %q", got.body)
	}
	// A request that was passed on once is answered where it came to.
	header := one.header("application/json")
	header["X-Cloister-Passed-On"] = "me"
	if got := b.call("POST", "/process.Process/List", header, "{}"); got.status != http.StatusBadGateway {
		t.Errorf("passed on twice: %d %s", got.status, got.body)
	}
	if got := a.api("acme", "POST", "/sandboxes/"+two.id+"/pause", ""); got.status != http.StatusNoContent {
		t.Errorf("pause through the other: %d %s", got.status, got.body)
	}
	if got := a.api("acme", "POST", "/sandboxes/"+two.id+"/resume", `{"timeout":60}`); got.status != http.StatusCreated {
		t.Errorf("resume through the other: %d %s", got.status, got.body)
	}
	// A server that is killed and comes back within its lease goes on with what it had.
	a.kill()
	if got := b.api("acme", "GET", "/sandboxes/"+one.id, ""); got.status != http.StatusServiceUnavailable {
		t.Errorf("of a server that does not answer: %d %s", got.status, got.body)
	}
	a.start()
	one.s, through.s = a, b
	eventually(t, "it is not passed on to where the server is now", func() bool {
		return b.api("acme", "GET", "/sandboxes/"+one.id, "").status == http.StatusOK
	})
	if got := through.output("cat hello.txt"); got != "from b" {
		t.Errorf("after a restart: %q", got)
	}
	// The configuration comes to both servers, before the next sandbox.
	file := filepath.Join(a.dir, "wide.yaml")
	text := "version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  allow: [{domain: example.test}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a.do("serve", "tenant", "configure", "acme", file)
	for _, s := range []*server{a, b} {
		eventually(t, "the configuration does not come", func() bool {
			got, _ := os.ReadFile(filepath.Join(s.dir, "d/cloister/serve/t/acme/config/cloister/config.yaml")) // not yet
			return string(got) == text
		})
	}
	// The database goes away: no key is good, and the next one says so; what runs here goes on for a lease.
	p.Stop()
	if got := a.api("acme", "GET", "/sandboxes", ""); got.status != http.StatusServiceUnavailable || strings.Contains(got.body, "postgres") {
		t.Errorf("without a database: %d %s", got.status, got.body)
	}
	p.Start()
	for _, s := range []*server{a, b} { // a request to one is the other's to answer
		eventually(t, "the servers do not come back", func() bool { return s.api("acme", "GET", "/sandboxes", "").status == http.StatusOK })
	}
	if got := b.api("acme", "DELETE", "/sandboxes/"+one.id, ""); got.status != http.StatusNoContent {
		t.Errorf("ended through the other: %d %s", got.status, got.body)
	}
	if list := a.api("acme", "GET", "/v2/sandboxes", ""); strings.Contains(list.body, one.id) {
		t.Errorf("listed %s", list.body)
	}
	b.api("acme", "DELETE", "/sandboxes/"+two.id, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, binary, "serve", "--e2b", "127.0.0.1:0", "--database", "postgres://me:hunter2@db/x").CombinedOutput(); err == nil ||
		strings.Contains(string(out), "hunter2") || !strings.Contains(string(out), "PGPASSWORD") {
		t.Errorf("a password on the command line: %v, %s", err, out)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !f(); {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
		<-time.After(20 * time.Millisecond)
	}
}
