package realtest

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// tokenServer is the token endpoint of a service: what it was asked, and what it
// gives, by grant.
type tokenServer struct {
	gives map[string]string // by grant_type

	mu    sync.Mutex
	asked []map[string]string
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	words := map[string]string{}
	text, _ := io.ReadAll(r.Body)
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		_ = json.Unmarshal(text, &words)
	} else if q, err := url.ParseQuery(string(text)); err == nil {
		for key := range q {
			words[key] = q.Get(key)
		}
	}
	s.mu.Lock()
	s.asked = append(s.asked, words)
	n := len(s.asked)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/device/code"):
		fmt.Fprint(w, `{"device_code":"DEVICE","user_code":"WDJB-MJHT","verification_uri":"https://github.com/login/device","expires_in":900,"interval":0.05}`)
	case words["device_code"] != "" && n < 4:
		fmt.Fprint(w, `{"error":"authorization_pending"}`)
	default:
		fmt.Fprint(w, s.gives[words["grant_type"]])
	}
}

func (s *tokenServer) grants() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, words := range s.asked {
		out = append(out, words["grant_type"])
	}
	return out
}

// logIn runs secret login; browser is given the address where a person would go,
// and says what they paste.
func (w *world) logIn(service string, browser func(at *url.URL) (paste string)) string {
	w.t.Helper()
	w.configure()
	w.ran = true
	ctx, cancel := context.WithTimeout(w.t.Context(), storyTime)
	defer cancel()
	c := exec.CommandContext(ctx, binary, "secret", "login", service)
	c.Dir, c.Env = w.project, w.environ()
	in, err := c.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	errs, err := c.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(errs)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if at, err := url.Parse(lines.Text()); err == nil && at.Scheme == "https" && browser != nil {
			fmt.Fprintln(in, browser(at))
		}
	}
	if err := c.Wait(); err != nil {
		w.t.Fatalf("secret login %s: %v\n%s", service, err, said.String())
	}
	checkNowhere(w.t, "what login said", []byte(said.String()))
	return said.String()
}

// agree is a person who agrees in a browser that is on another machine.
func agree(t *testing.T) func(*url.URL) string {
	return func(at *url.URL) string {
		q := at.Query()
		if q.Get("code_challenge_method") != "S256" || q.Get("state") == "" {
			t.Errorf("the browser goes to %s", at)
		}
		return q.Get("redirect_uri") + "?code=THE-CODE&state=" + q.Get("state")
	}
}

