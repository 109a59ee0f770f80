// Package oauth gets tokens of services for a person, by a code typed at a browser
// (RFC 8628) or by the browser's way back with PKCE (RFC 6749, RFC 7636).
//
// Promise: what a server says is bounded, and no token is in an error. A redirect
// is taken only with the state that was made for it, and nothing but the service's
// own addresses is asked.
//
// It keeps nothing (secret/vault does), opens no browser, and knows a service only
// as the data that it is handed: config.LoginService.
//
// Most readers want Client.Begin, then Flow.Wait.
package oauth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"cloister/config"
	"cloister/internal/authority"
	"cloister/secret"
)

const (
	// maxAnswer bounds what a server says.
	maxAnswer = 256 << 10
	// flowWithin is how long a person may take where the server does not say.
	flowWithin = 15 * time.Minute
	// pollEvery is how often a service is asked that does not say (RFC 8628, 3.2).
	pollEvery = 5 * time.Second
	// renewBefore is how long before its end a token is renewed.
	renewBefore = 5 * time.Minute
	// lasting stands for a token that tells no end.
	lasting = 10 * 365 * 24 * time.Hour
)

// Client asks services. HTTP must follow no redirect: a code or token would go
// along.
type Client struct {
	HTTP *http.Client
	Now  func() time.Time
}

// NewClient asks over TLS with those roots, and dials what hosts pins for a name.
func NewClient(roots *x509.CertPool, hosts map[string]string) *Client {
	dialer := &net.Dialer{Timeout: 15 * time.Second}
	t := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 15 * time.Second,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if a, err := authority.ParseHostPort(addr, 443); err == nil {
				addr = cmp.Or(hosts[a.Host()], addr)
			}
			return dialer.DialContext(ctx, network, addr)
		},
	}
	return &Client{Now: time.Now, HTTP: &http.Client{
		Transport: t, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Tokens are what a service gave.
type Tokens struct {
	Access, Refresh secret.Value
	Expires         time.Time // zero: it does not end
	// Parts are further secrets, by their names.
	Parts map[string]secret.Value
}

// An AnswerError is a service's own word that it gives no token.
type AnswerError struct {
	Login, Service, Code, Description string
}

func (e *AnswerError) Error() string {
	text := e.Service + " says " + e.Code
	if e.Description != "" {
		text += ": " + e.Description
	}
	return text
}

// Hints are the words of what to do.
func (e *AnswerError) Hints() []string {
	if e.Code == "invalid_grant" || e.Code == "expired_token" || e.Code == "access_denied" ||
		e.Code == "bad_refresh_token" {
		return []string{"log in again: cloister secret login " + e.Login}
	}
	return nil
}

// answer is what token and device endpoints say.
type answer struct {
	AccessToken  string  `json:"access_token"`
	RefreshToken string  `json:"refresh_token"`
	IDToken      string  `json:"id_token"`
	ExpiresIn    float64 `json:"expires_in"`

	DeviceCode      string  `json:"device_code"`
	UserCode        string  `json:"user_code"`
	VerificationURI string  `json:"verification_uri"`
	Interval        float64 `json:"interval"`

	Error       json.RawMessage `json:"error"`
	Description string          `json:"error_description"`
}

// failure is the server's error, which some write as a text and some as an object.
func (a *answer) failure(l *config.LoginService) error {
	if len(a.Error) == 0 || string(a.Error) == "null" {
		return nil
	}
	out := &AnswerError{Login: l.Name, Service: l.Title, Description: clip(a.Description)}
	var object struct {
		Code, Type, Message string
	}
	if json.Unmarshal(a.Error, &out.Code) != nil && json.Unmarshal(a.Error, &object) == nil {
		out.Code, out.Description = object.Code, clip(object.Message)
		if out.Code == "" {
			out.Code = object.Type
		}
	}
	if out.Code = clip(out.Code); out.Code == "" {
		out.Code = "an error without a name"
	}
	return out
}

// clip makes a server's word fit for one line.
func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	return text
}

// ask sends one question in the form that the service reads.
func (c *Client) ask(ctx context.Context, l *config.LoginService, to string, form config.LoginForm,
	q url.Values) (*answer, error) {
	kind, body := "application/x-www-form-urlencoded", []byte(q.Encode())
	if form == config.FormJSON {
		flat := map[string]string{}
		for key := range q {
			flat[key] = q.Get(key)
		}
		text, err := json.Marshal(flat)
		if err != nil {
			return nil, errors.New("a question that cannot be written")
		}
		kind, body = "application/json", text
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: its address %q: %w", l.Title, to, err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", l.Title, err) // an URL without its query, which has none
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("ask %s: read its answer: %w", l.Title, err)
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("ask %s: an answer of more than %d bytes", l.Title, maxAnswer)
	}
	// The text is never shown: it may hold a token.
	a := &answer{}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if json.Unmarshal(text, a) != nil {
		return nil, fmt.Errorf("ask %s: status %d with an answer that is no JSON (%s)", l.Title, resp.StatusCode, clip(media))
	}
	if err := a.failure(l); err != nil {
		return a, err
	}
	if resp.StatusCode != http.StatusOK {
		return a, fmt.Errorf("ask %s: status %d", l.Title, resp.StatusCode)
	}
	return a, nil
}

