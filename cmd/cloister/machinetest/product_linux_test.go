package machinetest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const canary = "ghp_CanaryGithubCanaryGithubCanaryGit12"

// TestProduct looks at one machine as its person does: one boot, and many looks.
func TestProduct(t *testing.T) {
	var plain, secure *asked
	w := newWorld(t, func(w *world) string {
		hello := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "hello\n") })
		plain, secure = w.serve(false, hello), w.serve(true, hello)
		return fmt.Sprintf(`version: 1
proxy:
  unlisted_domain_behavior: ask
  presets: []
  approval_timeout: 5m
  allow: [{domain: far.example}, {domain: api.example}]
  deny: [{domain: denied.example}]
  upstream_ca: [%q]
  hosts: {far.example: %q, asked.example: %[2]q, denied.example: %[2]q, api.example: %q}
secrets:
  - {name: TOKEN, hosts: [api.example]}
`, w.dir+"/authority.pem", plain.Listener.Addr().String(), secure.Listener.Addr().String())
	})
	w.write("value", canary+"\n")
	w.must("secret", "set", "TOKEN", "--file", w.dir+"/value")
	if err := os.Remove(w.dir + "/value"); err != nil {
		t.Fatal(err)
	}
	w.write("home/src/project/file", "one\n")
	w.write("home/src/project/.envrc", "mine\n")

	_, errs, status := w.try("run", "--isolation", "microvm", "--", "true")
	if status != 125 || !strings.Contains(errs, "emulated") || !strings.Contains(errs, "residue:microvm-emulated") {
		t.Errorf("without a person's word: %d, %s", status, errs)
	}
	began := time.Now()
	w.must("run", "-d", "--name", "m", "--isolation", "microvm", "--accept", "residue:microvm-emulated", "--workspace", "overlay",
		"--memory", "700MiB", "--", "sh", "-c", "while :; do sleep 1; done")
	if _, status := w.sh("m", "true"); status != 0 {
		t.Fatalf("nothing runs in the machine: %d", status)
	}
	t.Logf("from the word to the first command's end: %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	for _, c := range []struct {
		name string
		look func(*testing.T, *world, *asked)
	}{
		{"decisions", decisions}, {"approvals", approvals}, {"terminal", terminal}, {"shell", shell}, {"script", underScript}, {"overlay", overlay}, {"two at once", twoAtOnce},
		{"guardian killed", guardianKilled},
	} {
		t.Run(c.name, func(t *testing.T) { c.look(t, w, plain) })
	}
	t.Run("secrets", func(t *testing.T) { secrets(t, w, secure) })
	w.must("stop", "m")
	t.Run("discard", func(t *testing.T) { discard(t, w) })
	t.Logf("the looks: %v", time.Since(began).Round(time.Millisecond))
}

func decisions(t *testing.T, w *world, plain *asked) {
	if out, status := w.sh("m", "curl -sS --fail-with-body http://far.example/yes"); status != 0 || out != "hello\n" {
		t.Errorf("what is allowed: %d, %q", status, out)
	}
	if out, status := w.sh("m", "curl -sS --fail-with-body http://denied.example/no"); status == 0 || !strings.Contains(out, "denied.example") {
		t.Errorf("what is denied: %d, %q", status, out)
	}
	if out, status := w.sh("m", "curl -sS -m 20 http://198.51.100.7/ip"); status == 0 && strings.Contains(out, "hello") {
		t.Errorf("an address: %q", out)
	}
	if heard := plain.heard(); !strings.Contains(heard, "/yes") || strings.Contains(heard, "/no") || strings.Contains(heard, "/ip") {
		t.Errorf("the server was asked: %s", heard)
	}
	for verdict, name := range map[string]string{"allow": "far.example", "deny": "denied.example"} {
		if !w.audited(`"kind":"net.`, name, `"verdict":"`+verdict+`"`) {
			t.Errorf("the record has no %s of %s", verdict, name)
		}
	}
}

func approvals(t *testing.T, w *world, plain *asked) {
	ctx, stop := context.WithCancel(context.Background())
	watch := w.command(ctx, "approvals", "watch", "--json")
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = watch.Wait() // it was ended
	}()
	w.eventually("somebody watches", func() bool {
		out, _, _ := w.try("guardian", "status", "--json")
		return !strings.Contains(out, `"watchers": 0`)
	})
	answer := make(chan string, 1)
	go func() {
		out, status := w.sh("m", "curl -sS -m 300 --fail-with-body http://asked.example/held")
		answer <- fmt.Sprint(status, " ", out)
	}()
	var id string
	w.eventually("it is asked", func() bool {
		out, _, _ := w.try("approvals", "list")
		for line := range strings.Lines(out) {
			if strings.Contains(line, "asked.example") {
				id, _, _ = strings.Cut(line, " ")
			}
		}
		return id != ""
	})
	if strings.Contains(plain.heard(), "/held") {
		t.Error("it went on before the answer")
	}
	w.must("approvals", "approve", id)
	if got := <-answer; got != "0 hello\n" {
		t.Errorf("after the answer: %q", got)
	}
}

func secrets(t *testing.T, w *world, secure *asked) {
	out, status := w.sh("m", `echo "$TOKEN"; curl -sS --fail-with-body -H "Authorization: Bearer $TOKEN" https://api.example/with`)
	if status != 0 || !strings.HasPrefix(out, "ghp_") || !strings.Contains(out, "hello") || strings.Contains(out, canary) {
		t.Errorf("%d, %q", status, out)
	}
	if !strings.Contains(secure.heard(), "api.example/with Bearer "+canary) {
		t.Errorf("the server was asked: %s", secure.heard())
	}
	if out, status := w.sh("m", "grep -rs "+canary+" /proc/self/environ /etc /tmp ~ ; true"); strings.Contains(out, canary) || status != 0 {
		t.Errorf("the value is inside: %q", out)
	}
}

