package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ask is one request on a connection of its own; the answer is its body.
func (w *inspected) ask(method, fields, body string) string {
	w.t.Helper()
	c := w.open()
	defer c.Close()
	if body != "" {
		fields += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	if _, err := fmt.Fprintf(c, "%s /x HTTP/1.1\r\nHost: %s\r\n%s\r\n%s", method, readHost, fields, body); err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s %s (%v)", resp.Status, text, err)
	}
	return string(text)
}

// askUntil asks until the answer is wanted: a connection is lent a moment after its
// program has gone.
func (w *inspected) askUntil(want func(string) bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if want(w.ask("GET", "", "")) {
			return
		}
	}
	w.t.Error("it never came")
}

// A program's next connection to a server gets the one that the last one left,
// unless its request could not be sent twice, or the one before had logged in.
func TestSparesAreLent(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, r.RemoteAddr)
	})))
	last := ""
	w.askUntil(func(at string) bool {
		same := at == last
		last = at
		return same
	})
	if at := w.ask("POST", "", "body"); at == last {
		t.Error("a POST went over a connection that may end without a word")
	}
	seen := map[string]bool{}
	for range 20 {
		at := w.ask("GET", "Authorization: NTLM TlRMTVNTUAAB\r\n", "")
		if seen[at] {
			t.Errorf("%s was logged in, and lent", at)
		}
		seen[at] = true
	}
}

// corked holds what is written until it is let go, so that many TLS records are one
// segment.
type corked struct {
	net.Conn
	mu   sync.Mutex
	held []byte
	on   bool
}

func (c *corked) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *corked) cork(on bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.Conn.Write(c.held)
	c.held, c.on = nil, on
	return err
}

// What a server says too much is in the memory of TLS and not of the kernel, and is
// nobody's answer.
func TestSpareThatSaysMore(t *testing.T) {
	ca := newTestCA(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{ca.leaf(nil, readHost)}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	var more atomic.Bool
	more.Store(true)
	serve := func(raw net.Conn) {
		defer raw.Close()
		under := &corked{Conn: raw}
		c := tls.Server(under, cfg)
		r := bufio.NewReader(c)
		for {
			if _, err := readHead(r); err != nil || under.cork(true) != nil {
				return
			}
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(raw.RemoteAddr().String()), raw.RemoteAddr())
			if more.Load() {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
			}
			if under.cork(false) != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	w := newInspectedBy(t, ca, ln.Addr().String())
	for range 20 {
		if text := w.ask("GET", "", ""); text == "forged" {
			t.Fatal("a program got what was left of another's answer")
		}
	}
	more.Store(false)
	last := "" // control: the others are lent
	w.askUntil(func(at string) bool {
		same := at == last
		last = at
		return same
	})
}

// A server may end a connection as it is lent: the request is sent again, and the
// program learns nothing of it.
func TestSpareThatEnds(t *testing.T) {
	ca := newTestCA(t)
	var second atomic.Int64
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{ca.leaf(nil, readHost)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func(c net.Conn) {
				defer c.Close()
				r := bufio.NewReader(c)
				if head, err := readHead(r); err != nil || !strings.HasPrefix(head, "GET") {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
				if _, err := readHead(r); err == nil {
					second.Add(1)
				}
			}(c)
		}
	}()
	w := newInspectedBy(t, ca, ln.Addr().String())
	w.askUntil(func(text string) bool { return text == "hello" && second.Load() > 2 })
}
