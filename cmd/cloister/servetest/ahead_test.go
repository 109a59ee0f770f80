//go:build linux

package servetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ids are the sandboxes of a tenant that there are on the disk, those that no request was
// told of among them.
func (s *server) ids(tenant string) []string {
	s.t.Helper()
	list, err := filepath.Glob(filepath.Join(s.dir, "d", "cloister", "serve", "t", tenant, "sandboxes", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range list {
		list[i] = filepath.Base(list[i])
	}
	return list
}

// until waits for what the server does in the background.
func (s *server) until(what string, is func() bool) {
	s.t.Helper()
	for began := time.Now(); !is(); <-time.After(20 * time.Millisecond) {
		if time.Since(began) > 60*time.Second {
			s.t.Fatalf("%s: not within a minute", what)
		}
	}
}

// spares waits until n sandboxes of a tenant were started that no request was told of, and
// gives them.
func (s *server) spares(tenant string, n int) []string {
	s.t.Helper()
	var out []string
	s.until("sandboxes that are started ahead", func() bool {
		told := s.api(tenant, "GET", "/v2/sandboxes", "").body
		out = slices.DeleteFunc(s.ids(tenant), func(id string) bool { return strings.Contains(told, id) })
		record := s.record(tenant)
		return len(out) == n && !slices.ContainsFunc(out, func(id string) bool { return !strings.Contains(record, "in "+id) })
	})
	return out
}

// warm makes a sandbox that was started ahead, out of those that were given. The record of
// its start is a moment older than itself: until then a request has another one made.
func (s *server) warm(tenant, body string, of []string) sandbox {
	s.t.Helper()
	var b sandbox
	s.until("a sandbox that was started ahead", func() bool {
		b = s.create(tenant, body)
		if slices.Contains(of, b.id) {
			return true
		}
		s.api(tenant, "DELETE", "/sandboxes/"+b.id, "")
		return false
	})
	if n := strings.Count(s.record(tenant), "tenant.sandbox use base in "+b.id); n != 1 {
		s.t.Errorf("%d records say that %s is used, want one", n, b.id)
	}
	return b
}

// TestAhead has sandboxes that were started before their requests: each is for one request,
// of the tenant that it was started for.
func TestAhead(t *testing.T) {
	t.Parallel()
	s := newServerOf(t, []string{"--ahead", "2"}, "acme", "other")
	first := s.create("acme", `{"templateID":"base","timeout":120}`)
	spares := s.spares("acme", 2)

	// No tenant finds one by its ID, not even its own, and another is never given one.
	never := "i" + strings.Repeat("0", 19)
	for _, tenant := range []string{"acme", "other"} {
		for _, id := range spares {
			theirs, none := s.api(tenant, "GET", "/sandboxes/"+id, ""), s.api(tenant, "GET", "/sandboxes/"+never, "")
			if theirs.status != 404 || theirs.body != none.body {
				t.Errorf("%s looks at one: %d %q, want %q", tenant, theirs.status, theirs.body, none.body)
			}
			in, out := sandbox{s, id, ""}.unary("process.Process/List", "{}"), sandbox{s, never, ""}.unary("process.Process/List", "{}")
			if in.status != 502 || strings.ReplaceAll(in.body, id, never) != out.body {
				t.Errorf("%s enters one: %d %q, want %q", tenant, in.status, in.body, out.body)
			}
		}
	}
	other := s.create("other", `{"templateID":"base","timeout":120}`)
	if slices.Contains(spares, other.id) {
		t.Errorf("%s was started for another tenant", other.id)
	}

	// Each is what its request says, and is given once.
	b := s.warm("acme", `{"templateID":"base","timeout":120,"metadata":{"a":"b"},"envVars":{"WORD":"x y"}}`, spares)
	if got := b.output(`echo "$WORD"; id -un; pwd; echo mine > f`); got != "x y\nuser\n/home/user\n" {
		t.Errorf("inside: %q", got)
	}
	if a := s.api("acme", "GET", "/v2/sandboxes?metadata=a%3Db", ""); !strings.Contains(a.body, b.id) {
		t.Errorf("list by metadata: %d %s", a.status, a.body)
	}
	c := s.warm("acme", `{"templateID":"base","timeout":120}`, slices.DeleteFunc(slices.Clone(spares), func(id string) bool { return id == b.id }))
	if got := c.output(`echo "[$WORD]"; ls -A`); got != "[]\n" && !strings.HasPrefix(got, "[]\n.") {
		t.Errorf("the next one: %q", got)
	}
	if b.token == c.token || b.token == first.token {
		t.Error("two sandboxes have one token")
	}
	// A request that wants less of the network has a session of its own.
	spares = s.spares("acme", 2)
	if d := s.create("acme", `{"templateID":"base","timeout":120,"allow_internet_access":false}`); slices.Contains(spares, d.id) {
		t.Errorf("a narrower sandbox was started ahead: %s", d.id)
	}

	// Those that no request used end with the server, or are ended by the next one; the
	// others live on.
	s.spares("acme", 2)
	s.stop()
	if left := s.ids("acme"); len(left) != 4 || !slices.Contains(left, b.id) {
		t.Errorf("after the server's end: %q", left)
	}
	s.start()
	if got := b.output(`echo "$WORD"; cat f`); got != "x y\nmine\n" {
		t.Errorf("after a new start: %q", got)
	}
	s.create("other", `{"templateID":"base","timeout":120}`)
	s.spares("other", 2)
	s.kill()
	s.start()
	if left := s.ids("other"); len(left) != 2 {
		t.Errorf("after a server was killed: %q", left)
	}
}

// TestAheadOfPolicy: a policy that was narrowed after a sandbox was started ahead rules the
// request that comes then.
func TestAheadOfPolicy(t *testing.T) {
	t.Parallel()
	s := newServerOf(t, []string{"--ahead", "1"}, "acme")
	file := filepath.Join(s.dir, "d/cloister/serve/t/acme/config/cloister/config.yaml")
	closed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(string(closed) + "  allow:\n    - domain: allowed.example\n")
	reach := "timeout 20 getent hosts allowed.example >/dev/null && echo reached || echo refused"
	s.create("acme", `{"templateID":"base","timeout":120}`)
	// The positive control: the policy allows it as yet.
	if got := s.warm("acme", `{"templateID":"base","timeout":120}`, s.spares("acme", 1)).output(reach); got != "reached\n" {
		t.Fatalf("while it is allowed: %q", got)
	}
	old := s.spares("acme", 1)
	write(string(closed))
	b := s.create("acme", `{"templateID":"base","timeout":120}`)
	if got := b.output(reach); got != "refused\n" || slices.Contains(old, b.id) {
		t.Errorf("%s, of %q, after the policy was narrowed: %q", b.id, old, got)
	}
	// Nothing is asked for: one that waits is ended all the same.
	old = s.spares("acme", 1)
	write(string(closed) + "# another file\n")
	s.until("the end of one that waits", func() bool { return !slices.Contains(s.ids("acme"), old[0]) })
}

// TestAheadWithin: what is started ahead is within the tenant's limit, and gives way.
func TestAheadWithin(t *testing.T) {
	t.Parallel()
	s := newServerOf(t, []string{"--ahead", "2", "--sandboxes", "2"}, "acme")
	s.create("acme", `{"templateID":"base","timeout":120}`)
	spare := s.spares("acme", 1)
	if b := s.create("acme", `{"templateID":"base","timeout":120,"allow_internet_access":false}`); slices.Contains(spare, b.id) {
		t.Errorf("a narrower sandbox was started ahead: %s", b.id)
	}
	if got := s.ids("acme"); len(got) != 2 {
		t.Errorf("over the limit: %q", got)
	}
	if a := s.api("acme", "POST", "/v2/sandboxes", `{"templateID":"base"}`); a.status != 429 {
		t.Errorf("a third: %d %s", a.status, a.body)
	}
}

// TestAheadOfSecrets: the placeholders that each start notes beside the vault end none that
// waits; another secret does.
func TestAheadOfSecrets(t *testing.T) {
	t.Parallel()
	s := newServerOf(t, []string{"--ahead", "2"}, "acme")
	file := filepath.Join(s.dir, "d/cloister/serve/t/acme/config/cloister/config.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "secrets: [{name: STORY_KEY, hosts: [api.example], header: X-Key}]\n"...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.given("acme", "first", "secret", "set", "STORY_KEY")
	s.create("acme", `{"templateID":"base","timeout":120}`)
	old := s.spares("acme", 2)
	if n := strings.Count(s.record("acme"), "session.start "); n != 3 {
		t.Errorf("%d sessions were started for one sandbox and two that wait", n)
	}
	s.given("acme", "second", "secret", "set", "STORY_KEY")
	b := s.create("acme", `{"templateID":"base","timeout":120}`)
	if got := b.output(`test -n "$STORY_KEY" && echo held`); got != "held\n" || slices.Contains(old, b.id) {
		t.Errorf("%s, of %q, after the secret changed: %q", b.id, old, got)
	}
	s.until("the end of those that wait", func() bool {
		return !slices.ContainsFunc(old, func(id string) bool { return slices.Contains(s.ids("acme"), id) })
	})
}

// TestAheadUnknown: a request is given a sandbox while the tenant's guardian, which was killed,
// knows none of those that were started ahead as yet.
func TestAheadUnknown(t *testing.T) {
	t.Parallel()
	s := newServerOf(t, []string{"--ahead", "2"}, "acme")
	s.create("acme", `{"templateID":"base","timeout":120}`)
	s.spares("acme", 2)
	var status struct{ PID int }
	if err := json.Unmarshal([]byte(s.of("acme", "guardian", "status", "--json")), &status); err != nil || status.PID < 2 {
		t.Fatalf("%+v, %v", status, err)
	}
	if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := s.create("acme", `{"templateID":"base","timeout":120}`).output("echo x"); got != "x\n" {
		t.Errorf("inside: %q", got)
	}
}

// TestAheadOfRemoved: once a tenant is removed, none is started ahead for it any more.
func TestAheadOfRemoved(t *testing.T) {
	t.Parallel()
	s := newServerOf(t, []string{"--ahead", "16", "--sandboxes", "40"}, "acme")
	s.create("acme", `{"templateID":"base","timeout":120}`)
	// One that a request is having made is as much in its beginning as those that wait for one.
	done := make(chan answer, 4)
	for range cap(done) {
		go func() {
			done <- s.api("acme", "POST", "/v2/sandboxes", `{"templateID":"base","timeout":120,"allow_internet_access":false}`)
		}()
	}
	s.until("sandboxes in their beginning", func() bool { return len(s.ids("acme")) > 2 })
	s.do("serve", "tenant", "remove", "acme")
	t.Cleanup(func() { s.do("serve", "tenant", "add", "acme") }) // which is removed with all that it has
	for range cap(done) {
		<-done
	}
	s.until("the end of all", func() bool { return len(s.ids("acme")) == 0 })
	if out, err := s.tenant("acme", "guardian", "status").CombinedOutput(); err == nil {
		t.Errorf("the guardian of a removed tenant runs: %s", out)
	}
}
