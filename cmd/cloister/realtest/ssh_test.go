package realtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cloister/audit"
)

// sshAgent is the person's, with one key.
func (w *world) sshAgent(key string) string {
	w.t.Helper()
	socket := filepath.Join(w.dir, "agent")
	c := exec.CommandContext(w.t.Context(), need(w.t, "ssh", "ssh-agent"), "-D", "-a", socket)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	})
	waitFor(w.t, "ssh-agent", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	w.env["SSH_AUTH_SOCK"] = socket
	w.host("ssh-add", "-q", key)
	return socket
}

// The real ssh and git, without a key and without a word of configuration, through a
// gate that knows the user, the repository and the command; the person's agent logs
// in, and never gets inside.
func TestReadSSH(t *testing.T) {
	w := newWorld(t)
	need(t, "ssh", "ssh")
	root := w.gitServer()
	w.host("git", "clone", "-q", "--bare", filepath.Join(root, "library.git"), filepath.Join(root, "secret.git"))
	etc, addr, me := w.sshd()
	socket := w.sshAgent(filepath.Join(etc, "client"))
	w.write(w.home, ".ssh/known_hosts", "git.example.com,[git.example.com]:2222 "+read(t, filepath.Join(etc, "host.pub")))
	w.net.forward("git.example.com", addr)
	w.rules = map[string][]string{"git.example.com": {
		fmt.Sprintf(`{domain: git.example.com, protocol: ssh, users: [%s], repositories: ["%s/library.git"], git: [fetch], identity: agent}`, me, root),
		fmt.Sprintf(`{domain: git.example.com, protocol: ssh, users: [%s], commands: ["echo *", "subsystem sftp"], identity: agent}`, me),
		fmt.Sprintf(`{domain: git.example.com, protocol: ssh, ports: [2222], users: [%s], identity: "%s/client"}`, me, etc),
	}}
	in := "export GIT_SSH_COMMAND='ssh -o BatchMode=yes'; at=" + me + "@git.example.com; root=" + root + "\n"
	w.script(in + `
git clone -q ssh://$at$root/library.git
cd library
test "$(git log --format=%s | tr '\n' ' ')" = "second first "
git fsck --strict
git fetch -q origin
git ls-remote $at:$root/library >/dev/null
test "$(ssh $at echo hello)" = hello
ssh -p 2222 $at 'cat >/dev/null; exit 3' </dev/null || test $? = 3
test "$(head -c 3000000 /dev/zero | ssh -p 2222 $at wc -c)" = 3000000
! ls $SSH_AUTH_SOCK 2>/dev/null | grep agent
! ls ` + socket + ` 2>/dev/null
`)
	if got, want := read(t, filepath.Join(w.project, "library/big.bin")), read(t, filepath.Join(w.dir, "seed/big.bin")); got != want {
		t.Error("big.bin differs")
	}
	for _, tt := range []struct {
		name, script string
		says         []string
	}{
		{"push", "cd library; git commit -q --allow-empty -m third; git push -q origin HEAD:mine", []string{"names this host, but not this user with this command", "git: [push]", `identity: "agent"`}},
		{"another repository", "git clone -q ssh://$at$root/secret.git", []string{`repositories: ["` + root + `/secret.git"], git: [fetch]`, "config.yaml:"}},
		{"another repository by a way round", "git clone -q ssh://$at$root/library.git/../secret.git other", []string{"cloister refused this"}},
		{"a login", "ssh -T $at </dev/null", []string{`commands: ["shell"]`}},
		{"another command", "ssh $at 'echo a; id'", []string{"cloister refused this"}},
		{"another user", "ssh -o BatchMode=yes nobody@git.example.com echo x", []string{`users: ["nobody"]`}},
		{"a forwarded port", "ssh -o BatchMode=yes -o ExitOnForwardFailure=yes -W 127.0.0.1:22 $at", []string{"only sessions are read here"}},
	} {
		res := w.run("sh", "-euc", in+tt.script)
		if res.status == 0 {
			t.Errorf("%s: went well: %s", tt.name, res.stdout)
		}
		for _, want := range tt.says {
			if !strings.Contains(res.stderr, want) {
				t.Errorf("%s: no %q in %s", tt.name, want, res.stderr)
			}
		}
	}
	if out := w.host("git", "-C", filepath.Join(root, "library.git"), "branch", "--list", "mine"); out != "" {
		t.Errorf("the server has %q", out)
	}
	denied := 0
	for _, e := range w.events() {
		if e.Kind == audit.NetConnect && e.Action == "run" && e.Verdict == "deny" && strings.Contains(e.Reason, "git-receive-pack") {
			denied++
		}
	}
	if denied != 1 {
		t.Errorf("the record:\n%s", w.journal())
	}

	// Each signature is in the record, with its key.
	fingerprint := strings.Fields(w.host("ssh-keygen", "-lf", filepath.Join(etc, "client.pub")))[1]
	signed := 0
	for _, e := range w.events() {
		if e.Kind == audit.SecretUse && e.Action == "sign" && e.Verdict == "allow" && e.Host == "git.example.com" && strings.Contains(e.Reason, "as "+me+" with the key "+fingerprint) {
			signed++
		}
	}
	if signed < 6 {
		t.Errorf("%d signatures in the record:\n%s", signed, w.journal())
	}
	// And a person is asked before it, where the rule says so: with nobody there it is refused.
	rules := w.rules["git.example.com"]
	w.rules["git.example.com"] = []string{fmt.Sprintf(`{domain: git.example.com, protocol: ssh, users: [%s], commands: [date], identity: agent, use: ask}`, me)}
	w.reload()
	if res := w.run("sh", "-euc", in+"ssh $at date"); res.status != 126 || !strings.Contains(res.stderr, "nobody allowed the signature") {
		t.Errorf("with nobody there: %d %s", res.status, res.stderr)
	}
	w.attended()
	for answer, want := range map[string]int{"approve": 0, "deny": 126} {
		done := make(chan result, 1)
		go func() { done <- w.run("sh", "-euc", in+"ssh $at date") }()
		q := w.question("log in to git.example.com:22 as " + me)
		w.cloister(t.Context(), "approvals", answer, q.ID)
		if res := <-done; res.status != want || answer == "deny" && !strings.Contains(res.stderr, "a person denied the signature") {
			t.Errorf("%s: %d %s", answer, res.status, res.stderr)
		}
	}
	w.rules["git.example.com"] = rules

	// A server that is not the one which the person knows gets nothing.
	w.write(w.home, ".ssh/known_hosts", "")
	res := w.run("sh", "-euc", in+"ssh $at echo hello")
	key := strings.Join(strings.Fields(read(t, filepath.Join(etc, "host.pub")))[:2], " ")
	if res.status != 126 || !strings.Contains(res.stderr, "is not known on the host") || !strings.Contains(res.stderr, `host_keys: ["`+key+`"]`) {
		t.Errorf("an unknown host: %d %s", res.status, res.stderr)
	}
	w.rules["git.example.com"] = append(w.rules["git.example.com"], fmt.Sprintf(`{domain: git.example.com, protocol: ssh, commands: [date], identity: agent, host_keys: ["%s"]}`, key))
	w.reload()
	w.must("ssh", me+"@git.example.com", "date")
	if _, err := os.Stat(filepath.Join(w.project, ".ssh")); err == nil {
		t.Error("a .ssh in the project")
	}
}
