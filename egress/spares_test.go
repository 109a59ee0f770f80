package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
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
