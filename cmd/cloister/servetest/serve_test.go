//go:build linux

package servetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	if a := b.unary("filesystem.Filesystem/Stat", `{"path":"/"}`); a.status != 502 {
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
	for _, memory := range []string{"true", "false"} {
		if a := s.api("acme", "POST", "/sandboxes/"+b.id+"/pause", `{"memory":`+memory+`}`); a.status != 204 {
			t.Fatalf("pause: %d %s", a.status, a.body)
		}
		if a := s.api("acme", "POST", "/sandboxes/"+b.id+"/pause", ""); a.status != 409 {
			t.Errorf("pause twice: %d %s", a.status, a.body)
		}
		if a := b.read("file"); a.status != 502 {
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
	}
}

// TestSDK runs E2B's own SDK, as npm gives it.
func TestSDK(t *testing.T) {
	sdk := os.Getenv("CLOISTER_E2B_SDK")
	if sdk == "" {
		t.Skip("CLOISTER_E2B_SDK names no folder with the SDK: npm install e2b")
	}
	s := newServer(t, "acme")
	script, err := os.ReadFile("testdata/sdk.mjs")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(sdk, fmt.Sprintf("cloister-%d.mjs", os.Getpid()))
	if err := os.WriteFile(file, script, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	cmd := exec.CommandContext(t.Context(), "node", file)
	cmd.Env = append(os.Environ(), "E2B_API_URL="+s.url, "E2B_SANDBOX_URL="+s.url, "E2B_API_KEY="+s.keys["acme"])
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "all well\n") {
		t.Errorf("%v: %s", err, out)
	}
}