// TestGitHubLogin logs in as gh does, and lets the real gh believe it.
func TestGitHubLogin(t *testing.T) {
	w := newWorld(t)
	need(t, "gh", "gh")
	tokens := &tokenServer{gives: map[string]string{
		"urn:ietf:params:oauth:grant-type:device_code": `{"access_token":"` + canaryToken + `","token_type":"bearer","scope":"repo"}`,
	}}
	w.net.handle("github.com", tokens)
	w.outside = []string{"github.com"}
	w.net.handle("api.github.com", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		auth := strings.TrimPrefix(strings.TrimPrefix(r.Header.Get("Authorization"), "token "), "Bearer ")
		rw.Header().Set("Content-Type", "application/json")
		if auth != canaryToken {
			rw.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(rw, `{"message":"Bad credentials"}`)
			return
		}
		rw.Header().Set("X-OAuth-Scopes", "repo, read:org, gist")
		if r.URL.Path == "/graphql" {
			fmt.Fprint(rw, `{"data":{"viewer":{"login":"ada"}}}`)
			return
		}
		fmt.Fprintf(rw, `{"login":"ada","echo":%q}`, auth)
	}))
	w.opened()
	w.settings = "logins: [github]\n"

	// Before anybody has logged in, the person is told how.
	if res := w.script(`echo "[${GH_TOKEN-}]"`); strings.TrimSpace(res.stdout) != "[]" || !strings.Contains(res.stderr, "nobody has logged in to GitHub: cloister secret login github") {
		t.Errorf("without a login: %q, %q", res.stdout, res.stderr)
	}
	said := w.logIn("github", nil)
	for _, want := range []string{"one-time code: WDJB-MJHT", "https://github.com/login/device", "logged in to GitHub"} {
		if !strings.Contains(said, want) {
			t.Errorf("login said %q, not %q", said, want)
		}
	}
	if strings.Contains(said, "hint:") {
		t.Errorf("it says what is there already: %q", said)
	}
	if res := w.cloister(t.Context(), "secret", "show", "GITHUB_LOGIN", "--json"); !strings.Contains(res.stdout, `"source": "login"`) || !strings.Contains(res.stdout, `"login": "github"`) || !strings.Contains(res.stdout, `"use": "ask"`) {
		t.Errorf("secret show: %s", res.stdout)
	}

	// Reading goes by itself; what may change something asks, and nobody is there.
	res := w.script(`gh api user --jq .login; gh api user --jq .echo; gh api -X DELETE repos/a/b 2>&1 || true; env`)
	if !strings.HasPrefix(res.stdout, "ada\nghp_") || !strings.Contains(res.stdout, "use: ask at") {
		t.Errorf("gh says %q\n%s", res.stdout, w.journal())
	}
	checkNowhere(t, "what gh was told", []byte(res.stdout+res.stderr))

	// A person's own words for it rule instead.
	w.settings += "secrets: [{name: GITHUB_LOGIN, hosts: [api.github.com, github.com], env: [GH_TOKEN]}]\n"
	res = w.script(`gh auth status 2>&1; echo "${GITHUB_TOKEN-none}"`)
	if !strings.Contains(res.stdout, "Logged in to github.com as ada") || !strings.HasSuffix(strings.TrimSpace(res.stdout), "none") {
		t.Errorf("gh auth status says %q\n%s", res.stdout, w.journal())
	}
	checkNowhere(t, "what gh was told", []byte(res.stdout+res.stderr))
	w.checkFiles()
}

