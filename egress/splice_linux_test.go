package egress_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"cloister/egress"
	"cloister/egress/verdict"
)

// readByCalls is how many bytes this process has read by read(2), which is
// what Go's net uses; splice(2) is not counted there (fs/splice.c has no
// add_rchar).
func readByCalls(t testing.TB) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("no /proc/self/io: %v", err)
	}
	var n int64
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, "rchar: %d", &n); err == nil {
			return n
		}
	}
	t.Skip("no rchar in /proc/self/io")
	return 0
}

// bulk sends n bytes through c to a server that swallows them, and returns
// when it has them all.
func bulk(t testing.TB, c net.Conn, n int64) {
	t.Helper()
	if _, err := io.CopyN(c, zeros{}, n); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// swallow reads without read(2)'s count being doubled: it counts once, as any
// receiver would.
func swallow(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// The kernel carries the bulk of a tunnel, also of one whose first bytes were
// looked at: the process reads the bytes once, as the receiver, where a
// copying tunnel would make it twice. The control is a tunnel that copies.
func TestTunnelIsSpliced(t *testing.T) {
	const size = 64 << 20
	measure := func(c net.Conn) int64 {
		before := readByCalls(t)
		bulk(t, c, size)
		return readByCalls(t) - before
	}
	w := newWorld(t, map[string]string{"db.test": serve(t, swallow).addr})
	c := w.dial("db.test", 5000)
	write(t, c, "\x01looked at")
	if got := measure(c); got > size*5/4 {
		t.Errorf("%d bytes read by calls for %d", got, size)
	}
	control := serve(t, func(c net.Conn) {
		up, err := net.Dial("tcp", serve(t, swallow).addr)
		if err != nil {
			return
		}
		defer up.Close()
		_, _ = io.Copy(struct{ io.Writer }{up}, struct{ io.Reader }{c})
	})
	c2, err := net.Dial("tcp", control.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c2.Close()
	if got := measure(c2); got < size*3/2 {
		t.Errorf("the control reads only %d bytes by calls for %d: this test proves nothing", got, size)
	}
}

// An idle tunnel holds its two sockets and no pipe.
func TestIdleTunnelHoldsNoPipe(t *testing.T) {
	copying := func(c net.Conn) { _, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c}) }
	w := newWorld(t, map[string]string{"db.test": serve(t, copying).addr})
	c := w.dial("db.test", 5000)
	pipes := func() int {
		n := 0
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		for _, e := range entries {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "pipe:") {
				n++
			}
		}
		return n
	}
	before := pipes()
	write(t, c, "\x01")
	readN(t, c, 1)
	if n := pipes(); n > before { // Go may have closed some of earlier tests meanwhile
		t.Errorf("%d pipes for a tunnel that is idle", n-before)
	}
}

func BenchmarkTunnelThroughput(b *testing.B) {
	const size = 256 << 20
	u := serve(b, swallow)
	w := newWorld(b, map[string]string{"db.test": u.addr})
	for _, tt := range []struct {
		name string
		dial func() net.Conn
	}{
		{"direct", func() net.Conn {
			c, err := net.Dial("tcp", u.addr)
			if err != nil {
				b.Fatal(err)
			}
			return c
		}},
		{"tunnel", func() net.Conn {
			c := w.dial("db.test", 5000)
			write(b, c, "\x01")
			return c
		}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				c := tt.dial()
				bulk(b, c, size)
				c.Close()
			}
		})
	}
}

// A connection with one small exchange.
func BenchmarkConnections(b *testing.B) {
	u := serve(b, echo)
	w := &world{t: b, rules: map[string]verdict.Answer{"203.0.113.9": allow()}, told: make(chan struct{}, 1)}
	engine, err := egress.New(egress.Config{
		Decider: w, Journal: w, Hosts: map[string]string{"203.0.113.9": u.addr},
		OriginalDst: func(net.Conn) (netip.AddrPort, error) { return netip.MustParseAddrPort("203.0.113.9:5000"), nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	gate, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Serve(ctx, egress.Listeners{TCP: []net.Listener{gate}}) }()
	defer func() { cancel(); <-done }()
	for _, tt := range []struct{ name, addr string }{{"direct", u.addr}, {"tunnel", gate.Addr().String()}} {
		b.Run(tt.name, func(b *testing.B) {
			for b.Loop() {
				c, err := net.Dial("tcp", tt.addr)
				if err != nil {
					b.Fatal(err)
				}
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				write(b, c, "\x01")
				readN(b, c, 1)
				_ = c.(*net.TCPConn).SetLinger(0)
				c.Close()
			}
		})
	}
}
