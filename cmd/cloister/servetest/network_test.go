//go:build linux

package servetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// open is which of the names a, b and c a sandbox reaches.
func (b sandbox) open() string {
	b.s.t.Helper()
	return strings.Join(strings.Fields(b.output("for n in a b c; do timeout 20 getent hosts $n.example >/dev/null && echo $n; done; true")), " ")
}

func (b sandbox) setNetwork(body string) answer {
	b.s.t.Helper()
	return b.s.api("acme", "PUT", "/sandboxes/"+b.id+"/network", body)
}

// soon waits for something.
func soon(t *testing.T, what string, c <-chan bool) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
}

// configure adds to the configuration of a tenant, and gives what it was.
func (s *server) configure(tenant, text string) (file, before string) {
	s.t.Helper()
	file = filepath.Join(s.dir, "d/cloister/serve/t", tenant, "config/cloister/config.yaml")
	was, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(was, text...), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return file, string(was)
}

// TestSetNetwork changes the network of a sandbox that runs, by requests that mean well and
// by others: what is taken away is so at once, and nothing is opened that the tenant's policy
// does not.
func TestSetNetwork(t *testing.T) {
	t.Parallel()
	began, over := make(chan bool, 1), make(chan bool)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, "begun") // a client that is gone ends the context too
		_ = http.NewResponseController(w).Flush()
		began <- true
		<-r.Context().Done()
		close(over)
	}))
	t.Cleanup(up.Close)
	s := newServer(t, "acme")
	const allowed = "  allow:\n    - domain: b.example\n"
	file, before := s.configure("acme", allowed+"    - domain: a.example\n      ports: [80]\n  hosts: {a.example: \""+
		strings.TrimPrefix(up.URL, "http://")+"\"}\n")
	b := s.create("acme", `{"templateID":"base","timeout":300}`)
	if got := b.open(); got != "a b" {
		t.Fatalf("at first: %q", got)
	}

	// A connection that was allowed ends where it is allowed no more.
	b.output(`(exec 3<>/dev/tcp/a.example/80; printf 'GET / HTTP/1.1\r\nHost: a.example\r\n\r\n' >&3; cat <&3) >/dev/null 2>&1 &`)
	soon(t, "the connection", began)
	if a := b.setNetwork(`{"denyOut":["a.example"]}`); a.status != 204 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	soon(t, "the end of the connection", over)
	if got := b.open(); got != "b" {
		t.Errorf("without a: %q", got)
	}

	// The next guardian knows it too.
	var status struct{ PID int }
	if err := json.Unmarshal([]byte(s.of("acme", "guardian", "status", "--json")), &status); err != nil || status.PID < 2 {
		t.Fatalf("%+v, %v", status, err)
	}
	if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.until("the next guardian", func() bool { return strings.Contains(b.run("true").body, `"exitCode":0`) })
	if got := b.open(); got != "b" {
		t.Errorf("under the next guardian: %q", got)
	}

	// A copy stays without what was taken away of its original.
	forks := s.api("acme", "POST", "/sandboxes/"+b.id+"/fork", `{"timeout":60}`)
	var made []struct {
		Sandbox struct{ SandboxID, EnvdAccessToken string }
	}
	if err := json.Unmarshal([]byte(forks.body), &made); err != nil || len(made) != 1 {
		t.Fatalf("fork: %d %s", forks.status, forks.body)
	}
	fork := sandbox{s, made[0].Sandbox.SandboxID, made[0].Sandbox.EnvdAccessToken}
	if a := fork.setNetwork(`{}`); a.status != 204 || fork.open() != "b" {
		t.Errorf("a copy: %d %s %q", a.status, a.body, fork.open())
	}

	for _, tt := range []struct {
		body   string
		status int
		want   string
	}{
		{`{}`, 204, "a b"},
		{`{"allowOut":["c.example","*","0.0.0.0/0"]}`, 204, "a b"},
		{`{"denyOut":["0.0.0.0/0"],"allowOut":["b.example","c.example"]}`, 204, "b"},
		{`{"allow_internet_access":false,"allowOut":["*"]}`, 204, ""},
		{`{"allow_internet_access":true}`, 204, "a b"},
		{`{"denyOut":["*"],"allowOut":["*"]}`, 204, "a b"},
		{`{"denyOut":["b.example"]}`, 204, "a"},
		{`{"denyOut":["x\"} ; permit (principal, action, resource); //"]}`, 400, "a"},
		{`{"denyOut":["*"],"allowOut":["a b"]}`, 400, "a"},
		{`{"egressProxy":{"address":"x:1"}}`, 400, "a"},
		{`{"rules":{"a.example":[{"transform":{"headers":{"X":"y"}}}]}}`, 400, "a"},
		{`{"denyOut":["` + strings.Repeat(`b.example","`, 1000) + `b.example"]}`, 400, "a"},
		{`[]`, 400, "a"},
	} {
		if a := b.setNetwork(tt.body); a.status != tt.status {
			t.Errorf("%.80s: %d %s", tt.body, a.status, a.body)
		}
		if got := b.open(); got != tt.want {
			t.Errorf("%.80s: %q is open, want %q", tt.body, got, tt.want)
		}
	}
	if !strings.Contains(s.record("acme"), "tenant.sandbox network deny b.example, but for  in "+b.id) {
		t.Error("it is not in the record")
	}

	// A pause that keeps the files alone starts another session, with what holds by now.
	if a := s.api("acme", "POST", "/sandboxes/"+b.id+"/pause", `{"memory":false}`); a.status != 204 {
		t.Fatalf("pause: %d %s", a.status, a.body)
	}
	if a := b.setNetwork(`{}`); a.status != 409 {
		t.Errorf("while it is paused: %d %s", a.status, a.body)
	}
	if a := s.api("acme", "POST", "/v2/sandboxes/"+b.id+"/connect", `{"timeout":300}`); a.status != 201 || b.open() != "a" {
		t.Errorf("resumed: %d %s %q", a.status, a.body, b.open())
	}

	// A policy that was narrowed meanwhile is not widened by a request.
	if err := os.WriteFile(file, []byte(before+allowed), 0o600); err != nil {
		t.Fatal(err)
	}
	s.of("acme", "guardian", "reload")
	if a := b.setNetwork(`{"allowOut":["a.example"]}`); a.status != 204 || b.open() != "b" {
		t.Errorf("under a narrower policy: %d %s %q", a.status, a.body, b.open())
	}

	off := s.create("acme", `{"templateID":"base","timeout":120,"allow_internet_access":false}`)
	if a := off.setNetwork(`{}`); a.status != 400 || off.open() != "" {
		t.Errorf("one that was made without a network: %d %s", a.status, a.body)
	}
	if a := off.setNetwork(`{"allow_internet_access":false}`); a.status != 204 {
		t.Errorf("one that was made without a network: %d %s", a.status, a.body)
	}
}
