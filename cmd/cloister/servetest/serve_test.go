//go:build linux

package servetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/internal/needs"
)

// TestServe goes through what a client does first, with a server that is started anew in
// the middle.
func TestServe(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	b := s.create("acme", `{"templateID":"base","timeout":120,"metadata":{"a":"b c"},"envVars":{"WORD":"x y"}}`)
	if got := b.output(`echo "$WORD"; id -un; pwd`); got != "x y\nuser\n/home/user\n" {
		t.Errorf("inside: %q", got)
	}
	if a := b.write("dir/file.txt", "content"); a.status != 200 || !strings.Contains(a.body, `"/home/user/dir/file.txt"`) {
		t.Errorf("write: %d %s", a.status, a.body)
	}
	if got := b.output("cat dir/file.txt"); got != "content" {
		t.Errorf("what was uploaded is inside: %q", got)
	}
	b.output("sleep 600 >/dev/null 2>&1 &")
	s.stop()
	s.start()
	if a := b.read("dir/file.txt"); a.status != 200 || a.body != "content" {
		t.Errorf("after a new start: %d %s", a.status, a.body)
	}
	if got := b.output("pgrep -c sleep"); got != "1\n" {
		t.Errorf("what ran in the sandbox lives on: %q", got)
	}
	if a := s.api("acme", "GET", "/v2/sandboxes?metadata=a%3Db%2520c", ""); !strings.Contains(a.body, b.id) {
		t.Errorf("list by metadata: %d %s", a.status, a.body)
	}
	if a := s.api("acme", "DELETE", "/sandboxes/"+b.id, ""); a.status != 204 {
		t.Errorf("kill: %d %s", a.status, a.body)
	}
	if a := b.unary("filesystem.Filesystem/Stat", `{"path":"/"}`); a.status != 502 || !strings.Contains(a.body, "The sandbox was not found") {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "d/cloister/serve/t/acme/*/*"))
	homes, herr := filepath.Glob(filepath.Join(s.dir, "d/cloister/serve/t/acme/data/cloister/homes/*"))
	for _, name := range append(left, homes...) {
		if strings.Contains(name, "/sandboxes/") || strings.Contains(name, "/homes/") {
			t.Errorf("left behind: %s", name)
		}
	}
	if err != nil || herr != nil {
		t.Error(err, herr)
	}
}

// TestPause holds a sandbox still, with and without its processes.
func TestPause(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	b := s.create("acme", `{"templateID":"base","timeout":120}`)
	b.output("echo kept > file; sleep 600 >/dev/null 2>&1 &")
	const bootID = "cat /proc/sys/kernel/random/boot_id"
	host, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	boot := b.output(bootID)
	if boot == string(host) || len(boot) != len(host) {
		t.Errorf("the boot ID inside is %q, the host's is %q", boot, host)
	}
	for _, memory := range []string{"true", "false"} {
		if a := s.api("acme", "POST", "/sandboxes/"+b.id+"/pause", `{"memory":`+memory+`}`); a.status != 204 {
			t.Fatalf("pause: %d %s", a.status, a.body)
		}
		if a := s.api("acme", "POST", "/sandboxes/"+b.id+"/pause", ""); a.status != 409 {
			t.Errorf("pause twice: %d %s", a.status, a.body)
		}
		if a := b.read("file"); a.status != 502 || !strings.Contains(a.body, "The sandbox is not running") {
			t.Errorf("read while it is paused: %d %s", a.status, a.body)
		}
		if a := s.api("acme", "POST", "/v2/sandboxes/"+b.id+"/connect", `{"timeout":120}`); a.status != 201 {
			t.Fatalf("resume: %d %s", a.status, a.body)
		}
		if a := b.read("file"); a.body != "kept\n" {
			t.Errorf("after the pause: %d %q", a.status, a.body)
		}
		if got := b.output("pgrep -x sleep >/dev/null && echo lives || echo gone"); memory == "true" && got != "lives\n" ||
			memory == "false" && got != "gone\n" {
			t.Errorf("memory %s: the process %s", memory, got)
		}
		if now := b.output(bootID); (now == boot) != (memory == "true") {
			t.Errorf("memory %s: the boot ID was %q and is %q", memory, boot, now)
		}
	}
}

