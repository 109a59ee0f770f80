//go:build linux

package servetest

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStrangers has one tenant's key and token on all that is another's: every answer is
// the one for an ID that never was.
func TestStrangers(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme", "other")
	b := s.create("acme", `{"templateID":"base","timeout":120}`)
	mine := s.create("other", `{"templateID":"base","timeout":120}`)
	never := "i" + strings.Repeat("0", 19)
	for _, route := range []struct{ method, path, body string }{
		{"GET", "/sandboxes/ID", ""}, {"DELETE", "/sandboxes/ID", ""}, {"POST", "/sandboxes/ID/timeout", `{"timeout":5}`},
		{"POST", "/sandboxes/ID/refreshes", `{"duration":5}`}, {"POST", "/sandboxes/ID/pause", `{}`},
		{"POST", "/sandboxes/ID/resume", `{"timeout":5}`}, {"POST", "/sandboxes/ID/connect", `{"timeout":5}`},
		{"POST", "/v2/sandboxes/ID/connect", `{"timeout":5}`}, {"POST", "/sandboxes/ID/fork", `{}`},
		{"POST", "/sandboxes/ID/snapshots", `{}`}, {"GET", "/sandboxes/ID/metrics", ""},
		{"PUT", "/sandboxes/ID/network", `{"denyOut":["a b"]}`},
	} {
		theirs := s.api("other", route.method, strings.ReplaceAll(route.path, "ID", b.id), route.body)
		none := s.api("other", route.method, strings.ReplaceAll(route.path, "ID", never), route.body)
		if theirs.status != 404 || theirs.status != none.status || theirs.body != none.body {
			t.Errorf("%s %s: %d %q, for one that never was %d %q", route.method, route.path, theirs.status, theirs.body, none.status, none.body)
		}
	}
	snap := s.api("acme", "POST", "/sandboxes/"+b.id+"/snapshots", `{"name":"mine"}`).field(t, "snapshotID")
	for _, id := range []string{snap, "mine", "../acme/snapshots/" + snap} {
		if a := s.api("other", "POST", "/v2/sandboxes", `{"templateID":"`+id+`"}`); a.status != 404 {
			t.Errorf("a sandbox of another's snapshot %s: %d %s", id, a.status, a.body)
		}
		if a := s.api("other", "DELETE", "/templates/"+url.PathEscape(id), ""); a.status != 404 {
			t.Errorf("another's snapshot %s is removed: %d %s", id, a.status, a.body)
		}
	}
	if a := s.api("other", "GET", "/snapshots", ""); a.body != "[]" {
		t.Errorf("another's snapshots: %s", a.body)
	}
	if a := s.api("other", "GET", "/v2/sandboxes", ""); strings.Contains(a.body, b.id) {
		t.Errorf("the list of another tenant has it: %s", a.body)
	}
	for name, token := range map[string]string{"none": "", "another sandbox's": mine.token, "the key": s.keys["acme"]} {
		thief := sandbox{s, b.id, token}
		for what, a := range map[string]answer{
			"stat": thief.unary("filesystem.Filesystem/Stat", `{"path":"/"}`), "read": thief.read("/etc/passwd"),
			"write": thief.write("x", "x"), "run": thief.run("touch /home/user/x"),
		} {
			if a.status != 401 {
				t.Errorf("token %s: %s: %d %q", name, what, a.status, a.body)
			}
		}
	}
	if a := b.read("x"); a.status != 404 {
		t.Errorf("a stranger wrote it: %d %q", a.status, a.body)
	}
	// The positive control: the owner's own.
	if a := s.api("acme", "GET", "/sandboxes/"+b.id, ""); a.status != 200 {
		t.Errorf("the owner: %d %q", a.status, a.body)
	}
}

