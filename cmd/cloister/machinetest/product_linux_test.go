package machinetest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
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
		{"decisions", decisions}, {"approvals", approvals}, {"terminal", terminal}, {"overlay", overlay}, {"two at once", twoAtOnce},
		{"guardian killed", guardianKilled},
	} {
		t.Run(c.name, func(t *testing.T) { c.look(t, w, plain) })
	}
	t.Run("secrets", func(t *testing.T) { secrets(t, w, secure) })
	w.must("stop", "m")
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

// lookWithin bounds the wait for one thing that a running command does.
const lookWithin = 3 * time.Minute

// terminal: a command of exec has a terminal of the guest's with the size of the person's, at
// once and later.
func terminal(t *testing.T, w *world, _ *asked) {
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	c := w.command(ctx, "exec", "m", "--", "sh", "-c", "trap 'stty size' WINCH; stty size; tty; while ! read line; do :; done; echo got $line; exit 6")
	master, err := pty.StartWithSize(c, &pty.Winsize{Rows: 31, Cols: 97})
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	var text string // what came and was not looked for yet: two lines may come at once
	buf := make([]byte, 1024)
	until := func(want string) {
		t.Helper()
		if err := master.SetReadDeadline(time.Now().Add(lookWithin)); err != nil {
			t.Fatal(err)
		}
		for !strings.Contains(text, want) {
			n, err := master.Read(buf)
			text += string(buf[:n])
			if err != nil {
				t.Fatalf("%q, %v: want %q", text, err, want)
			}
		}
		_, text, _ = strings.Cut(text, want)
	}
	until("31 97")
	until("/dev/pts/")
	if err := pty.Setsize(master, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	until("40 120")
	if _, err := io.WriteString(master, "over\n"); err != nil {
		t.Fatal(err)
	}
	until("got over")
	if err := c.Wait(); c.ProcessState.ExitCode() != 6 {
		t.Errorf("status %v", err)
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
	if out, _ := w.sh("m", "{ echo x >>.envrc; } && echo written; cat .envrc"); !strings.Contains(out, "mine") {
		t.Errorf("%q", out)
	}
	if text, err := os.ReadFile(filepath.Join(w.project, ".envrc")); err != nil || string(text) != "mine\n" {
		t.Errorf("a protected file of the project is %q, %v", text, err)
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
	const script = `sh -c 'until [ -e ~/go ]; do sleep 0.2; done; curl -sS -m 30 http://far.example/unguarded >~/said 2>&1; echo status $? >>~/said'`
	if out, status := w.sh("m", script+" </dev/null >/dev/null 2>&1 & touch ~/there"); status != 0 {
		t.Fatal(out)
	}
	// The home inside is a folder of the person's data, so that it can be seen without a guardian.
	there := w.find("there")
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is gone", func() bool { return unix.Kill(pid, 0) != nil })
	if err := os.WriteFile(filepath.Join(filepath.Dir(there), "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	said := filepath.Join(filepath.Dir(there), "said")
	w.eventually("the command has ended", func() bool {
		text, _ := os.ReadFile(said)
		return strings.Contains(string(text), "status ")
	})
	if text, err := os.ReadFile(said); err != nil || strings.Contains(string(text), "status 0") || strings.Contains(plain.heard(), "/unguarded") {
		t.Errorf("without a guardian: %q, %v; the server was asked: %s", text, err, plain.heard())
	}
	w.eventually("the next guardian serves it", func() bool {
		out, status := w.sh("m", "curl -sS -m 60 --fail-with-body http://far.example/again")
		return status == 0 && out == "hello\n"
	})
}

// find is a file of that name in the person's data.
func (w *world) find(name string) (found string) {
	w.t.Helper()
	err := filepath.WalkDir(filepath.Join(w.dir, "data"), func(at string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == name {
			found = at
		}
		return nil // what is gone meanwhile is not it
	})
	if err != nil || found == "" {
		w.t.Fatalf("there is no %s in the person's data: %v", name, err)
	}
	return found
}