// TestSnapshot makes sandboxes of another's files, hostile ones among them.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	b := s.create("acme", `{"templateID":"base","timeout":120,"envVars":{"WORD":"x"},"allow_internet_access":false}`)
	b.output("mkdir -p a/b; echo kept > a/b/f; chmod 755 a/b/f; ln -s /etc/passwd link; ln -s ../../x up; mkfifo pipe; " +
		"mkdir shut; echo y > shut/y; chmod 555 shut; head -c 3000000 /dev/zero > big; ln a/b/f twin")
	snap := s.api("acme", "POST", "/sandboxes/"+b.id+"/snapshots", `{"name":"s1"}`)
	if snap.status != 201 {
		t.Fatalf("snapshot: %d %s", snap.status, snap.body)
	}
	b.output("echo changed > a/b/f")
	c := s.create("acme", `{"templateID":"s1","timeout":120}`)
	want := "kept\nx\n755\n/etc/passwd\n../../x\n555 y\n3000000\nkept\nno pipe\n"
	script := `cat a/b/f; echo $WORD; stat -c %a a/b/f; readlink link; readlink up; echo $(stat -c %a shut) $(cat shut/y); ` +
		`stat -c %s big; cat twin; [ -e pipe ] || echo no pipe`
	if got := c.output(script); got != want {
		t.Errorf("of the snapshot: %q, want %q", got, want)
	}
	// What the first sandbox's maker had taken away stays away.
	reach := "timeout 5 bash -c '</dev/tcp/198.51.100.7/80' 2>/dev/null && echo gate || echo none"
	if got := c.output(reach); got != "none\n" {
		t.Errorf("the copy's network: %q", got)
	}
	open := s.create("acme", `{"templateID":"base","timeout":120}`)
	if got := open.output(reach); got != "gate\n" {
		t.Errorf("a sandbox with a network: %q", got)
	}
	if a := s.api("acme", "GET", "/sandboxes/"+c.id, ""); !strings.Contains(a.body, `"allowInternetAccess":false`) {
		t.Errorf("the copy's network: %s", a.body)
	}
	forks := s.api("acme", "POST", "/sandboxes/"+b.id+"/fork", `{"count":2,"timeout":60}`)
	if forks.status != 201 || strings.Count(forks.body, `"sandboxID"`) != 2 || strings.Contains(forks.body, b.token) {
		t.Errorf("fork: %d %s", forks.status, forks.body)
	}
	if a := s.api("acme", "GET", "/sandboxes/"+b.id+"/metrics", ""); a.status != 200 || !strings.Contains(a.body, `"memUsed"`) {
		t.Errorf("metrics: %d %s", a.status, a.body)
	}
	if a := s.api("acme", "DELETE", "/templates/s1", ""); a.status != 204 {
		t.Errorf("remove: %d %s", a.status, a.body)
	}
	if a := s.api("acme", "GET", "/snapshots", ""); a.body != "[]" {
		t.Errorf("left: %s", a.body)
	}
	record := s.record("acme")
	for _, did := range []string{"tenant.sandbox snapshot snap", "tenant.sandbox begin with the snapshot snap",
		"tenant.template remove the snapshot snap"} {
		if !strings.Contains(record, did) {
			t.Errorf("%q is not on record:\n%s", did, record)
		}
	}
}

// TestPorts reaches a server inside by the sandbox's name.
func TestPorts(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme")
	b := s.create("acme", `{"templateID":"base","timeout":120,"network":{"allowPublicTraffic":false,"maskRequestHost":"masked.example:${PORT}"}}`)
	b.output(`perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8080", Listen => 5, ReuseAddr => 1);` +
		`while ($c = $l->accept) { while (<$c>) { last if /^\r?$/; $h .= $_ } print $c "HTTP/1.0 200 OK\r\n\r\n$h"; close $c }' >/dev/null 2>&1 & sleep 1`)
	info := s.api("acme", "POST", "/v2/sandboxes/"+b.id+"/connect", `{"timeout":120}`)
	header := map[string]string{"Host": "8080-" + b.id + ".sandboxes.example", "X-Access-Token": b.token}
	if a := s.call("GET", "/path", header, ""); a.status != 403 {
		t.Errorf("without the token: %d %s", a.status, a.body)
	}
	header["E2b-Traffic-Access-Token"] = info.field(t, "trafficAccessToken")
	a := s.call("GET", "/path", header, "")
	if a.status != 200 || !strings.Contains(a.body, "GET /path") || !strings.Contains(a.body, "Host: masked.example:8080\r") {
		t.Errorf("with it: %d %s", a.status, a.body)
	}
	for _, secret := range []string{b.token, header["E2b-Traffic-Access-Token"]} {
		if strings.Contains(a.body, secret) {
			t.Errorf("the program inside got a token: %s", a.body)
		}
	}
	header["Host"] = "8081-" + b.id + ".sandboxes.example"
	if a := s.call("GET", "/", header, ""); a.status != 502 || !strings.Contains(a.body, "port is not open") {
		t.Errorf("a port that nothing listens on: %d %s", a.status, a.body)
	}
}

