package egress_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/egress"
	"cloister/egress/verdict"
)

func serveTLS(t testing.TB) *upstream {
	cert := selfSigned(t, "api.test")
	return serve(t, func(c net.Conn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		if s.Handshake() == nil {
			_, _ = io.Copy(s, s)
		}
	})
}

func TestTLSTunnel(t *testing.T) {
	u := serveTLS(t)
	w := newWorld(t, map[string]string{"api.test": u.addr})
	raw := w.dial("api.test", 443)
	c := tls.Client(raw, &tls.Config{ServerName: "API.test", InsecureSkipVerify: true})
	write(t, c, "hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	c.Close()
	f := w.flow("end of tunnel", func(f verdict.Flow) bool { return f.Kind == verdict.Connect })
	if f.Authority.String() != "api.test:443" || f.Reason != "" || f.Up < 200 || f.Down < 200 || f.Dialed.String() != u.addr || f.Via != verdict.ViaDirect {
		t.Errorf("flow %+v", f)
	}
}

// A refused hello reaches nobody, is recorded, and the program reads why.
func TestSNIRefused(t *testing.T) {
	tests := []struct {
		name, sni, reason string
	}{
		{"other name", "evil.test", "not the name"},
		{"no name", "", "without server name"},
		{"suffix", "xapi.test", "not the name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := serveTLS(t)
			w := newWorld(t, map[string]string{"api.test": u.addr})
			c := tls.Client(w.dial("api.test", 443), &tls.Config{ServerName: tt.sni, InsecureSkipVerify: true})
			err := c.Handshake()
			if err == nil || !strings.Contains(err.Error(), "access denied") {
				t.Errorf("handshake: %v", err)
			}
			w.reason(tt.reason)
			if n := u.accepted(); n != 0 {
				t.Errorf("upstream saw %d connections", n)
			}
		})
	}
}

// A literal address goes without server name, or with itself.
func TestLiteralAddress(t *testing.T) {
	u := serveTLS(t)
	w := newWorld(t, map[string]string{"203.0.113.7": u.addr})
	for _, tt := range []struct {
		sni string
		ok  bool
	}{{"", true}, {"api.test", false}} {
		c := tls.Client(w.connect("203.0.113.7:443"), &tls.Config{ServerName: tt.sni, InsecureSkipVerify: true})
		if err := c.Handshake(); (err == nil) != tt.ok {
			t.Errorf("server name %q: %v", tt.sni, err)
		}
		c.Close()
	}
}

// Where the server cannot be reached the program is told that, not a refusal.
func TestUnreachable(t *testing.T) {
	w := newWorld(t, map[string]string{"api.test": "127.0.0.1:1"})
	err := tls.Client(w.dial("api.test", 443), &tls.Config{ServerName: "api.test"}).Handshake()
	if err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("tls: %v", err)
	}
	c := w.dial("api.test", 80)
	write(t, c, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if got, _ := readAll(t, c); !strings.HasPrefix(got, "HTTP/1.1 502 ") || !strings.Contains(got, "connection refused") {
		t.Errorf("http: %q", got)
	}
	w.reason("connection refused")
}

func TestPort443TakesTLSOnly(t *testing.T) {
	u := serve(t, echo)
	w := newWorld(t, map[string]string{"api.test": u.addr})
	c := w.dial("api.test", 443)
	write(t, c, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	got, _ := readAll(t, c)
	if !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "port 443 takes TLS") {
		t.Errorf("got %q", got)
	}
	c = w.dial("api.test", 443)
	write(t, c, "\x00\x01binary")
	if got, reset := readAll(t, c); got != "" || !reset {
		t.Errorf("got %q, reset %v", got, reset)
	}
	if n := u.accepted(); n != 0 {
		t.Errorf("upstream saw %d connections", n)
	}
	c = w.dial("api.test", 443)
	write(t, c, "SSH-2.0-x\r\n")
	if got := readN(t, c, 11); got != "SSH-2.0-x\r\n" {
		t.Errorf("ssh: got %q", got)
	}
}

