//go:build linux

package servetest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestFilesOfCommands: where a statement speaks of files and programs, what a request's command does
// is on the tenant's record, the command ends though it left something running, and what that does
// afterwards is on record too.
func TestFilesOfCommands(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	policies := filepath.Join(s.dir, "d/cloister/serve/t/acme/config/cloister/policy")
	if err := os.MkdirAll(policies, 0o700); err != nil {
		t.Fatal(err)
	}
	const statements = `@id("machine") forbid (principal, action == Action::"FileOpen", resource == File::"/usr/bin/tac");
@id("tool") forbid (principal, action == Action::"ProcessExec", resource == File::"/usr/bin/uname");
`
	if err := os.WriteFile(filepath.Join(policies, "files.cedar"), []byte(statements), 0o600); err != nil {
		t.Fatal(err)
	}
	b := s.create("acme", `{"templateID":"base","timeout":300}`)

	if got := b.output(`uname; echo "status $?"`); !strings.Contains(got, "status 126") {
		t.Errorf("what is not to be executed: %q", got)
	}
	s.recorded("acme", `"kind":"file.denied","action":"execute","resource":"/usr/bin/uname"`)

	// It ends, and what it left running goes on: it looks at the file when another command says so.
	began := b.output(`( while [ ! -e go ]; do sleep 0.05; done; cat /usr/bin/tac; echo "status $?" >saw; exec sleep 1000 ) >/dev/null 2>&1 & echo began`)
	if began != "began\n" {
		t.Fatalf("a command that leaves something running: %q", began)
	}
	const byCat = `"kind":"file.denied","action":"open","resource":"/usr/bin/tac".*refused it to \\"cat\\"`
	if record := s.of("acme", "audit", "export"); regexp.MustCompile(byCat).MatchString(record) {
		t.Fatalf("it was looked at already:\n%s", record)
	}
	if got := b.output(`touch go; for i in $(seq 300); do [ ! -s saw ] || break; sleep 0.1; done; cat saw`); got != "status 0\n" {
		t.Errorf("what was left running saw %q: it is covered by an empty file", got)
	}
	s.recorded("acme", byCat)
	if a := s.api("acme", "DELETE", "/sandboxes/"+b.id, ""); a.status != 204 {
		t.Errorf("delete: %d %s", a.status, a.body)
	}
}

// recorded waits until an event is on a tenant's record.
func (s *server) recorded(tenant, pattern string) {
	s.t.Helper()
	event := regexp.MustCompile(pattern)
	var record string
	for began := time.Now(); time.Since(began) < time.Minute; <-time.After(50 * time.Millisecond) {
		if record = s.of(tenant, "audit", "export"); event.MatchString(record) {
			return
		}
	}
	s.t.Errorf("%s is not on record:\n%s", pattern, record)
}
