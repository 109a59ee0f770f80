package egress_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"cloister/egress"
	"cloister/egress/verdict"
	"cloister/internal/reading"
)

func sshSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func sshLine(k ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }

// An sshServer takes one key, tells what it is asked to run, and echoes.
type sshServer struct {
	*upstream
	host, client ssh.Signer
	mu           sync.Mutex
	ran          []string // by whom, and the environment that came
}

func newSSHServer(t testing.TB) *sshServer {
	s := &sshServer{host: sshSigner(t), client: sshSigner(t)}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if sshLine(key) != sshLine(s.client.PublicKey()) {
			return nil, errors.New("unknown key")
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(s.host)
	s.upstream = serve(t, func(c net.Conn) {
		conn, channels, requests, err := ssh.NewServerConn(c, config)
		if err != nil {
			return
		}
		var all sync.WaitGroup
		all.Go(func() { ssh.DiscardRequests(requests) })
		for n := range channels {
			ch, asked, err := n.Accept()
			if err != nil {
				break
			}
			all.Go(func() { s.session(conn.User(), ch, asked) })
		}
		conn.Close()
		all.Wait()
	})
	return s
}

func (s *sshServer) session(user string, ch ssh.Channel, asked <-chan *ssh.Request) {
	env := ""
	for q := range asked {
		var v struct{ A, B string }
		switch q.Type {
		case "env":
			if ssh.Unmarshal(q.Payload, &v) == nil {
				env += " " + v.A + "=" + v.B
			}
		case "pty-req":
			env += " pty"
		case "exec", "shell", "subsystem":
			var text struct{ Text string }
			_ = ssh.Unmarshal(q.Payload, &text)
			s.mu.Lock()
			s.ran = append(s.ran, user+" "+q.Type+" "+text.Text+env)
			s.mu.Unlock()
			_ = q.Reply(true, nil)
			go func() {
				fmt.Fprintf(ch, "ran %s\n", text.Text)
				_, _ = io.Copy(ch, ch)
				fmt.Fprint(ch.Stderr(), "its errors\n")
				_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{7}))
				_ = ch.Close()
			}()
			continue
		}
		if q.WantReply {
			_ = q.Reply(true, nil)
		}
	}
}

func (s *sshServer) commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.ran...)
}

// An sshWorld is an engine that reads the logins to git.test.
type sshWorld struct {
	*world
	key    *egress.HostKey
	server *sshServer
	opened []string // identities
}

func newSSHWorld(t testing.TB, answer verdict.Answer, judge func(reading.Login) bool, change ...func(*egress.Config)) *sshWorld {
	t.Helper()
	key, err := egress.NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	sw := &sshWorld{key: key, server: newSSHServer(t)}
	change = append([]func(*egress.Config){func(c *egress.Config) {
		c.SSH = egress.SSH{Key: key, Identity: func(_ context.Context, who egress.IdentityRequest) (egress.Identity, error) {
			name := who.Identity
			if name != "mine" {
				return egress.Identity{}, errors.New("no such key")
			}
			sw.mu.Lock()
			sw.opened = append(sw.opened, name)
			sw.mu.Unlock()
			return egress.Identity{Signers: []ssh.Signer{sw.server.client}, Close: func() {}}, nil
		}}
	}}, change...)
	sw.world = newWorld(t, map[string]string{"git.test": sw.server.addr}, change...)
	answer.Allow, answer.Effect, answer.Protocol = true, "allow", "ssh"
	if answer.HostKeys == nil {
		answer.HostKeys = []string{sshLine(sw.server.host.PublicKey())}
	}
	sw.set("git.test", answer)
	sw.mu.Lock()
	sw.login = func(l reading.Login) verdict.Answer {
		if judge(l) {
			return answer
		}
		return verdict.Answer{Effect: "deny", Rule: "r", Reason: fmt.Sprintf("not %s %s", l.User, l.Command), Hints: []string{"write so"}}
	}
	sw.mu.Unlock()
	return sw
}

// client logs in as a program inside does: without anything, trusting the session.
func (sw *sshWorld) client(user string) (*ssh.Client, string, error) {
	sw.t.Helper()
	raw := sw.dial("git.test", 22)
	ca, _, _, _, err := ssh.ParseAuthorizedKey([]byte(strings.TrimPrefix(sw.key.KnownHosts(), "@cert-authority * ")))
	if err != nil {
		sw.t.Fatal(err)
	}
	checker := &ssh.CertChecker{IsHostAuthority: func(k ssh.PublicKey, _ string) bool { return bytes.Equal(k.Marshal(), ca.Marshal()) }}
	banner := ""
	conn, channels, requests, err := ssh.NewClientConn(raw, "git.test:22", &ssh.ClientConfig{
		User: user, HostKeyCallback: checker.CheckHostKey, BannerCallback: func(m string) error { banner += m; return nil },
	})
	if err != nil {
		return nil, banner, err
	}
	c := ssh.NewClient(conn, channels, requests)
	sw.t.Cleanup(func() { c.Close() })
	return c, banner, nil
}