// tokens are what an answer has; before are those that it renews.
func (c *Client) tokens(l *config.LoginService, a *answer, before Tokens) (Tokens, error) {
	out := before
	var err error
	if out.Access, err = secret.New(a.AccessToken); err != nil {
		return out, fmt.Errorf("%s gave no access token: %w", l.Title, err)
	}
	if a.RefreshToken != "" { // without one the old stays
		if out.Refresh, err = secret.New(a.RefreshToken); err != nil {
			return out, fmt.Errorf("%s gave a refresh token that is none: %w", l.Title, err)
		}
	}
	out.Expires = time.Time{}
	if a.ExpiresIn > 0 {
		out.Expires = c.Now().Add(time.Duration(min(a.ExpiresIn, lasting.Seconds()) * float64(time.Second)))
	}
	parts := map[string]secret.Value{}
	for _, p := range l.Parts {
		text := map[string]string{"id_token": a.IDToken, "access_token": a.AccessToken}[p.Token]
		if text == "" {
			parts[p.Secret] = before.Parts[p.Secret]
			continue
		}
		value, err := claim(text, p.Claim)
		if err != nil {
			return out, fmt.Errorf("%s gave no %s: %w", l.Title, p.Secret, err)
		}
		parts[p.Secret] = value
	}
	out.Parts = parts
	return out, nil
}

// claim is a text in a token's claims. The token came from the service itself, over
// TLS, so its signature is no one's proof of more.
func claim(token string, path []string) (secret.Value, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return secret.Value{}, errors.New("the token has no claims")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var at any
	if err != nil || json.Unmarshal(text, &at) != nil {
		return secret.Value{}, errors.New("the token has claims that cannot be read")
	}
	for _, key := range path {
		object, _ := at.(map[string]any)
		at = object[key]
	}
	found, _ := at.(string)
	return secret.New(found)
}

// Old reports whether tokens are to be renewed before they are used.
func (c *Client) Old(t Tokens) bool {
	return !t.Expires.IsZero() && !t.Refresh.IsZero() && c.Now().After(t.Expires.Add(-renewBefore))
}

// Over reports whether a service refuses them by now.
func (c *Client) Over(t Tokens) bool { return !t.Expires.IsZero() && c.Now().After(t.Expires) }

// Renew gets new tokens for old ones. The old ones are worth nothing then: many
// services give a refresh token once.
func (c *Client) Renew(ctx context.Context, l *config.LoginService, t Tokens) (Tokens, error) {
	if t.Refresh.IsZero() {
		return t, &AnswerError{Login: l.Name, Service: l.Title, Code: "expired_token",
			Description: "it gave nothing to renew it with"}
	}
	q := url.Values{"grant_type": {"refresh_token"}, "client_id": {l.ClientID}, "refresh_token": {t.Refresh.Reveal()}}
	if scopes := slices.DeleteFunc(slices.Clone(l.Scopes), func(s string) bool {
		return s == "offline_access"
	}); len(scopes) > 0 {
		q.Set("scope", strings.Join(scopes, " "))
	}
	a, err := c.ask(ctx, l, l.TokenURL, l.Refresh, q)
	if err != nil {
		return t, err
	}
	return c.tokens(l, a, t)
}

// sealed are tokens as the vault keeps them.
type sealed struct {
	Access  string            `json:"access"`
	Refresh string            `json:"refresh,omitempty"`
	Expires time.Time         `json:"expires,omitzero"`
	Parts   map[string]string `json:"parts,omitempty"`
}

// Seal is the tokens as one value, to be kept.
func (t Tokens) Seal() secret.Value {
	s := sealed{Access: t.Access.Reveal(), Refresh: t.Refresh.Reveal(), Expires: t.Expires, Parts: map[string]string{}}
	for name, v := range t.Parts {
		s.Parts[name] = v.Reveal()
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic("oauth: texts cannot be encoded") // they can
	}
	return secret.Seal(string(text))
}

// Open reads what Seal made.
func Open(v secret.Value) (Tokens, error) {
	var s sealed
	if json.Unmarshal([]byte(v.Reveal()), &s) != nil || s.Access == "" {
		return Tokens{}, errors.New("what is kept of this login cannot be read")
	}
	t := Tokens{Access: secret.Seal(s.Access), Expires: s.Expires, Parts: map[string]secret.Value{}}
	if s.Refresh != "" {
		t.Refresh = secret.Seal(s.Refresh)
	}
	for name, text := range s.Parts {
		t.Parts[name] = secret.Seal(text)
	}
	return t, nil
}
