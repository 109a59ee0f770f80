package oauth_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/config"
	"cloister/secret"
	"cloister/secret/oauth"
)

// service is the other side: it answers what a test hands it, one after another,
// and keeps what it was asked.
type service struct {
	*httptest.Server
	mu      sync.Mutex
	answers []string // "STATUS TEXT"
	asked   []asked
}

type asked struct {
	host, path string
	words      map[string]string
}

func newService(t *testing.T, answers ...string) (*service, *oauth.Client) {
	t.Helper()
	s := &service{answers: answers}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		a := asked{host: r.Host, path: r.URL.Path, words: map[string]string{}}
		if text, _ := io.ReadAll(r.Body); strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			_ = json.Unmarshal(text, &a.words)
		} else if q, err := url.ParseQuery(string(text)); err == nil {
			for key := range q {
				a.words[key] = q.Get(key)
			}
		}
		s.asked = append(s.asked, a)
		answer := "500 none left"
		if len(s.answers) > 0 {
			answer, s.answers = s.answers[0], s.answers[1:]
		}
		var status int
		_, _ = fmt.Sscan(answer, &status)
		if status == http.StatusFound {
			w.Header().Set("Location", "https://elsewhere.example/")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer[4:])
	}))
	t.Cleanup(s.Close)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the names are real, the server is the test's
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, s.Listener.Addr().String())
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return s, &oauth.Client{Now: time.Now, HTTP: &http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func login(t *testing.T, name string) *config.LoginService {
	t.Helper()
	l, err := config.LoadLogin(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEveryLoginLoads(t *testing.T) {
	for _, name := range config.LoginNames() {
		l := login(t, name)
		if l.Title == "" || len(l.Secrets) == 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
	if _, err := config.LoadLogin("gihub"); err == nil || !strings.Contains(err.Error(), `"gihub" is no login`) {
		t.Errorf("an unknown one: %v", err)
	}
}

const device = `200 {"device_code":"DEV","user_code":"ABCD-1234","verification_uri":"https://github.com/login/device","expires_in":899,"interval":0.05}`

func TestDevice(t *testing.T) {
	s, c := newService(t, device, `200 {"error":"authorization_pending"}`, `200 {"access_token":"gho_CanaryCanaryCanary","scope":"repo","token_type":"bearer"}`)
	l := login(t, "github")
	f, err := c.Begin(t.Context(), l, "")
	if err != nil || f.Code != "ABCD-1234" || f.URL != "https://github.com/login/device" {
		t.Fatalf("%+v, %v", f, err)
	}
	tokens, err := f.Poll(t.Context())
	if err != nil || tokens.Access.Reveal() != "gho_CanaryCanaryCanary" || !tokens.Expires.IsZero() || c.Old(tokens) {
		t.Fatalf("%v %v", tokens, err)
	}
	if a := s.asked[0]; a.host != "github.com" || a.path != "/login/device/code" || a.words["client_id"] != l.ClientID || a.words["scope"] != "repo read:org gist" {
		t.Errorf("asked %+v", a)
	}
	if a := s.asked[2]; a.words["device_code"] != "DEV" || a.words["grant_type"] != "urn:ietf:params:oauth:grant-type:device_code" {
		t.Errorf("asked %+v", a)
	}
	if text := fmt.Sprintf("%+v", tokens); strings.Contains(text, "Canary") {
		t.Errorf("printed: %s", text)
	}
}

func TestDeviceRefused(t *testing.T) {
	for answer, want := range map[string]string{
		`200 {"error":"access_denied","error_description":"no"}`: "GitHub says access_denied: no",
		`200 {"error":"expired_token"}`:                          "GitHub says expired_token",
		`200 {"access_token":"a\nCanary"}`:                       "GitHub gave no access token: the value has more than one line",
		`200 {"access_token":""}`:                                "GitHub gave no access token",
		`200 Canary`:                                             "an answer that is no JSON",
		`302 {}`:                                                 "status 302",
		`200 {"a":"` + strings.Repeat("x", 300<<10) + `"}`:       "an answer of more than",
	} {
		_, c := newService(t, device, answer)
		f, err := c.Begin(t.Context(), login(t, "github"), "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Poll(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Canary") {
			t.Errorf("%.60s: %v, want %q", answer, err, want)
		}
	}
	for _, answer := range []string{`200 {"device_code":"D","user_code":"U","verification_uri":"http://github.com/"}`, `200 {}`} {
		_, c := newService(t, answer)
		if f, err := c.Begin(t.Context(), login(t, "github"), ""); err == nil {
			t.Errorf("%s: %+v", answer, f)
		}
	}
}

// jwt is a token as the service would sign it.
func jwt(claims string) string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + enc.EncodeToString([]byte(claims)) + ".c2lnbmVk"
}

func TestBrowser(t *testing.T) {
	id := jwt(`{"https://api.openai.com/auth":{"chatgpt_account_id":"acc-0123456789"}}`)
	s, c := newService(t, `200 {"access_token":"at-CanaryCanary","refresh_token":"rt-CanaryCanary","id_token":"`+id+`","expires_in":3600}`,
		`200 {"access_token":"at-second-Canary","refresh_token":"rt-second-Canary","expires_in":3600}`)
	l := login(t, "codex")
	l.Redirect = "http://localhost:0/auth/callback" // the real port may be somebody's
	var d oauth.Desk
	defer d.Close()
	name, f, err := d.Begin(t.Context(), c, l)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	back := q.Get("redirect_uri")
	if u.Host != "auth.openai.com" || q.Get("code_challenge_method") != "S256" || q.Get("codex_cli_simplified_flow") != "true" || !strings.HasPrefix(back, "http://localhost:") {
		t.Errorf("the browser goes to %s", f.URL)
	}
	get := func(at string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(at, "localhost", "127.0.0.1", 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		tr := &http.Transport{DisableKeepAlives: true}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode
	}
	// What is no answer to this login ends nothing: any site can send a browser there.
	for _, bad := range []string{back + "?code=x&state=wrong", back + "?error=access_denied", back + "/other?code=x&state=" + q.Get("state")} {
		if status := get(bad); status == http.StatusOK {
			t.Errorf("%s: status %d", bad, status)
		}
	}
	if err := d.Answer(name, l, "CODE#wrong"); err == nil {
		t.Error("a pasted answer with another state is taken")
	}
	if err := d.Answer(name, login(t, "claude"), "x"); !errors.Is(err, oauth.ErrUnknown) {
		t.Errorf("an answer for another service: %v", err)
	}
	if status := get(back + "?code=CODE&state=" + q.Get("state")); status != http.StatusOK {
		t.Errorf("the answer: status %d", status)
	}
	if status := get(back + "?code=CODE2&state=" + q.Get("state")); status != http.StatusConflict {
		t.Errorf("a second answer: status %d", status)
	}
	tokens, err := d.Finish(t.Context(), name, l)
	if err != nil {
		t.Fatal(err)
	}
	if tokens.Access.Reveal() != "at-CanaryCanary" || tokens.Parts["CODEX_ACCOUNT"].Reveal() != "acc-0123456789" {
		t.Error("other tokens than the service gave")
	}
	a := s.asked[0]
	sum := sha256.Sum256([]byte(a.words["code_verifier"]))
	if a.host != "auth.openai.com" || a.words["code"] != "CODE" || a.words["redirect_uri"] != back || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") {
		t.Errorf("asked %+v", a)
	}
	if _, err := d.Finish(t.Context(), name, l); !errors.Is(err, oauth.ErrUnknown) {
		t.Errorf("a login that is over: %v", err)
	}

	// Renewed, by what was kept.
	kept, err := oauth.Open(tokens.Seal())
	if err != nil {
		t.Fatal(err)
	}
	if c.Old(kept) || c.Over(kept) {
		t.Error("an hour's token is old at once")
	}
	kept.Expires = time.Now().Add(time.Minute)
	if !c.Old(kept) || c.Over(kept) {
		t.Error("a token with a minute left is not old, or over")
	}
	young, err := c.Renew(t.Context(), l, kept)
	if err != nil || young.Access.Reveal() != "at-second-Canary" || young.Refresh.Reveal() != "rt-second-Canary" || young.Parts["CODEX_ACCOUNT"].Reveal() != "acc-0123456789" {
		t.Errorf("renewed: %v", err)
	}
	if a := s.asked[1]; a.words["grant_type"] != "refresh_token" || a.words["refresh_token"] != "rt-CanaryCanary" || a.words["scope"] != "openid profile email" {
		t.Errorf("asked %+v", a)
	}
}

func TestRenewRefused(t *testing.T) {
	_, c := newService(t, `200 {"access_token":"at-Canary","refresh_token":"rt-Canary","expires_in":1}`,
		`400 {"error":{"type":"invalid_grant","message":"it was used already"}}`)
	l := login(t, "claude")
	f, err := c.Begin(t.Context(), l, "http://localhost:1/callback")
	if err != nil {
		t.Fatal(err)
	}
	state, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	code, err := f.Answer("CODE#" + state.Query().Get("state"))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := f.Exchange(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Renew(t.Context(), l, tokens)
	said, ok := errors.AsType[*oauth.AnswerError](err)
	if !ok || said.Code != "invalid_grant" || len(said.Hints()) != 1 || said.Hints()[0] != "log in again: cloister secret login claude" {
		t.Errorf("%v", err)
	}
	if _, err := oauth.Open(secret.Seal("{")); err == nil {
		t.Error("what is no login was read as one")
	}
}
