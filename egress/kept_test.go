package egress_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A body in bulk is passed on as it comes: what is there reaches the program while the
// server thinks about the rest, and every byte as it was.
func TestBulkWaitsForNothing(t *testing.T) {
	ca := newTestCA(t)
	text := make([]byte, 3<<20)
	_, _ = rand.Read(text)
	parts := []int{200_000, 40_000, 1, 70_000, 2_500_000}
	goOn := make(chan struct{})
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/after":
			return
		case "/counted":
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		default:
			w.Header().Set("Connection", "close")
			w.Header().Set("Transfer-Encoding", "identity") // to its end
		}
		left := text
		for _, n := range parts {
			_, _ = w.Write(left[:n])
			_ = http.NewResponseController(w).Flush()
			left = left[n:]
			select {
			case <-goOn:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = w.Write(left)
	}))
	w := newInspectedBy(t, ca, addr)
	for _, path := range []string{"/counted", "/to-its-end"} {
		c := w.open()
		patient(c)
		in := bufio.NewReader(c)
		write(t, c, "GET "+path+" HTTP/1.1\r\nHost: "+readHost+"\r\n\r\n")
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text))
		at := 0
		for _, n := range parts {
			if _, err := io.ReadFull(resp.Body, got[at:at+n]); err != nil {
				t.Fatalf("%s: %d of %d at %d: %v", path, n, len(text), at, err)
			}
			at += n
			select {
			case goOn <- struct{}{}:
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: the server has not written %d bytes", path, n)
			}
		}
		rest, err := io.ReadAll(resp.Body)
		if got = append(got[:at], rest...); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes of %d, %v", path, len(got), len(text), err)
		}
		if path == "/counted" { // the connection is at a message's end
			write(t, c, "GET /after HTTP/1.1\r\nHost: "+readHost+"\r\n\r\n")
			if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
				t.Errorf("after bulk: %v", err)
			}
		}
		_ = c.Close()
	}
}

// A server that ends in the middle of bulk: the program gets what came and no end that
// looks whole.
func TestBulkThatBreaks(t *testing.T) {
	ca := newTestCA(t)
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(make([]byte, 300_000))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	w := newInspectedBy(t, ca, addr)
	c := w.open()
	patient(c)
	write(t, c, "GET / HTTP/1.1\r\nHost: "+readHost+"\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, resp.Body); err == nil || n > 300_000 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// marked asks with a mark of its own and length; its answer holds that alone.
func marked(n int) (request, mark string) {
	mark = strings.Repeat(fmt.Sprintf("<%d>", n), 1+n*37%400)
	return "GET /" + strconv.Itoa(n) + " HTTP/1.1\r\nHost: " + readHost + "\r\nX-Mark: " + mark + "\r\n\r\n", mark
}

// Requests that come at once, in pieces and of many lengths on one connection are
// answered in order, and memory that is used again gives none what was another's.
func TestKeptRequests(t *testing.T) {
	ca := newTestCA(t)
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Saw", strings.Join(r.Header["X-Mark"], ","))
		_, _ = io.WriteString(w, r.URL.Path+" "+strings.Join(r.Header["X-Mark"], ","))
	}))
	w := newInspectedBy(t, ca, addr)
	c := w.open()
	patient(c)
	in := bufio.NewReader(c)
	answer := func(n int, mark string) {
		t.Helper()
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if want := "/" + strconv.Itoa(n) + " " + mark; err != nil || string(body) != want || resp.Header.Get("X-Saw") != mark {
			t.Fatalf("request %d: %.80q, want %.80q (%v)", n, body, want, err)
		}
	}
	var all strings.Builder
	for n := range 40 { // pipelined
		request, _ := marked(n)
		all.WriteString(request)
	}
	write(t, c, all.String())
	for n := range 40 {
		_, mark := marked(n)
		answer(n, mark)
	}
	for n := range 3 { // a record for each byte
		request, mark := marked(n)
		for _, b := range []byte(request) {
			write(t, c, string(b))
		}
		answer(n, mark)
	}
	for n := range 40 { // in turn
		request, mark := marked(40 - n)
		write(t, c, request)
		answer(40-n, mark)
	}
}

// A program that leaves while the server thinks is noticed, and the server told.
func TestInspectedProgramLeaves(t *testing.T) {
	ca := newTestCA(t)
	asked, gone := make(chan struct{}), make(chan struct{})
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(gone)
	}))
	w := newInspectedBy(t, ca, addr)
	c := w.open()
	write(t, c, "GET / HTTP/1.1\r\nHost: "+readHost+"\r\n\r\n")
	select {
	case <-asked:
	case <-time.After(20 * time.Second):
		t.Fatal("the server was not asked")
	}
	_ = c.NetConn().(*net.TCPConn).SetLinger(0)
	_ = c.NetConn().Close()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("the server was not told")
	}
}

// A server in TLS that answers by hand: one that closes after an answer, which is no
// harm, and one that says more than was asked, which no later request may get.
func TestInspectedServerBetween(t *testing.T) {
	ca := newTestCA(t)
	cert := ca.leaf(nil, readHost)
	for _, more := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"} {
		said := make(chan struct{}, 8)
		u := serve(t, func(raw net.Conn) {
			c := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}})
			in := bufio.NewReader(c)
			for {
				if _, err := readHead(in); err != nil {
					return
				}
				if _, err := io.WriteString(c, ok200); err != nil {
					return
				}
				if more == "" {
					_ = c.Close()
				} else {
					_, _ = io.WriteString(c, more)
				}
				said <- struct{}{}
			}
		})
		w := newInspectedBy(t, ca, u.addr)
		c := w.open()
		patient(c)
		for range 3 {
			write(t, c, "GET / HTTP/1.1\r\nHost: "+readHost+"\r\n\r\n")
			got := make([]byte, len(ok200))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != ok200 {
				t.Fatalf("got %q, %v", got, err)
			}
			<-said
		}
		if n := u.accepted(); n != 3 {
			t.Errorf("%d connections to the server, want 3", n)
		}
	}
}

// patient lets a test that would wait for ever fail instead.
func patient(c net.Conn) { _ = c.SetDeadline(time.Now().Add(30 * time.Second)) }
