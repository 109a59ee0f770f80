package link_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cloister/internal/origin"
	"cloister/sandbox"
	"cloister/sandbox/kubernetes/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ends are both sides of a link, over TCP.
type ends struct {
	gate    *link.Gate
	shim    *link.Shim
	streams net.Listener
	dns     net.Listener
	end     context.CancelFunc
}

func connect(t *testing.T) *ends {
	t.Helper()
	config, order, err := link.NewPair(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	order.Address = l.Addr().String()
	dir := short(t)
	e := &ends{}
	e.streams, e.dns = listen(t, filepath.Join(dir, "t")), listen(t, filepath.Join(dir, "q"))
	e.shim = link.NewShim(link.Setup{Files: []sandbox.File{{Path: "/a", Data: []byte("b"), Mode: 0o644}}},
		filepath.Join(dir, "t"), filepath.Join(dir, "q"))
	ctx, stop := context.WithCancel(t.Context())
	e.end = stop
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = e.shim.Serve(ctx, tls.Server(c, config))
		}
		served <- err
	}()
	e.gate = dial(t, order)
	t.Cleanup(func() {
		e.gate.Close()
		stop()
		<-served
		e.streams.Close()
		e.dns.Close()
	})
	return e
}

// short is a folder whose name has room for a socket's.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dial(t *testing.T, o link.Order) *link.Gate {
	t.Helper()
	c, err := net.Dial("tcp", o.Address)
	if err != nil {
		t.Fatal(err)
	}
	g, err := link.Dialed(t.Context(), o, c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// program is a program's connection, and the gate's end of it.
func program(t *testing.T) (own, gates *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), other.(*net.TCPConn)
}

func TestStreams(t *testing.T) {
	e := connect(t)
	if s, err := e.gate.Setup(t.Context()); err != nil || len(s.Files) != 1 || string(s.Files[0].Data) != "b" {
		t.Fatalf("%+v, %v", s, err)
	}
	gone, err := e.gate.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-e.shim.Open()
	list := origin.Listener{Listener: e.streams}
	var all sync.WaitGroup
	big := strings.Repeat("0123456789abcdef", 64<<10)
	for range 20 {
		own, gates := program(t)
		all.Go(func() { e.gate.TCP(t.Context(), gates, netip.MustParseAddrPort("203.0.113.9:443")) })
		all.Go(func() {
			c, err := list.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if to, err := origin.Of(c); err != nil || to.String() != "203.0.113.9:443" {
				t.Errorf("%s, %v", to, err)
			}
			text, err := io.ReadAll(c) // the program ends its own direction, and still reads
			if err != nil || string(text) != big {
				t.Errorf("%d bytes, %v", len(text), err)
			}
			if _, err := io.WriteString(c, big); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			defer own.Close()
			if _, err := io.WriteString(own, big); err != nil {
				t.Error(err)
			}
			if err := own.CloseWrite(); err != nil {
				t.Error(err)
			}
			if text, err := io.ReadAll(own); err != nil || string(text) != big {
				t.Errorf("%d bytes back, %v", len(text), err)
			}
		})
	}
	all.Wait()
	e.end()
	<-gone
}

// TestAborted has the engine's end of a connection cut: the program sees a reset, no end.
func TestAborted(t *testing.T) {
	e := connect(t)
	own, gates := program(t)
	defer own.Close()
	var all sync.WaitGroup
	all.Go(func() { e.gate.TCP(t.Context(), gates, netip.MustParseAddrPort("203.0.113.9:80")) })
	if _, err := io.WriteString(own, "never read"); err != nil {
		t.Fatal(err)
	}
	c, err := origin.Listener{Listener: e.streams}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := origin.Of(c); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // the rest is there, and lost
		t.Fatal(err)
	}
	c.Close()
	if _, err := io.ReadAll(own); err == nil {
		t.Error("the program sees a plain end")
	}
	all.Wait()
}

func TestQuestions(t *testing.T) {
	e := connect(t)
	go func() {
		for {
			c, err := e.dns.Accept()
			if err != nil {
				return
			}
			text := make([]byte, 7)
			if _, err := io.ReadFull(c, text); err == nil {
				_, _ = c.Write(append([]byte{0, 6}, "answer"...))
			}
			c.Close()
		}
	}()
	for range 3 {
		if answer, err := e.gate.DNS(t.Context(), []byte("asked")); string(answer) != "answer" || err != nil {
			t.Errorf("%q, %v", answer, err)
		}
	}
	e.dns.Close()
	if answer, err := e.gate.DNS(t.Context(), []byte("asked")); err == nil {
		t.Errorf("%q without who answers", answer)
	}
}

// TestStrangers: neither side takes another cloister's certificate.
func TestStrangers(t *testing.T) {
	config, order, err := link.NewPair(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := link.NewPair(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	late, past, err := link.NewPair(time.Now().Add(-3 * time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		shim *tls.Config
		gate link.Order
	}{
		"another gate":       {config, link.Order{Server: order.Server, Cert: other.Cert, Key: other.Key}},
		"another shim":       {config, link.Order{Server: other.Server, Cert: order.Cert, Key: order.Key}},
		"old certificates":   {late, past},
		"without its own":    {config, link.Order{Server: order.Server, Cert: other.Cert, Key: order.Key}},
		"both of another":    {config, other},
		"the shim's as gate": {config, link.Order{Server: order.Server, Cert: order.Server, Key: order.Key}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			served := make(chan error, 1)
			shim := link.NewShim(link.Setup{}, "", "")
			go func() {
				c, err := l.Accept()
				if err == nil {
					err = shim.Serve(t.Context(), tls.Server(c, tt.shim))
				}
				served <- err
			}()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			g, err := link.Dialed(t.Context(), tt.gate, c)
			if err == nil {
				if _, err = g.Setup(t.Context()); err == nil {
					t.Error("it is served")
				}
				g.Close()
			}
			c.Close()
			if err := <-served; err == nil || errors.Is(err, net.ErrClosed) && !slices.Contains([]string{"another shim"}, name) {
				t.Logf("the shim's end: %v", err)
			}
		})
	}
}