// run gives all that a command comes to.
func run(t testing.TB, c *ssh.Client, command string, prepare func(*ssh.Session)) (out, errs string, status int) {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var o, e bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader("the program's input"), &o, &e
	if prepare != nil {
		prepare(s)
	}
	err = s.Run(command)
	if exit, is := errors.AsType[*ssh.ExitError](err); is {
		status = exit.ExitStatus()
	} else if err != nil {
		status = -1
	}
	return o.String(), e.String(), status
}

func TestSSH(t *testing.T) {
	sw := newSSHWorld(t, verdict.Answer{Identity: "mine"}, func(l reading.Login) bool {
		return l.User == "git" && (l.Command == "" || l.Repository == "acme/tool.git" && !l.Push || l.Command == "date")
	})
	c, _, err := sw.client("git")
	if err != nil {
		t.Fatal(err)
	}
	out, errs, status := run(t, c, "git-upload-pack 'acme/tool.git'", func(s *ssh.Session) {
		for k, v := range map[string]string{"GIT_PROTOCOL": "version=2"} {
			if err := s.Setenv(k, v); err != nil {
				t.Error(err)
			}
		}
		if err := s.Setenv("LD_PRELOAD", "x"); err == nil {
			t.Error("LD_PRELOAD passes")
		}
	})
	if out != "ran git-upload-pack 'acme/tool.git'\nthe program's input" || errs != "its errors\n" || status != 7 {
		t.Errorf("%q %q %d", out, errs, status)
	}
	for _, command := range []string{"git-receive-pack 'acme/tool.git'", "git-upload-pack 'acme/other.git'", "date; id", "git-upload-pack 'acme/tool.git' x"} {
		out, errs, status := run(t, c, command, nil)
		if out != "" || status != 126 || !strings.Contains(errs, "cloister refused this: not git "+command) || !strings.Contains(errs, "\nhint: write so\n") {
			t.Errorf("%s: %q %q %d", command, out, errs, status)
		}
	}
	if out, _, _ := run(t, c, "date", nil); !strings.HasPrefix(out, "ran date") {
		t.Errorf("date: %q", out)
	}
	if got, want := sw.server.commands(), []string{"git exec git-upload-pack 'acme/tool.git' GIT_PROTOCOL=version=2", "git exec date"}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the server ran %q", got)
	}
	if sw.server.accepted() != 1 || len(sw.opened) != 1 {
		t.Errorf("%d connections, %d logins", sw.server.accepted(), len(sw.opened))
	}
	// No way beside a session.
	if conn, err := c.Dial("tcp", "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "only sessions are read here") {
		t.Errorf("a forwarded port: %v %v", conn, err)
	}
	if _, err := c.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("a port is forwarded back")
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if ok, _ := s.SendRequest("auth-agent-req@openssh.com", true, nil); ok {
		t.Error("an agent is forwarded")
	}
	s.Close()
	c.Close()
	f := sw.flow("the end", func(f verdict.Flow) bool { return f.Kind == verdict.Connect && f.Up > 0 })
	if f.Down == 0 || !f.Dialed.IsValid() {
		t.Errorf("%+v", f)
	}
}

// Who may not log in is told so, and no server hears of it.
func TestSSHRefused(t *testing.T) {
	sw := newSSHWorld(t, verdict.Answer{Identity: "mine"}, func(l reading.Login) bool { return l.User == "git" })
	_, banner, err := sw.client("root")
	if err == nil || banner != "cloister refused this: not root \nhint: write so\n" || sw.server.accepted() > 0 {
		t.Errorf("%v %q, %d connections", err, banner, sw.server.accepted())
	}
}

// What keeps a login from going on is told on the command's errors, and the
// server's key is looked at before anything else.
func TestSSHUpstream(t *testing.T) {
	other := sshLine(sshSigner(t).PublicKey())
	for _, tt := range []struct {
		name    string
		verdict verdict.Answer
		want    string
		dials   int
	}{
		{"no identity", verdict.Answer{}, "the rule names none", 1},
		{"an identity that is not there", verdict.Answer{Identity: "other"}, "cannot be used: no such key", 0},
		{"another host key", verdict.Answer{Identity: "mine", HostKeys: []string{other}}, "is not the one that is known", 1},
		{"no host key", verdict.Answer{Identity: "mine", HostKeys: []string{}}, "is not known on the host", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sw := newSSHWorld(t, tt.verdict, func(reading.Login) bool { return true })
			c, _, err := sw.client("git")
			if err != nil {
				t.Fatal(err)
			}
			if out, errs, status := run(t, c, "date", nil); out != "" || status != 126 || !strings.Contains(errs, tt.want) {
				t.Errorf("%q %q %d", out, errs, status)
			}
			if len(sw.server.commands()) > 0 || sw.server.accepted() != tt.dials {
				t.Errorf("%q, %d connections", sw.server.commands(), sw.server.accepted())
			}
			sw.reason(tt.want)
		})
	}
}