// TestKeys has keys that are removed, bounded or wrong.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	reader := strings.TrimSpace(s.do("serve", "key", "add", "acme", "--read-only"))
	with := func(key, method, path, body string) int {
		return s.call(method, path, map[string]string{"X-API-KEY": key}, body).status
	}
	if got := with(reader, "GET", "/v2/sandboxes", ""); got != 200 {
		t.Errorf("a key that may read lists: %d", got)
	}
	if got := with(reader, "POST", "/v2/sandboxes", `{"templateID":"base"}`); got != 403 {
		t.Errorf("a key that may read creates: %d", got)
	}
	b := s.create("acme", `{"templateID":"base","timeout":60}`)
	look := func(key string) answer {
		return s.call("GET", "/sandboxes/"+b.id, map[string]string{"X-API-KEY": key}, "")
	}
	if got := look(reader); got.status != 200 || strings.Contains(got.body, b.token) {
		t.Errorf("a key that may read is given the token that enters: %d %q", got.status, got.body)
	}
	if got := look(s.keys["acme"]); got.field(t, "envdAccessToken") != b.token {
		t.Errorf("a key that may all is not given it: %d %q", got.status, got.body)
	}
	for _, key := range []string{"", "e2b_" + strings.Repeat("0", 40), s.keys["acme"] + "x"} {
		for _, path := range []string{"/v2/sandboxes", "/nothing"} {
			if got := with(key, "GET", path, ""); got != 401 {
				t.Errorf("key %q: %s: %d", key, path, got)
			}
		}
	}
	for line := range strings.Lines(s.do("serve", "key", "list", "acme")) {
		if id := strings.Fields(line)[0]; id != "ID" {
			s.do("serve", "key", "remove", id)
		}
	}
	if got := with(s.keys["acme"], "GET", "/v2/sandboxes", ""); got != 401 {
		t.Errorf("a key that was removed: %d", got)
	}
}