func readN(t testing.TB, c net.Conn, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A ClientHello that trickles in is refused by the deadline, not let through.
func TestSlowHello(t *testing.T) {
	u := serve(t, echo)
	w := newWorld(t, map[string]string{"api.test": u.addr}, func(c *egress.Config) { c.Limits.Handshake = time.Second })
	c := w.dial("api.test", 443)
	write(t, c, "\x16\x03\x01\x02\x00\x01")
	got, _ := readAll(t, c)
	if got != "\x15\x03\x03\x00\x02\x02\x31" {
		t.Errorf("got %q, want an alert", got)
	}
	w.reason("not there in time")
	if n := u.accepted(); n != 0 {
		t.Errorf("upstream saw %d connections", n)
	}
}

func TestAnyPort(t *testing.T) {
	t.Run("server speaks first", func(t *testing.T) {
		u := serve(t, func(c net.Conn) {
			_, _ = io.WriteString(c, "220 hello\r\n")
			echo(c)
		})
		w := newWorld(t, map[string]string{"mail.test": u.addr})
		c := w.dial("mail.test", 25)
		if got := readN(t, c, 11); got != "220 hello\r\n" {
			t.Fatalf("greeting %q", got)
		}
		write(t, c, "EHLO x\r\n")
		if got := readN(t, c, 8); got != "EHLO x\r\n" {
			t.Fatalf("answer %q", got)
		}
	})
	t.Run("binary client first", func(t *testing.T) {
		w := newWorld(t, map[string]string{"db.test": serve(t, echo).addr})
		c := w.dial("db.test", 5432)
		write(t, c, "\x00\x00\x00\x08")
		if got := readN(t, c, 4); got != "\x00\x00\x00\x08" {
			t.Fatalf("got %q", got)
		}
	})
	t.Run("half-close without a byte", func(t *testing.T) {
		w := newWorld(t, map[string]string{"day.test": serve(t, func(c net.Conn) {
			_, _ = io.Copy(io.Discard, c)
			_, _ = io.WriteString(c, "bye")
		}).addr})
		c := w.dial("day.test", 13)
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, _ := readAll(t, c); got != "bye" {
			t.Fatalf("got %q", got)
		}
	})
	t.Run("tls with another name", func(t *testing.T) {
		w := newWorld(t, map[string]string{"api.test": serveTLS(t).addr})
		err := tls.Client(w.dial("api.test", 8443), &tls.Config{ServerName: "evil.test", InsecureSkipVerify: true}).Handshake()
		if err == nil || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("handshake: %v", err)
		}
		w.reason("not the name")
	})
	t.Run("tls with the right name", func(t *testing.T) {
		w := newWorld(t, map[string]string{"api.test": serveTLS(t).addr})
		c := tls.Client(w.dial("api.test", 8443), &tls.Config{ServerName: "api.test", InsecureSkipVerify: true})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		c.Close()
	})
	t.Run("http with another host", func(t *testing.T) {
		s := serveText(t, func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" })
		w := newWorld(t, map[string]string{"api.test": s.addr})
		c := w.dial("api.test", 8080)
		write(t, c, "GET / HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n")
		if got, _ := readAll(t, c); !strings.HasPrefix(got, "HTTP/1.1 421 ") {
			t.Errorf("got %q", got)
		}
		if len(s.seen()) != 0 {
			t.Errorf("upstream saw %q", s.seen())
		}
	})
	t.Run("http with the right host", func(t *testing.T) {
		s := serveText(t, func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" })
		w := newWorld(t, map[string]string{"api.test": s.addr})
		c := w.dial("api.test", 8080)
		write(t, c, "GET / HTTP/1.1\r\nHost: api.test:8080\r\nConnection: close\r\n\r\n")
		if got, _ := readAll(t, c); !strings.HasSuffix(got, "\r\n\r\nok") {
			t.Errorf("got %q", got)
		}
		if len(s.seen()) != 1 || !strings.Contains(s.seen()[0], "Host: api.test:8080\r\n") {
			t.Errorf("upstream saw %q", s.seen())
		}
	})
	t.Run("http after the server spoke", func(t *testing.T) {
		u := serve(t, func(c net.Conn) {
			_, _ = io.WriteString(c, "hi")
			_, _ = io.Copy(io.Discard, c)
		})
		w := newWorld(t, map[string]string{"api.test": u.addr})
		c := w.dial("api.test", 8080)
		readN(t, c, 2)
		write(t, c, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
		readAll(t, c)
		w.reason("spoke first")
	})
	t.Run("http in pieces", func(t *testing.T) {
		s := serveText(t, func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" })
		w := newWorld(t, map[string]string{"api.test": s.addr})
		c := w.dial("api.test", 8080)
		for _, part := range []string{"G", "ET / HTTP/1", ".1\r", "\nHost: evil.test\r\n\r\n"} {
			write(t, c, part)
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // so that the parts are segments
		}
		if got, _ := readAll(t, c); !strings.HasPrefix(got, "HTTP/1.1 421 ") {
			t.Errorf("got %q", got)
		}
	})
}

// Every way of refusing ends quickly and tells what it can.
func TestDenied(t *testing.T) {
	dial := func(t *testing.T) (*world, *net.TCPConn) {
		w := newWorld(t, nil)
		return w, w.connect("203.0.113.9:443")
	}
	t.Run("silent program", func(t *testing.T) {
		_, c := dial(t)
		start := time.Now()
		if got, reset := readAll(t, c); got != "" || !reset {
			t.Errorf("got %q, reset %v", got, reset)
		}
		if d := time.Since(start); d > 10*time.Second { // 250 ms, where nobody else wants the processor
			t.Errorf("took %v", d)
		}
	})
	t.Run("tls", func(t *testing.T) {
		_, c := dial(t)
		err := tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake()
		if err == nil || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("handshake: %v", err)
		}
	})
	t.Run("http", func(t *testing.T) {
		w := newWorld(t, nil)
		c := w.connect("203.0.113.9:80")
		write(t, c, "GET / HTTP/1.1\r\nHost: 203.0.113.9\r\n\r\n")
		got, _ := readAll(t, c)
		for _, want := range []string{"HTTP/1.1 403 ", "application/json", `"host": "203.0.113.9"`, `"--allow 203.0.113.9"`, `"verdict": "deny"`} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
	})
	t.Run("http as text", func(t *testing.T) {
		w := newWorld(t, nil)
		c := w.connect("203.0.113.9:80")
		write(t, c, "GET / HTTP/1.1\r\nHost: 203.0.113.9\r\nAccept: text/html, */*\r\n\r\n")
		if got, _ := readAll(t, c); !strings.Contains(got, "hint:   --allow 203.0.113.9\n") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("raw", func(t *testing.T) {
		w := newWorld(t, nil)
		c := w.connect("203.0.113.9:9999")
		write(t, c, "\x01")
		if got, reset := readAll(t, c); got != "" || !reset {
			t.Errorf("got %q, reset %v", got, reset)
		}
	})
	t.Run("address that no name has", func(t *testing.T) {
		w := newWorld(t, nil)
		w.set("*", allow())
		c := w.connect("198.18.7.7:443")
		if got, reset := readAll(t, c); got != "" || !reset {
			t.Errorf("got %q, reset %v", got, reset)
		}
		w.reason("no name has this address")
	})
	t.Run("a port of the gate", func(t *testing.T) {
		w := newWorld(t, nil)
		w.set("*", allow())
		if got, reset := readAll(t, w.connect("198.18.0.1:22")); got != "" || !reset {
			t.Errorf("got %q, reset %v", got, reset)
		}
	})
}

func TestHalfClose(t *testing.T) {
	w := newWorld(t, map[string]string{"db.test": serve(t, func(c net.Conn) {
		b, _ := io.ReadAll(c)
		_, _ = c.Write(bytes.ToUpper(b))
	}).addr})
	c := w.dial("db.test", 5000)
	write(t, c, "\x01abc")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, reset := readAll(t, c); got != "\x01ABC" || reset {
		t.Errorf("got %q, reset %v", got, reset)
	}
	f := w.flow("end", func(f verdict.Flow) bool { return f.Kind == verdict.Connect })
	if f.Up != 4 || f.Down != 4 || f.Reason != "" {
		t.Errorf("flow %+v", f)
	}
}

// After one side has ended the other may not be silent for ever, but as long
// as it speaks it goes on.
func TestHalfClosedLimit(t *testing.T) {
	for _, tt := range []struct {
		name    string
		dots    int
		silence bool
	}{
		{"speaks", 14, false}, // for longer than the limit
		{"is silent", 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for !halfClosed(t, tt.dots, tt.silence) {
				t.Log("this machine stood still meanwhile, which is silence: once more")
			}
		})
	}
}

// halfClosed has a peer say dots after the other side has ended, then maybe nothing
// more, and looks at what came. It is false where the peer itself was kept from speaking
// for so long that what came says nothing.
func halfClosed(t *testing.T, dots int, silence bool) (told bool) {
	t.Helper()
	const limit = 5 * time.Second // a busy machine is silent for seconds
	over, ended, longest := make(chan struct{}), make(chan time.Time, 1), make(chan time.Duration, 1)
	defer close(over)
	w := newWorld(t, map[string]string{"db.test": serve(t, func(c net.Conn) {
		_, _ = io.Copy(io.Discard, c)
		last, gap := <-ended, time.Duration(0)
		for range dots {
			time.Sleep(400 * time.Millisecond) //nolint:forbidigo // a slow peer
			_, _ = io.WriteString(c, ".")
			gap, last = max(gap, time.Since(last)), time.Now()
		}
		longest <- gap
		if silence {
			<-over
		}
	}).addr}, func(c *egress.Config) { c.Limits.HalfClosed = limit })
	c := w.dial("db.test", 5000)
	write(t, c, "\x01")
	ended <- time.Now()
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, reset := readAll(t, c)
	if <-longest > limit*4/5 {
		return false
	}
	if got != strings.Repeat(".", dots) || reset != silence {
		t.Errorf("got %q, reset %v", got, reset)
	}
	if silence {
		w.reason("silent for too long")
	}
	return true
}

// Bulk in both directions, through the trickle and the spliced path and back.
func TestBulk(t *testing.T) {
	w := newWorld(t, map[string]string{"db.test": serve(t, echo).addr})
	c := w.dial("db.test", 5000)
	data := make([]byte, 8<<20)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = c.Write(data[:4<<20])
		time.Sleep(1500 * time.Millisecond) //nolint:forbidigo // the splice gives its pipe back
		_, _ = c.Write(data[4<<20:])
		_ = c.CloseWrite()
	})
	got, err := io.ReadAll(c)
	wg.Wait()
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes of %d, %v", len(got), len(data), err)
	}
	f := w.flow("end", func(f verdict.Flow) bool { return f.Kind == verdict.Connect })
	if f.Up != int64(len(data)) || f.Down != int64(len(data)) || f.Reason != "" {
		t.Errorf("flow %+v", f)
	}
}

func TestRecheck(t *testing.T) {
	w := newWorld(t, map[string]string{"keep.test": serve(t, echo).addr, "drop.test": serve(t, echo).addr})
	keep, drop := w.dial("keep.test", 5000), w.dial("drop.test", 5000)
	for _, c := range []net.Conn{keep, drop} {
		write(t, c, "\x01")
		readN(t, c, 1)
	}
	w.set("drop.test", verdict.Answer{})
	w.engine.Recheck(t.Context())
	if got, reset := readAll(t, drop); got != "" || !reset {
		t.Errorf("got %q, reset %v", got, reset)
	}
	f := w.reason("no longer allowed")
	if f.Authority.Host() != "drop.test" || f.Up != 1 || f.Down != 1 {
		t.Errorf("flow %+v", f)
	}
	write(t, keep, "\x02")
	if got := readN(t, keep, 1); got != "\x02" {
		t.Errorf("kept tunnel: %q", got)
	}
}

// A verdict that is on its way while policy changes does not count.
func TestRecheckWhileDeciding(t *testing.T) {
	u := serve(t, echo)
	w := newWorld(t, map[string]string{"db.test": u.addr})
	var once sync.Once
	w.mu.Lock()
	w.decided = func(_ context.Context, q verdict.Query) {
		if q.Kind == verdict.Connect {
			once.Do(func() {
				w.set("db.test", verdict.Answer{})
				w.engine.Recheck(t.Context())
			})
		}
	}
	w.mu.Unlock()
	c := w.dial("db.test", 5000)
	write(t, c, "\x01")
	if got, reset := readAll(t, c); got != "" || !reset {
		t.Errorf("got %q, reset %v", got, reset)
	}
	if n := u.accepted(); n != 0 {
		t.Errorf("upstream saw %d connections", n)
	}
}

func TestConnectionCap(t *testing.T) {
	w := newWorld(t, map[string]string{"db.test": serve(t, echo).addr}, func(c *egress.Config) { c.Limits.Connections = 2 })
	a, b := w.dial("db.test", 5000), w.dial("db.test", 5000)
	for _, c := range []net.Conn{a, b} {
		write(t, c, "\x01")
		readN(t, c, 1)
	}
	if _, reset := readAll(t, w.dial("db.test", 5000)); !reset {
		t.Error("third connection was not reset")
	}
	w.reason("more than 2 connections")
	a.Close()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); { // the slot is free soon after the connection has ended
		c := w.dial("db.test", 5000)
		_, err := c.Write([]byte{1})
		if err == nil {
			if _, err = io.ReadFull(c, make([]byte, 1)); err == nil {
				return
			}
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // nothing tells that a slot is free
	}
	t.Error("the slot was not given back")
}

// What cannot be recorded is not explained either.
func TestJournalFails(t *testing.T) {
	w := newWorld(t, map[string]string{"api.test": serve(t, echo).addr})
	w.mu.Lock()
	w.deaf = true
	w.mu.Unlock()
	c := w.dial("api.test", 443)
	write(t, c, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if got, reset := readAll(t, c); got != "" || !reset {
		t.Errorf("got %q, reset %v", got, reset)
	}
}
