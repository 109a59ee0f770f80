package config

import (
	"embed"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"cloister/internal/nearest"
	"cloister/internal/source"
)

//go:embed logins/*.yaml
var loginFiles embed.FS

// LoginService is a service that a person logs in to: how a token is got, where it goes,
// and what programs inside find so that they believe they are logged in.
type LoginService struct {
	Name  string    `json:"-"`
	Title string    `json:"title"`
	Flow  LoginFlow `json:"flow"`
	// ClientID is public: these are programs that run with their users.
	ClientID     string `json:"client_id"`
	DeviceURL    string `json:"device_url"`
	AuthorizeURL string `json:"authorize_url"`
	TokenURL     string `json:"token_url"`
	// Redirect is where the browser ends; port 0 is any.
	Redirect string            `json:"redirect"`
	Scopes   []string          `json:"scopes"`
	Params   map[string]string `json:"params"` // more words of AuthorizeURL
	// Exchange and Refresh are how the questions to TokenURL are written.
	Exchange LoginForm `json:"exchange"`
	Refresh  LoginForm `json:"refresh"`
	// Secrets are where it goes; the first is the access token's.
	Secrets []Secret    `json:"secrets"`
	Parts   []LoginPart `json:"parts"`
	Files   []LoginFile `json:"files"`
}

// LoginPart is a secret that stands in a token's claims.
type LoginPart struct {
	Secret string   `json:"secret"`
	Token  string   `json:"token"`
	Claim  []string `json:"claim"`
}

// LoginFile is a file in the home inside. In its text {NAME} is the placeholder of
// the secret NAME, {now} the time, and {jwt} an unsigned token with the Claims.
type LoginFile struct {
	Path   string `json:"path"`
	Text   string `json:"text"`
	Claims string `json:"claims"`
}

// LoginFlow is how a person agrees.
type LoginFlow string

// LoginForm is how a question is written.
type LoginForm string

// The words of both.
const (
	FlowDevice  LoginFlow = "device"  // a code, typed at any browser
	FlowBrowser LoginFlow = "browser" // a browser on this host, which ends at Redirect

	FormURL  LoginForm = "form"
	FormJSON LoginForm = "json"
)

func (LoginFlow) words() []string { return []string{string(FlowDevice), string(FlowBrowser)} }
func (LoginForm) words() []string { return []string{string(FormURL), string(FormJSON)} }

// LoginNames are the services, sorted.
func LoginNames() []string { return named(loginFiles, "logins") }

// LoadLogin reads one of them.
func LoadLogin(name string) (*LoginService, error) {
	file := "logins/" + name + ".yaml"
	text, err := loginFiles.ReadFile(file)
	if err != nil || strings.Contains(name, "/") {
		hint := "there are " + strings.Join(LoginNames(), ", ")
		if near := nearest.Word(name, LoginNames()); near != "" {
			hint = "did you mean " + near + "?"
		}
		return nil, &source.Problem{Position: source.Position{File: "logins"}, Msg: fmt.Sprintf("%q is no login", name),
			Hint: hint}
	}
	l := &LoginService{Name: name}
	r := newReader(file)
	r.decode(text, l)
	r.secrets(l.Secrets)
	r.login(l)
	return l, r.err()
}

// login holds the data of one to what can be done with it.
func (r *reader) login(l *LoginService) {
	for key, text := range map[string]string{"device_url": l.DeviceURL, "authorize_url": l.AuthorizeURL,
		"token_url": l.TokenURL} {
		if u, err := url.Parse(text); text != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
			r.problem(r.places[key], "", "%s: %q is no https address", key, text)
		}
	}
	switch {
	case l.ClientID == "" || l.TokenURL == "" || len(l.Secrets) == 0:
		r.problem(source.Position{}, "", "a login has client_id, token_url and secrets")
	case l.Flow == FlowDevice && l.DeviceURL == "", l.Flow == FlowBrowser && (l.AuthorizeURL == "" || l.Redirect == ""):
		r.problem(r.places["flow"], "", "flow: %s has no address to begin at", l.Flow)
	}
	for i, f := range l.Files {
		if f.Path == "" || path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || strings.HasPrefix(f.Path, "..") {
			r.problem(r.places[at("files", i)], "", "files: %q is no path below a home", f.Path)
		}
	}
}

// logins holds the names of logins to those that there are.
func (r *reader) logins(names []string) {
	for i, name := range names {
		if name == "" || slices.Contains(LoginNames(), name) {
			continue // empty: said already
		}
		hint := "there are " + strings.Join(LoginNames(), ", ")
		if near := nearest.Word(name, LoginNames()); near != "" {
			hint = "did you mean " + near + "?"
		}
		r.problem(r.places[at("logins", i)], hint, "logins: %q is none", name)
	}
}
