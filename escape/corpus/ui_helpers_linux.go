package corpus

import (
	"bufio"
	"cloister/escape"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
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
	res := v.ask("POST /login/link HTTP/1.1\r\nHost: " + v.at + "\r\nOrigin: http://" + v.at + "\r\nContent-Type: application/json\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + string(body))
	if res.status != http.StatusOK {
		return fmt.Errorf("a good link is refused: %d %s", res.status, res.body)
	}
	var word struct{ Word string }
	if err := json.Unmarshal([]byte(res.body), &word); err != nil {
		return err
	}
	v.cookie, _, _ = strings.Cut(res.head.Get("Set-Cookie"), ";")
	v.word = word.Word
	return nil
}

// said is what the window answered; status 0: nothing.
type said struct {
	status int
	head   http.Header
	body   string
}

// ask sends a request as it is. Of a stream the beginning is read.
func (v *window) ask(text string) said {
	c, err := net.DialTimeout("tcp", v.at, 5*time.Second)
	if err != nil {
		return said{body: err.Error()}
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return said{body: err.Error()}
	}
	if _, err := c.Write([]byte(text)); err != nil {
		return said{body: err.Error()}
	}
	method, _, _ := strings.Cut(text, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return said{body: err.Error()}
	}
	defer res.Body.Close()
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return said{res.StatusCode, res.Header, "a stream"}
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return said{res.StatusCode, res.Header, err.Error()}
	}
	return said{res.StatusCode, res.Header, string(body)}
}

// request is one of our own page, some fields of it replaced; an empty value
// takes a field away.
func (v *window) request(method, path string, fields ...[2]string) string {
	head := [][2]string{{"Host", v.at}, {"Origin", "http://" + v.at}, {"Sec-Fetch-Site", "same-origin"}, {"Cookie", v.cookie}, {"Cloister-Window", v.word}}
	if method == "POST" {
		head = append(head, [2]string{"Content-Type", "application/json"}, [2]string{"Content-Length", "2"})
	}
	for _, f := range fields {
		i := slices.IndexFunc(head, func(h [2]string) bool { return h[0] == f[0] })
		if i < 0 {
			head = append(head, f)
		} else {
			head[i] = f
		}
	}
	var b strings.Builder
	b.WriteString(method + " " + path + " HTTP/1.1\r\n")
	for _, h := range head {
		if h[1] != "" {
			b.WriteString(h[0] + ": " + h[1] + "\r\n")
		}
	}
	b.WriteString("\r\n")
	if method == "POST" {
		b.WriteString("{}")
	}
	return b.String()
}

// refused is a finding that a request got one of the statuses, and no data.
func (v *window) refused(name, text string, statuses ...int) escape.Finding {
	res := v.ask(text)
	return found(name, slices.Contains(statuses, res.status), "%d %.200s", res.status, res.body)
}

// reloads is the control of what must not happen: our own page does it.
func (v *window) reloads() escape.Finding {
	res := v.ask(v.request("POST", "/v1/reload"))
	return found("control: the window's own page may", res.status == http.StatusOK, "%d %s", res.status, res.body)
}

// windowed is the Host of a case that has an open window.
func windowed(look func(v *window) []escape.Finding) func(w *escape.World) []escape.Finding {
	return with(func(*escape.World) string { return "version: 1\nproxy: {presets: []}\n" }, func(r *ruled) []escape.Finding {
		r.cloister("guardian", "start")
		v, err := r.open()
		if err != nil {
			return noHost("open the window", err)
		}
		return look(v)
	})
}