// A command ends when it is no longer allowed, and the others go on.
func TestSSHRecheck(t *testing.T) {
	var mu sync.Mutex
	gone := ""
	sw := newSSHWorld(t, verdict.Answer{Identity: "mine"}, func(l reading.Login) bool {
		mu.Lock()
		defer mu.Unlock()
		return gone == "" || l.Command != gone
	})
	c, _, err := sw.client("git")
	if err != nil {
		t.Fatal(err)
	}
	type running struct {
		in  io.WriteCloser
		out io.Reader
	}
	start := func(command string) running {
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		in, _ := s.StdinPipe()
		out, _ := s.StdoutPipe()
		if err := s.Start(command); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, len("ran \n"+command))); err != nil {
			t.Fatal(err)
		}
		return running{in, out}
	}
	one, two := start("one"), start("two")
	mu.Lock()
	gone = "one"
	mu.Unlock()
	sw.engine.Recheck(t.Context())
	if rest, err := io.ReadAll(one.out); err != nil || len(rest) > 0 {
		t.Errorf("one: %q %v", rest, err)
	}
	if _, err := io.WriteString(two.in, "still"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(two.out, make([]byte, 5)); err != nil {
		t.Errorf("two: %v", err)
	}
	mu.Lock()
	gone = ""
	mu.Unlock()
	sw.mu.Lock()
	sw.login = func(reading.Login) verdict.Answer { return verdict.Answer{Effect: "deny", Reason: "no more"} }
	sw.mu.Unlock()
	sw.engine.Recheck(t.Context())
	done := make(chan struct{})
	go func() { _ = c.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		t.Error("the connection goes on")
	}
}

// What is no SSH gets nothing and is recorded; a session whose key is gone with an
// earlier guardian refuses.
func TestSSHBroken(t *testing.T) {
	sw := newSSHWorld(t, verdict.Answer{Identity: "mine"}, func(reading.Login) bool { return true })
	c := sw.dial("git.test", 22)
	write(t, c, "GET / HTTP/1.1\r\nHost: git.test\r\n\r\n")
	_ = c.CloseWrite()
	_, _ = io.Copy(io.Discard, c)
	sw.reason("ssh: nobody logged in")
	if sw.server.accepted() > 0 {
		t.Error("the server was dialled")
	}
	sw = newSSHWorld(t, verdict.Answer{}, func(reading.Login) bool { return true }, func(c *egress.Config) { c.SSH.Key = nil })
	c = sw.dial("git.test", 22)
	_, _ = io.Copy(io.Discard, c)
	sw.reason("start the session again")
}

// The bytes that go up are bounded here too.
func TestSSHQuota(t *testing.T) {
	sw := newSSHWorld(t, verdict.Answer{Identity: "mine"}, func(reading.Login) bool { return true }, bounded(egress.Quota{UploadHost: 10}))
	c, _, err := sw.client("git")
	if err != nil {
		t.Fatal(err)
	}
	out, errs, status := run(t, c, "date", nil)
	if strings.Contains(out, "the program's input") || status != 126 || !strings.Contains(errs, "upload_limit: {host: 20}") {
		t.Errorf("%q %q %d", out, errs, status)
	}
}

// What each command has for itself, many have not.
func TestSSHQuotaOfManyRequests(t *testing.T) {
	sw := newSSHWorld(t, verdict.Answer{Identity: "mine"}, func(reading.Login) bool { return true }, bounded(egress.Quota{UploadHost: 4000}))
	c, _, err := sw.client("git")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		if _, errs, status := run(t, c, "date "+strings.Repeat("x", 900), nil); status == 126 && strings.Contains(errs, "upload_limit: {host: 8000}") {
			if n < 10 {
				t.Errorf("refused after %d", n)
			}
			return
		}
	}
	t.Error("36,000 bytes of commands passed a bound of 4000")
}

// A command, what is said before it and the names of signals are bytes up too.
func TestSSHQuotaOfRequests(t *testing.T) {
	sw := newSSHWorld(t, verdict.Answer{Identity: "mine"}, func(reading.Login) bool { return true }, bounded(egress.Quota{UploadHost: 4000}))
	c, _, err := sw.client("git")
	if err != nil {
		t.Fatal(err)
	}
	if out, errs, status := run(t, c, "date "+strings.Repeat("x", 9000), nil); out != "" || status != 126 || !strings.Contains(errs, "upload_limit: {host: 8000}") {
		t.Errorf("%.100q %q %d", out, errs, status)
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start("date"); err != nil { // it waits for its input
		t.Fatal(err)
	}
	go func() {
		for s.Signal(ssh.Signal(strings.Repeat("x", 900))) == nil {
		}
	}()
	if err := s.Wait(); err == nil {
		t.Error("it ended as if nothing was")
	}
	sw.reason("bytes sent to this host")
	if n := len(sw.server.commands()); n != 1 {
		t.Errorf("%d commands", n)
	}
}
