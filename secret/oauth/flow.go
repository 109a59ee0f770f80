package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"cloister/config"
)

// A Flow is a login under way.
type Flow struct {
	// URL is where the person goes, and Code what is typed there; empty where the
	// URL says all.
	URL, Code string
	// Expires is when it is too late.
	Expires time.Time

	c        *Client
	l        *config.LoginService
	device   string
	interval time.Duration
	redirect string
	state    string
	verifier string
}

// Begin begins a login. redirect is where a browser's way back leads to, on this
// host; empty for a login by code.
func (c *Client) Begin(ctx context.Context, l *config.LoginService, redirect string) (*Flow, error) {
	f := &Flow{c: c, l: l, redirect: redirect, Expires: c.Now().Add(flowWithin)}
	if l.Flow == config.FlowBrowser {
		return f, f.authorize()
	}
	q := url.Values{"client_id": {l.ClientID}}
	if len(l.Scopes) > 0 {
		q.Set("scope", strings.Join(l.Scopes, " "))
	}
	a, err := c.ask(ctx, l, l.DeviceURL, config.FormURL, q)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(a.VerificationURI)
	if err != nil || u.Scheme != "https" || a.DeviceCode == "" || a.UserCode == "" {
		return nil, fmt.Errorf("%s gave no code for a person, or no https address to type it at", l.Title)
	}
	f.URL, f.Code, f.device = u.String(), clip(a.UserCode), a.DeviceCode
	if a.ExpiresIn > 0 {
		f.Expires = c.Now().Add(min(time.Duration(a.ExpiresIn)*time.Second, flowWithin))
	}
	f.interval = pollEvery
	if a.Interval > 0 {
		f.interval = min(max(time.Duration(a.Interval*float64(time.Second)), 10*time.Millisecond), time.Minute)
	}
	return f, nil
}

func (f *Flow) authorize() error {
	u, err := url.Parse(f.l.AuthorizeURL)
	if err != nil {
		return fmt.Errorf("%s: its address: %w", f.l.Title, err)
	}
	f.state, f.verifier = rand.Text(), rand.Text()+rand.Text()
	sum := sha256.Sum256([]byte(f.verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {f.l.ClientID}, "redirect_uri": {f.redirect}, "state": {f.state},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	if len(f.l.Scopes) > 0 {
		q.Set("scope", strings.Join(f.l.Scopes, " "))
	}
	for key, value := range f.l.Params {
		q.Set(key, value)
	}
	u.RawQuery = q.Encode()
	f.URL = u.String()
	return nil
}

// Answer is the code in the address that a browser ended at; what a person pastes
// may also be the code alone, as CODE#STATE.
func (f *Flow) Answer(text string) (code string, err error) {
	text = strings.TrimSpace(text)
	code, state, _ := strings.Cut(text, "#")
	var said error
	if u, err := url.Parse(text); err == nil && u.Scheme != "" && u.Host != "" {
		q := u.Query()
		if code, state = q.Get("code"), q.Get("state"); q.Get("error") != "" {
			said = &AnswerError{Login: f.l.Name, Service: f.l.Title, Code: clip(q.Get("error")),
				Description: clip(q.Get("error_description"))}
		}
	}
	switch {
	case state != f.state:
		return "", errors.New("it is not the answer to this login: its state is another")
	case said != nil:
		return "", said
	case code == "":
		return "", errors.New("there is no code in it")
	}
	return code, nil
}

// Exchange makes tokens of a code.
func (f *Flow) Exchange(ctx context.Context, code string) (Tokens, error) {
	q := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {f.l.ClientID}, "code": {code}, "redirect_uri": {f.redirect},
		"code_verifier": {f.verifier},
	}
	if f.l.Exchange == config.FormJSON {
		q.Set("state", f.state)
	}
	a, err := f.c.ask(ctx, f.l, f.l.TokenURL, f.l.Exchange, q)
	if err != nil {
		return Tokens{}, err
	}
	return f.c.tokens(f.l, a, Tokens{})
}

// Poll waits until the person has typed the code.
func (f *Flow) Poll(ctx context.Context) (Tokens, error) {
	q := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "client_id": {f.l.ClientID},
		"device_code": {f.device}}
	for {
		timer := time.NewTimer(f.interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return Tokens{}, ctx.Err()
		case <-timer.C:
		}
		if f.c.Now().After(f.Expires) {
			return Tokens{}, &AnswerError{Login: f.l.Name, Service: f.l.Title, Code: "expired_token",
				Description: "nobody typed the code in time"}
		}
		a, err := f.c.ask(ctx, f.l, f.l.TokenURL, config.FormURL, q)
		if said, ok := errors.AsType[*AnswerError](err); ok {
			switch said.Code {
			case "authorization_pending":
				continue
			case "slow_down": // RFC 8628, 3.5: five seconds more, and from then on
				f.interval += 5 * time.Second
				continue
			}
		}
		if err != nil {
			return Tokens{}, err
		}
		return f.c.tokens(f.l, a, Tokens{})
	}
}