// TestPaths has links and names that lead to the host's files, and signatures of others.
func TestPaths(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	b := s.create("acme", `{"templateID":"base","timeout":120}`)
	secret := filepath.Join(s.dir, "home", "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.output("ln -s " + secret + " link; ln -s / all; ln -s /proc/1/root up; mkfifo fifo; ln -s fifo pipe")
	for _, path := range []string{
		"link", "all" + secret, "up" + secret, secret, "../../.." + secret, "/proc/self/root" + secret, "/home/user/../.." + secret,
		"/proc/1/environ", "/proc/self/mem", "fifo", "pipe", "/dev/stdin", "/" + strings.Repeat("a", 5000), "a%00b", ".", "/",
	} {
		if a := b.read(path); a.status < 400 || strings.Contains(a.body, "of the host") {
			t.Errorf("read %.80s: %d %.200q", path, a.status, a.body)
		}
	}
	// These are places of the sandbox's own, where the same path means another file.
	for _, path := range []string{secret, "all" + secret} {
		b.write(path, "from inside")
	}
	for _, path := range []string{"/etc/passwd", "/usr/bin/x", "/proc/1/mem", "fifo", "/", "all/etc/x"} {
		if a := b.write(path, "from inside"); a.status < 400 {
			t.Errorf("write %s: %d %q", path, a.status, a.body)
		}
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "of the host" {
		t.Errorf("the host's file: %q, %v", text, err)
	}
	b.write("open", "to read")
	now := time.Now().Unix()
	for name, tt := range map[string]struct {
		path, signed, operation string
		until, given            int64
		status                  int
	}{
		"as signed":             {"open", "open", "read", now + 60, now + 60, 200},
		"another path":          {"link", "open", "read", now + 60, now + 60, 401},
		"the same path, longer": {"./open", "open", "read", now + 60, now + 60, 401},
		"for writing":           {"open", "open", "write", now + 60, now + 60, 401},
		"expired":               {"open", "open", "read", now - 1, now - 1, 401},
		"a later end":           {"open", "open", "read", now - 1, now + 60, 401},
	} {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s:%s:%s:%s:%d", tt.signed, tt.operation, "", b.token, tt.until))
		q := url.Values{"path": {tt.path}, "signature": {"v1_" + base64.RawStdEncoding.EncodeToString(sum[:])}, "signature_expiration": {fmt.Sprint(tt.given)}}
		a := s.call("GET", "/files?"+q.Encode(), map[string]string{"E2b-Sandbox-Id": b.id}, "")
		if a.status != tt.status {
			t.Errorf("signature %s: %d %q, want %d", name, a.status, a.body, tt.status)
		}
	}
}

// TestPayloadAgainstHelpers has the payload end and replace what serves its files.
func TestPayloadAgainstHelpers(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	b := s.create("acme", `{"templateID":"base","timeout":120}`)
	b.write("f", "mine")
	for range 3 {
		// The one that holds the sandbox is spared; its end is the sandbox's.
		b.output(`for p in $(pgrep -f 'inside files'); do [ "$p" = $$ ] || kill -9 $p; done; true`)
		if a := b.read("f"); a.status != 200 || a.body != "mine" {
			t.Errorf("after they were killed: %d %q", a.status, a.body)
		}
	}
	program := strings.TrimSpace(b.output(`tr '\0' '\n' < /proc/$(pgrep -f 'inside hold' | head -1)/cmdline | head -1`))
	if !strings.HasSuffix(program, "cloister") {
		t.Fatalf("the program is %q", program)
	}
	if a := b.write(program, "#!/bin/sh\necho lies"); a.status < 400 {
		t.Errorf("the program was replaced: %d", a.status)
	}
	b.output("! mv " + program + " away && ! rm " + program + " && ! ln -sf x " + program + " || exit 9")
	if got := b.output(`cat /proc/$(pgrep -f 'inside files' | head -1)/mem 2>&1 | head -c 20; true`); strings.Contains(got, "ELF") {
		t.Errorf("the helper's memory can be read: %q", got)
	}
	if got := b.output(`kill -9 $(pgrep -o -f 'inside hold') 2>&1; true`); !strings.Contains(got, "not permitted") {
		t.Errorf("what holds the sandbox was sent a signal: %q", got)
	}
}

// TestSessionEnds has a session end under its sandbox, as a crash would end it.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	b := s.create("acme", `{"templateID":"base","timeout":120}`)
	if a := b.unary("process.Process/List", "{}"); a.status != 200 {
		t.Fatalf("list: %d %s", a.status, a.body)
	}
	s.do("serve", "tenant", "stop", "acme")
	for began := time.Now(); ; <-time.After(50 * time.Millisecond) {
		a, in := s.api("acme", "GET", "/sandboxes/"+b.id, ""), b.unary("process.Process/List", "{}")
		if a.status == 404 && in.status == 502 {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("a sandbox that ended is still shown: %d %s, %d %s", a.status, a.body, in.status, in.body)
		}
	}
	if a := s.create("acme", `{"templateID":"base","timeout":120}`).read("/etc/passwd"); a.status != 200 {
		t.Errorf("the next sandbox: %d %s", a.status, a.body)
	}
}

// TestBodies sends what is too large, too long or no answer to anything.
func TestBodies(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	b := s.create("acme", `{"templateID":"base","timeout":120}`)
	for name, tt := range map[string]struct {
		a      answer
		status int
	}{
		"a body of 2 MiB":      {s.api("acme", "POST", "/v2/sandboxes", strings.Repeat(" ", 2<<20)), 413},
		"no JSON":              {s.api("acme", "POST", "/v2/sandboxes", "{"), 400},
		"a negative timeout":   {s.api("acme", "POST", "/v2/sandboxes", `{"timeout":-1}`), 400},
		"an endless timeout":   {s.api("acme", "POST", "/v2/sandboxes", `{"timeout":9223372036854775807}`), 400},
		"a timeout over limit": {s.api("acme", "POST", "/v2/sandboxes", `{"timeout":999999}`), 400},
		"a policy's statement": {s.api("acme", "POST", "/v2/sandboxes", `{"network":{"denyOut":["*"],"allowOut":["a\"} ; permit"]}}`), 400},
		"a mask of two lines":  {s.api("acme", "POST", "/v2/sandboxes", `{"network":{"maskRequestHost":"a\r\nX: b"}}`), 400},
		"a proxy":              {s.api("acme", "POST", "/v2/sandboxes", `{"network":{"egressProxy":{"address":"x:1"}}}`), 400},
		"a variable with =":    {s.api("acme", "POST", "/v2/sandboxes", `{"envVars":{"A=B":"c"}}`), 400},
		"no process":           {b.unary("process.Process/SendSignal", `{"process":{"pid":1},"signal":"SIGNAL_SIGKILL"}`), 404},
		"the server's process": {b.unary("process.Process/SendSignal", fmt.Sprintf(`{"process":{"pid":%d},"signal":9}`, os.Getpid())), 404},
		"no signal":            {b.unary("process.Process/SendSignal", `{"process":{"pid":1},"signal":"SIGNAL_SIGSTOP"}`), 400},
		"the orchestrator's":   {b.s.call("POST", "/init", b.header("application/json"), `{"accessToken":"x"}`), 404},
		"a form of nothing":    {b.s.call("POST", "/files", b.header("multipart/form-data"), "x"), 400},
		"metadata of 8 KiB":    {b.s.call("POST", "/files?path=x", with(b.header("application/octet-stream"), "X-Metadata-A", strings.Repeat("a", 8000)), "x"), 400},
		"a user of the host":   {b.s.call("GET", "/files?path=x&username=daemon", b.header(""), ""), 401},
	} {
		if tt.a.status != tt.status {
			t.Errorf("%s: %d %.300q, want %d", name, tt.a.status, tt.a.body, tt.status)
		}
	}
	if got := b.output("echo well"); got != "well\n" {
		t.Errorf("afterwards: %q", got)
	}
}

func with(h map[string]string, name, value string) map[string]string {
	h[name] = value
	return h
}

// TestSecondServer: two servers would each end what the other one makes.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	out, err := s.command("serve", "--e2b", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another cloister serve answers") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServerKilled: what a server had half made is ended by the next one.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	kept := s.create("acme", `{"templateID":"base","timeout":120}`)
	done := make(chan answer)
	go func() { done <- s.api("acme", "POST", "/v2/sandboxes", `{"templateID":"base","timeout":120}`) }()
	records := filepath.Join(s.dir, "d", "cloister", "serve", "t", "acme", "sandboxes", "*", "record.json")
	for began := time.Now(); ; {
		if list, _ := filepath.Glob(records); len(list) > 1 {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("no second sandbox is made")
		}
		<-time.After(time.Millisecond)
	}
	s.kill()
	<-done
	s.start()
	if list, _ := filepath.Glob(records); len(list) != 1 || !strings.Contains(list[0], kept.id) {
		t.Errorf("after a server was killed: %q", list)
	}
	if got := kept.output("echo alive"); got != "alive\n" {
		t.Errorf("the sandbox that was made: %q", got)
	}
}