// TestCodexLogin lets the real codex believe that it is logged in to ChatGPT.
func TestCodexLogin(t *testing.T) {
	w := newWorld(t)
	need(t, "node", "node")
	w.agent("codex")
	const account = "0b5e9f2c-1d3a-4c77-9a51-4f3f0c2d7e10"
	enc := base64.RawURLEncoding
	claims := enc.EncodeToString([]byte(`{"email":"ada@example.org","exp":4000000000,"https://api.openai.com/auth":{"chatgpt_account_id":"` + account + `"}}`))
	token := enc.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + claims + "."
	// The first is over at once, so that the first use renews it.
	tokens := &tokenServer{gives: map[string]string{
		"authorization_code": `{"access_token":"` + token + `Zmlyc3Q","refresh_token":"rt-first-0123456789","id_token":"` + token + `aWQ","expires_in":1}`,
		"refresh_token":      `{"access_token":"` + token + `c2Vjb25kQ2FuYXJ5","refresh_token":"rt-second-0123456789","expires_in":864000}`,
	}}
	w.net.handle("auth.openai.com", tokens)
	w.outside = []string{"auth.openai.com"}
	// What codex asks first is whose account it is; it goes no further without more
	// of the real service than a test can know.
	var mu sync.Mutex
	seen := map[string]bool{}
	w.net.handle("chatgpt.com", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("Authorization")+" "+r.Header.Get("Chatgpt-Account-Id")] = true
		mu.Unlock()
		rw.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(rw, `{"detail":%q}`, account)
	}))
	w.opened()
	w.settings = "logins: [codex]\n"
	w.logIn("codex", agree(t))

	res := w.script(`codex login status 2>&1; cat ~/.codex/auth.json
		timeout 10 codex exec --dangerously-bypass-approvals-and-sandbox "Are you logged in?" >/dev/null 2>&1 || true
		curl -sS -H "Authorization: Bearer $(sed 's/.*"access_token": "\([^"]*\)".*/\1/' ~/.codex/auth.json)" -H "chatgpt-account-id: $(sed 's/.*"account_id": "\([^"]*\)".*/\1/' ~/.codex/auth.json)" https://chatgpt.com/echo`)
	if !strings.Contains(res.stdout, "Logged in using ChatGPT") || !strings.Contains(res.stdout, `"auth_mode": "chatgpt"`) ||
		strings.Contains(res.stdout, account) || strings.Contains(res.stdout, "rt-") || strings.Contains(res.stdout, claims) {
		t.Errorf("inside it looks like this: %s", res.stdout)
	}
	mu.Lock()
	if want := "Bearer " + token + "c2Vjb25kQ2FuYXJ5 " + account; len(seen) != 1 || !seen[want] {
		t.Errorf("chatgpt.com saw %d pairs, want one, the real\n%s", len(seen), w.journal())
	}
	mu.Unlock()
	if got := strings.Join(tokens.grants(), " "); got != "authorization_code refresh_token" {
		t.Errorf("the service was asked for %s", got)
	}
	tokens.mu.Lock()
	if tokens.asked[1]["refresh_token"] != "rt-first-0123456789" {
		t.Errorf("renewed with %q", tokens.asked[1]["refresh_token"])
	}
	tokens.mu.Unlock()

	if res := w.cloister(t.Context(), "audit", "tail", "--kind", "secret.use", "--json", "-n", "0"); strings.Count(res.stdout, `"action":"renew"`) != 1 {
		t.Errorf("the record does not tell one renewal:\n%s", w.journal())
	}

	// Without it there is nothing: the link in the home leads nowhere.
	w.settings = ""
	if res := w.script(`cat ~/.codex/auth.json 2>&1 || true; ls -l ~/.codex/auth.json`); !strings.Contains(res.stdout, "No such file") {
		t.Errorf("without the login: %s", res.stdout)
	}
}

// TestClaudeLogin lets the real Claude Code believe that it has a subscription.
func TestClaudeLogin(t *testing.T) {
	w := newWorld(t)
	need(t, "node", "node")
	w.agent("claude")
	tokens := &tokenServer{gives: map[string]string{
		"authorization_code": `{"access_token":"` + canaryKey + `","refresh_token":"sk-ant-ort01-0123456789","expires_in":28800}`,
	}}
	w.net.handle("platform.claude.com", tokens)
	w.outside = []string{"platform.claude.com"}
	api := &messagesAPI{has: "Bash", last: "Logged in.", steps: []step{{"Bash", map[string]any{"command": `env | grep OAUTH`, "description": "Look"}}}}
	seen := regexp.MustCompile(`^Bearer `)
	w.net.handle("api.anthropic.com", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !seen.MatchString(r.Header.Get("Authorization")) || strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") != canaryKey {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(rw, `{"type":"error","error":{"type":"authentication_error","message":"not logged in"}}`)
			return
		}
		r.Header.Set("X-Api-Key", canaryKey) // where messagesAPI looks
		api.ServeHTTP(rw, r)
	}))
	w.opened()
	w.settings = "logins: [claude]\n"
	w.logIn("claude", agree(t))
	tokens.mu.Lock()
	if len(tokens.asked) != 1 || tokens.asked[0]["state"] == "" || tokens.asked[0]["code"] != "THE-CODE" || tokens.asked[0]["client_id"] == "" {
		t.Errorf("asked %v", tokens.asked)
	}
	tokens.mu.Unlock()
	res := w.must("claude", "-p", "Are you logged in?", "--dangerously-skip-permissions")
	if got := strings.TrimSpace(res.stdout); got != api.last {
		t.Errorf("claude said %q, want %q; stderr: %s\n%s", got, api.last, res.stderr, w.journal())
	}
	checkNowhere(t, "output", []byte(res.stdout+res.stderr+api.result(0)))
	w.checkFiles()
}