func overlay(t *testing.T, w *world, _ *asked) {
	if out, status := w.sh("m", "echo two >>file && mkdir new && echo new >new/one && cat file"); status != 0 || out != "one\ntwo\n" {
		t.Errorf("%d, %q", status, out)
	}
	if text, err := os.ReadFile(filepath.Join(w.project, "file")); err != nil || string(text) != "one\n" {
		t.Errorf("in the project: %q, %v", text, err)
	}
	diff := w.must("diff", "m", "--name-only")
	if !strings.Contains(diff, "file") || !strings.Contains(diff, "new/one") {
		t.Errorf("diff: %q", diff)
	}
	w.must("checkpoint", "m", "-m", "while it runs")
	if out := w.must("checkpoints", "m"); !strings.Contains(out, "while it runs") {
		t.Errorf("checkpoints: %q", out)
	}
	w.must("apply", "m", "file")
	if text, err := os.ReadFile(filepath.Join(w.project, "file")); err != nil || string(text) != "one\ntwo\n" {
		t.Errorf("applied: %q, %v", text, err)
	}
	w.must("undo", "m")
	if text, err := os.ReadFile(filepath.Join(w.project, "file")); err != nil || string(text) != "one\n" {
		t.Errorf("taken back: %q, %v", text, err)
	}
	if out, status := w.sh("m", "cat file"); status != 0 || out != "one\ntwo\n" {
		t.Errorf("inside after that: %d, %q", status, out)
	}
	if out, _ := w.sh("m", "{ echo x >>.envrc; } && echo written; cat .envrc"); !strings.Contains(out, "mine") {
		t.Errorf("%q", out)
	}
	if text, err := os.ReadFile(filepath.Join(w.project, ".envrc")); err != nil || string(text) != "mine\n" {
		t.Errorf("a protected file of the project is %q, %v", text, err)
	}
}

// discard gives up what an ended machine left, and nothing of the project.
func discard(t *testing.T, w *world) {
	if out := w.must("diff", "m", "--name-only"); !strings.Contains(out, "new/one") {
		t.Errorf("after the end: %q", out)
	}
	w.must("discard", "m")
	if out, errs, status := w.try("diff", "m", "--name-only"); strings.Contains(out, "file") || strings.Contains(out, "new/one") {
		t.Errorf("after it was given up: %d, %q, %s", status, out, errs)
	}
	for name, want := range map[string]string{"file": "one\n", ".envrc": "mine\n"} {
		if text, err := os.ReadFile(filepath.Join(w.project, name)); err != nil || string(text) != want {
			t.Errorf("%s of the project is %q, %v", name, text, err)
		}
	}
}

// twoAtOnce: a second machine has files, processes and an end of its own.
func twoAtOnce(t *testing.T, w *world, _ *asked) {
	other := filepath.Join(w.dir, "home/src/other")
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	w.must("run", "-d", "--name", "n", "-C", other, "--isolation", "microvm", "--accept", "residue:microvm-emulated", "--memory", "500MiB",
		"--cpus", "1", "--", "sh", "-c", "touch /tmp/second; while :; do sleep 1; done")
	boot := "cat /proc/sys/kernel/random/boot_id; ls /tmp/second " + w.project + " " + other + "; hostname"
	first, _ := w.sh("m", boot)
	second, _ := w.sh("n", boot)
	a, _, _ := strings.Cut(first, "\n")
	b, _, _ := strings.Cut(second, "\n")
	if a == b || len(a) != 36 || len(b) != 36 {
		t.Errorf("the boots are %q and %q", a, b)
	}
	if strings.Contains(first, "/tmp/second\n") || !strings.Contains(second, "/tmp/second\n") || strings.Contains(second, "file\n") {
		t.Errorf("the first sees %q, the second %q", first, second)
	}
	w.must("stop", "n")
	if out, status := w.sh("m", "echo alive"); status != 0 || out != "alive\n" {
		t.Errorf("after the second's end: %d, %q", status, out)
	}
}

// guardianKilled: nothing leaves while there is no guardian; the next one goes on.
func guardianKilled(t *testing.T, w *world, plain *asked) {
	pid := 0
	for line := range strings.Lines(w.must("guardian", "status", "--json")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && name == `"pid"` {
			pid, _ = strconv.Atoi(strings.TrimSuffix(value, ","))
		}
	}
	if pid == 0 {
		t.Fatal("the guardian's number is not said")
	}
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	c := w.command(ctx, "exec", "m", "--", "sh", "-c",
		"echo there; read x; curl -sS -m 30 http://far.example/unguarded; echo status $?; echo still >>kept; cat kept")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := &spoken{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.eventually("the command runs", func() bool { return strings.Contains(out.text(), "there") })
	// The shim would have the next guardian at once.
	settings := filepath.Join(w.dir, "config/cloister/config.yaml")
	text, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	w.write("config/cloister/config.yaml", "version: nothing that a guardian starts with\n")
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is gone", func() bool { return unix.Kill(pid, 0) != nil })
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if said := out.text(); !strings.Contains(said, "status ") || strings.Contains(said, "status 0") || !strings.HasSuffix(said, "still\n") ||
		strings.Contains(plain.heard(), "/unguarded") {
		t.Errorf("without a guardian: %q; the server was asked: %s", said, plain.heard())
	}
	w.write("config/cloister/config.yaml", string(text))
	w.eventually("the next guardian serves it", func() bool {
		out, status := w.sh("m", "curl -sS -m 60 --fail-with-body http://far.example/again")
		return status == 0 && out == "hello\n"
	})
}

// spoken is what a command has written so far.
type spoken struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *spoken) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
