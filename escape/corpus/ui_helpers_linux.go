package corpus

import (
	"cloister/escape"
	"cloister/escape/browser"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// window is the guardian's door for browsers, and one that was let in.
type window struct {
	r            *ruled
	at           string // 127.0.0.1:PORT
	cookie, word string
	public       []byte
}

// open asks for a link and, as a browser, trades it.
func (r *ruled) open() (*window, error) {
	v := &window{r: r}
	secret, err := v.link()
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if v.public, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		return nil, err
	}
	return v, v.enter(secret)
}

// link is the secret of a new one.
func (v *window) link() (string, error) {
	res := v.r.cloister("guardian", "open", "--no-browser")
	u, err := url.Parse(strings.TrimSpace(res.Stdout))
	if err != nil || u.Fragment == "" {
		return "", fmt.Errorf("open the window: %q %s %w", res.Stdout, res.Stderr, err)
	}
	v.at = u.Host
	return u.Fragment, nil
}

// enter trades a link for a cookie and a word.
func (v *window) enter(secret string) error {
	body, err := json.Marshal(map[string]any{"link": secret, "public": v.public})
	if err != nil {
		return err
	}
	res := browser.Ask(v.at, "POST /login/link HTTP/1.1\r\nHost: "+v.at+"\r\nOrigin: http://"+v.at+"\r\nContent-Type: application/json\r\nContent-Length: "+itoa(len(body))+"\r\n\r\n"+string(body))
	if res.Status != http.StatusOK {
		return fmt.Errorf("a good link is refused: %d %s", res.Status, res.Body)
	}
	var word struct{ Word string }
	if err := json.Unmarshal([]byte(res.Body), &word); err != nil {
		return err
	}
	v.cookie, _, _ = strings.Cut(res.Head.Get("Set-Cookie"), ";")
	v.word = word.Word
	return nil
}

// request is one of our own page, some fields of it replaced; an empty value
// takes a field away.
func (v *window) request(method, path string, fields ...[2]string) string {
	return browser.Request(v.at, [2]string{v.cookie, v.word}, method, path, fields...)
}

// refused is a finding that a request got one of the statuses, and no data.
func (v *window) refused(name, text string, statuses ...int) escape.Finding {
	res := browser.Ask(v.at, text)
	return found(name, slices.Contains(statuses, res.Status), "%d %.200s", res.Status, res.Body)
}

// reloads is the control of what must not happen: our own page does it.
func (v *window) reloads() escape.Finding {
	res := browser.Ask(v.at, v.request("POST", "/v1/reload"))
	return found("control: the window's own page may", res.Status == http.StatusOK, "%d %s", res.Status, res.Body)
}

// windowed is the Host of a case that has an open window.
func windowed(look func(v *window) []escape.Finding) func(w *escape.World) []escape.Finding {
	return with(func(*escape.World) string { return "version: 1\nproxy: {presets: []}\n" }, func(r *ruled) []escape.Finding {
		r.cloister("guardian", "start")
		v, err := r.open()
		if err != nil {
			return escape.NoHost("open the window", err)
		}
		return look(v)
	})
}
