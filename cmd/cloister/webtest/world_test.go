//go:build linux

package webtest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloister/internal/needs"
)

// binary is the cloister whose window is looked at.
var binary string

// patience is how long something may take on a machine under load.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	code := needs.Cloister(m, &binary)
	closeBrowser()
	os.Exit(code)
}

// A world is an instance of its own, with a project and a server that cloisters
// reach as up.example, ask.example and whatever a test adds.
type world struct {
	t       *testing.T
	dir     string
	project string
	env     []string

	mu     sync.Mutex
	served map[string]int // requests that reached the server, by the name they were for
}

// reached is how many requests for a name reached the server.
func (w *world) reached(host string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.served[host]
}

const configuration = `version: 1
proxy:
  unlisted_domain_behavior: ask
  approval_timeout: 50s
  presets: []
  hosts: {up.example: %[1]q, ask.example: %[1]q, one.ask.example: %[1]q, two.ask.example: %[1]q}
  allow:
    - domain: up.example   # the server of the test
  deny:
    - domain: no.example
hostexec:
  auto_approve: [{pattern: "^seq [0-9]+$"}, {pattern: "^tail -f Makefile$"}]
`

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "wi")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { // what runs inside is another user where root tests
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, project: filepath.Join(dir, "home", "project"), served: map[string]int{}}
	for _, d := range []string{"home/project", "run", "c/cloister/policy", "s", "d", "t"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.write("home/project/Makefile", "all:\n\techo built\n")
	w.write("home/project/.envrc", "export A=1\nexport B=2\n")
	w.git("init", "-q", "-b", "main")
	w.git("add", ".")
	w.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "first")
	up := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.served[r.Host]++
		w.mu.Unlock()
		fmt.Fprintln(rw, "hello from", r.Host)
	}))
	t.Cleanup(up.Close)
	w.write("c/cloister/config.yaml", fmt.Sprintf(configuration, up.Listener.Addr().String()))
	w.env = []string{
		"HOME=" + dir + "/home", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TMPDIR=" + dir + "/t",
		"XDG_CONFIG_HOME=" + dir + "/c", "XDG_STATE_HOME=" + dir + "/s", "XDG_DATA_HOME=" + dir + "/d", "XDG_RUNTIME_DIR=" + dir + "/run",
	}
	t.Cleanup(func() {
		w.do("stop", "--all", "-t", "1s")
		w.do("guardian", "stop")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) git(words ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(context.Background(), "git", words...)
	cmd.Dir, cmd.Env = w.project, []string{"PATH=/usr/bin:/bin", "HOME=" + w.dir, "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git %v: %v: %s", words, err, out)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) command(words ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), binary, words...)
	cmd.Dir, cmd.Env = w.project, w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// do runs cloister, which must succeed, and gives what it printed.
func (w *world) do(words ...string) string {
	w.t.Helper()
	cmd := w.command(words...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		w.t.Errorf("cloister %s: %v: %s", strings.Join(words, " "), err, errs.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// begin starts cloister and gives back how to wait for its end.
func (w *world) begin(words ...string) (wait func() string) {
	w.t.Helper()
	cmd := w.command(words...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	w.t.Cleanup(func() {
		select {
		case <-done:
		default:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-done
		}
	})
	return func() string {
		w.t.Helper()
		select {
		case <-done:
		case <-time.After(patience):
			w.t.Fatalf("cloister %v does not end", words)
		}
		return out.String()
	}
}

// link is a fresh link to the window.
func (w *world) link() string { return w.do("guardian", "open") }

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Since(began) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-tick.C
	}
}