// sdk is a folder with E2B's SDK and the OpenAI Agents SDK as script/agents installs them,
// and with a program of testdata.
func sdk(t *testing.T, program string) string {
	t.Helper()
	node := needs.Program(t, "node", "node")
	said, err := exec.CommandContext(t.Context(), node, "-e", `const [a, b] = process.versions.node.split("."); console.log(a > 20 || a == 20 && b >= 18)`).Output()
	if err != nil || string(said) != "true\n" {
		t.Skipf("E2B's SDK needs node 20.18: %s %v", said, err)
	}
	prefix := os.Getenv("CLOISTER_AGENTS_PREFIX")
	if prefix == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		prefix = filepath.Join(cache, "cloister-agents")
	}
	modules := filepath.Join(prefix, "lib/openai-sdk/node_modules")
	if _, err := os.Stat(modules); err != nil {
		needs.Missing(t, "openai-sdk", err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", program))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, program), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSDK runs E2B's own SDK, and the OpenAI Agents SDK's provider for E2B, as npm gives them.
func TestSDK(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"sdk.mjs", "provider.mjs", "agent.mjs", "template.mjs"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			dir := sdk(t, program)
			s := newServer(t, "acme")
			_, digest, _ := strings.Cut(strings.TrimSpace(s.do("serve", "template", "add", "acme", "env", programs(t, s.dir, "image"))), " ")
			cmd := exec.CommandContext(t.Context(), "node", program)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "IMAGE=x@"+digest, "E2B_API_URL="+s.url, "E2B_SANDBOX_URL="+s.url, "E2B_API_KEY="+s.keys["acme"],
				"OPENAI_AGENTS_DISABLE_TRACING=1")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "all well\n") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestRecord: what is done to a tenant and in its sandboxes is in the tenant's record.
func TestRecord(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme", "other")
	b := s.create("acme", `{"templateID":"base","timeout":60}`)
	b.output("echo said-$((1+1))")
	b.write("a.txt", "text")
	b.unary("filesystem.Filesystem/MakeDir", `{"path":"made"}`)
	b.unary("filesystem.Filesystem/Move", `{"source":"a.txt","destination":"b.txt"}`)
	b.unary("filesystem.Filesystem/Remove", `{"path":"b.txt"}`)
	header := b.header("")
	header["E2b-Sandbox-Port"] = "4321"
	for range 2 {
		s.call("GET", "/", header, "")
	}
	got := s.record("acme")
	for _, want := range []string{
		"tenant.add change acme", "tenant.key_add change", "exec start /bin/bash -l -c 'echo said-$((1+1))' in " + b.id,
		"tenant.file write /home/user/a.txt in " + b.id, "tenant.file mkdir /home/user/made in " + b.id,
		"tenant.file move /home/user/a.txt -> /home/user/b.txt in " + b.id, "tenant.file remove /home/user/b.txt in " + b.id,
		"tenant.port dial 4321 in " + b.id,
	} {
		if n := strings.Count(got, want); n != 1 {
			t.Errorf("%d records %q, want one, in\n%s", n, want, got)
		}
	}
	if other := s.record("other"); strings.Contains(other, b.id) || !strings.Contains(other, "tenant.add change other") {
		t.Errorf("the record of another tenant:\n%s", other)
	}
}

// of runs cloister in a tenant's instance, and gives what it printed.
func (s *server) of(tenant string, words ...string) string { return s.given(tenant, "", words...) }

// given is of with an input.
func (s *server) given(tenant, input string, words ...string) string {
	s.t.Helper()
	cmd := s.tenant(tenant, words...)
	cmd.Stdin = strings.NewReader(input)
	text, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("cloister %s: %v", strings.Join(words, " "), err)
	}
	return string(text)
}

// tenant is cloister in a tenant's instance.
func (s *server) tenant(tenant string, words ...string) *exec.Cmd {
	dir := filepath.Join(s.dir, "d", "cloister", "serve", "t", tenant)
	cmd := s.command(words...)
	cmd.Env = append(slices.Clone(s.env), "XDG_CONFIG_HOME="+dir+"/config", "XDG_STATE_HOME="+dir+"/state", "XDG_DATA_HOME="+dir+"/data",
		"XDG_RUNTIME_DIR="+s.dir+"/run/cloister/s/"+tenant)
	return cmd
}

// record is a tenant's record, a line for each event.
func (s *server) record(tenant string) string {
	s.t.Helper()
	var out strings.Builder
	for line := range strings.Lines(s.of(tenant, "audit", "export")) {
		var e struct{ Kind, Action, Resource, Session string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		fmt.Fprintf(&out, "%s %s %s in %s\n", e.Kind, e.Action, e.Resource, e.Session)
	}
	return out.String()
}