// TestNetwork has requests that allow what the tenant's policy does not: they open nothing.
func TestNetwork(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	file := filepath.Join(s.dir, "d/cloister/serve/t/acme/config/cloister/config.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "  allow:\n    - domain: a.example\n    - domain: b.example\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{}`:                                 "a b", // the positive control
		`{"allowOut":["c.example","*"]}`:     "a b",
		`{"denyOut":["b.example"]}`:          "a",
		`{"denyOut":["*"],"allowOut":["*"]}`: "a b",
		`{"denyOut":["0.0.0.0/0"]}`:          "",
		`{"denyOut":["0.0.0.0/0"],"allowOut":["b.example","c.example"]}`: "b",
	} {
		b := s.create("acme", `{"templateID":"base","timeout":120,"network":`+body+`}`)
		got := strings.Join(strings.Fields(b.output("for n in a b c; do timeout 20 getent hosts $n.example >/dev/null && echo $n; done; true")), " ")
		if got != want {
			t.Errorf("%s: %q is open, want %q", body, got, want)
		}
		s.api("acme", "DELETE", "/sandboxes/"+b.id, "")
	}
}

// TestCutOff has a client that asks for sandboxes and does not wait: each session that runs
// is one that the tenant can list, end, and is counted for.
func TestCutOff(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	s.create("acme", `{"templateID":"base","timeout":120}`)
	body := `{"templateID":"base","timeout":120}`
	request := fmt.Sprintf("POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-KEY: %s\r\nContent-Length: %d\r\n\r\n%s", s.keys["acme"], len(body), body)
	for i := range 10 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Duration(i) * 7 * time.Millisecond))
		_, _ = io.ReadFull(c, make([]byte, 1)) // the deadline, or an answer that nobody reads
		c.Close()
	}
	s.until("the end of what was begun", func() bool {
		listed, running := strings.Count(s.api("acme", "GET", "/v2/sandboxes", "").body, `"sandboxID"`), strings.Count(s.of("acme", "list"), "running")
		return listed == running && listed == len(s.ids("acme")) && listed > 1
	})
}

// TestManySnapshots: many requests at once stay within the limit, and an error of the
// server's own names none of its folders.
func TestManySnapshots(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	register := filepath.Join(s.dir, "d", "cloister", "serve", "tenants.json")
	text, err := os.ReadFile(register)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `"snapshots": 100`, `"snapshots": 2`, 1))
	if err := os.WriteFile(register, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b := s.create("acme", `{"templateID":"base","timeout":120}`)
	answers := make(chan answer, 6)
	for range cap(answers) {
		go func() { answers <- s.api("acme", "POST", "/sandboxes/"+b.id+"/snapshots", "{}") }()
	}
	made, id := 0, ""
	for range cap(answers) {
		if a := <-answers; a.status == 201 {
			made++
			id = a.field(t, "snapshotID")
		} else if a.status != 429 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if made != 2 {
		t.Errorf("%d snapshots were made, the limit is 2", made)
	}
	if err := os.Remove(filepath.Join(s.dir, "d", "cloister", "serve", "t", "acme", "snapshots", id, "files.tar")); err != nil {
		t.Fatal(err)
	}
	a := s.api("acme", "POST", "/v2/sandboxes", fmt.Sprintf(`{"templateID":%q}`, id))
	if a.status != 500 || strings.Contains(a.body, s.dir) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
