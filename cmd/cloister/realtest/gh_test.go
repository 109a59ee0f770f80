package realtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// gitHub is as much of GitHub's API as gh needs here, on a unix socket: gh can be
// told to go there for every host.
type gitHub struct {
	mu      sync.Mutex
	queries []string
	tokens  map[string]bool
}

func (g *gitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	g.queries, g.tokens[r.Header.Get("Authorization")] = append(g.queries, string(body)), true
	g.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	const repository = `{"id":"R1","name":"tool","owner":{"login":"acme"},"hasIssuesEnabled":true,"viewerPermission":"WRITE","defaultBranchRef":{"name":"main"},` +
		`"pullRequest":{"number":7,"title":"Seven","state":"OPEN","id":"P7"},"pullRequests":{"nodes":[],"totalCount":0}}`
	if strings.Contains(string(body), "createPullRequest") {
		fmt.Fprint(w, `{"data":{"createPullRequest":{"pullRequest":{"id":"P8","url":"https://github.com/acme/tool/pull/8"}}}}`)
		return
	}
	fmt.Fprintf(w, `{"data":{"repository":%s,"repo_000":%[1]s}}`, repository)
}

func (w *world) gitHub() *gitHub {
	w.t.Helper()
	g := &gitHub{tokens: map[string]bool{}}
	ln, err := (&net.ListenConfig{}).Listen(w.t.Context(), "unix", filepath.Join(w.dir, "gh"))
	if err != nil {
		w.t.Fatal(err)
	}
	srv := &http.Server{Handler: g, ReadHeaderTimeout: storyTime}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	w.t.Cleanup(func() {
		_ = srv.Shutdown(context.WithoutCancel(w.t.Context()))
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			w.t.Error(err)
		}
	})
	w.write(w.home, ".config/gh/config.yml", "http_unix_socket: "+filepath.Join(w.dir, "gh")+"\nprompt: disabled\n")
	w.write(w.home, ".config/gh/hosts.yml", "github.com:\n    oauth_token: the-persons-token\n    user: ada\n    git_protocol: https\n")
	return g
}

// TestGitHubCLI is gh as a host command: by typed rules, with the person's token,
// and without the git that would obey the agent's repository.
func TestGitHubCLI(t *testing.T) {
	w := newWorld(t)
	need(t, "gh", "gh")
	g := w.gitHub()
	canary := filepath.Join(w.dir, "canary")
	w.host("git", "config", "core.fsmonitor", "touch "+canary)
	w.settings = `hostexec:
  shims: [gh]
  auto_approve:
    - {program: gh, args: [pr, view, <any>], flags: ['-R acme/tool', '--json <any>']}
    - {program: gh, args: [pr, create], flags: ['-R acme/tool', '--head <any>', '--title <any>', '--body <any>']}
`
	if res := w.must("gh", "pr", "view", "7", "-R", "acme/tool", "--json", "title"); strings.TrimSpace(res.stdout) != `{"title":"Seven"}` {
		t.Errorf("view: %q %s", res.stdout, res.stderr)
	}
	if res := w.must("gh", "pr", "create", "-R", "acme/tool", "--head", "b", "--title", "t", "--body", "b"); !strings.Contains(res.stdout, "/pull/8") {
		t.Errorf("create: %q %s", res.stdout, res.stderr)
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("gh's git obeyed the repository")
	}
	for _, words := range []string{"gh pr view 7 -R acme/tool --web", "gh pr view 7 -R acme/other", "gh pr merge 7 -R acme/tool", "gh api /user", "gh auth token"} {
		if res := w.run(strings.Fields(words)...); res.status != 126 || !strings.Contains(res.stderr, "hostexec: refused: ") {
			t.Errorf("%s: status %d: %s%s", words, res.status, res.stdout, res.stderr)
		}
	}
	g.mu.Lock()
	if len(g.tokens) != 1 || !g.tokens["token the-persons-token"] || len(g.queries) < 3 {
		t.Errorf("%d queries with %v", len(g.queries), g.tokens)
	}
	g.mu.Unlock()
	// The control: without that, gh's git does.
	w.host("env", "-u", "XDG_CONFIG_HOME", "gh", "pr", "create", "-R", "acme/tool", "--head", "b", "--title", "t", "--body", "b")
	if _, err := os.Stat(canary); err != nil {
		t.Errorf("control: %v", err)
	}
}
