package egress_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cloister/egress"
	"cloister/egress/internal/sock"
	"cloister/egress/verdict"
	"cloister/internal/reading"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is an engine with a gate whose connections the test makes.
type world struct {
	t      testing.TB
	engine *egress.Engine
	conns  chan net.Conn
	dst    sync.Map // net.Conn → netip.AddrPort
	dns    *net.UDPConn
	dnsTCP net.Listener

	mu      sync.Mutex
	rules   map[string]verdict.Answer // by host; "*" for the rest
	queries []verdict.Query
	flows   []verdict.Flow
	told    chan struct{}
	deaf    bool                               // the journal fails
	login   func(reading.Login) verdict.Answer // the word on logins
	judged  func(verdict.Query) (verdict.Answer, bool)
	decided func(context.Context, verdict.Query) // called with each verdict made, before it is told
}

func allow() verdict.Answer {
	return verdict.Answer{Allow: true, Effect: "allow", Rule: "allow test"}
}

// patience is longer than anything here takes, also where the machine stands still
// for a while: what a test waits for comes, and the deadlines of an engine are a test's
// matter only where it sets them.
const patience = 2 * time.Minute

// newWorld starts an engine that allows what hosts names, and dials there.
func newWorld(t testing.TB, hosts map[string]string, change ...func(*egress.Config)) *world {
	t.Helper()
	w := &world{t: t, conns: make(chan net.Conn), rules: map[string]verdict.Answer{}, told: make(chan struct{}, 1)}
	for h := range hosts {
		if host, _, err := net.SplitHostPort(h); err == nil {
			h = host
		}
		w.rules[h] = allow()
	}
	cfg := egress.Config{
		Session: "test", Decider: w, Journal: w, Hosts: hosts, Resolver: resolver{},
		OriginalDst: func(c net.Conn) (netip.AddrPort, error) {
			if v, ok := w.dst.Load(c); ok {
				return v.(netip.AddrPort), nil
			}
			return netip.AddrPort{}, errors.New("unknown")
		},
		Limits: egress.Limits{Handshake: patience, Idle: patience, Dial: patience, HalfClosed: patience},
	}
	for _, f := range change {
		f(&cfg)
	}
	e, err := egress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.engine = e
	w.dns, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4zero})
	if err != nil {
		t.Fatal(err)
	}
	if w.dnsTCP, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- e.Serve(ctx, egress.Listeners{TCP: []net.Listener{&listener{w: w, closed: make(chan struct{})}}, DNS: []net.PacketConn{w.dns}, DNSTCP: []net.Listener{w.dnsTCP}})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(patience):
			t.Error("Serve did not end")
		}
	})
	return w
}

func (w *world) Decide(ctx context.Context, q verdict.Query) verdict.Answer {
	v := w.decide(q)
	w.mu.Lock()
	decided := w.decided
	w.mu.Unlock()
	if decided != nil {
		decided(ctx, q)
	}
	return v
}

func (w *world) decide(q verdict.Query) verdict.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queries = append(w.queries, q)
	if q.Login != nil && w.login != nil {
		return w.login(*q.Login)
	}
	if w.judged != nil {
		if v, is := w.judged(q); is {
			return v
		}
	}
	v, ok := w.rules[q.Authority.Host()]
	if !ok {
		v = w.rules["*"]
	}
	if !v.Allow && v.Reason == "" {
		v.Reason, v.Hints = "nothing allows "+q.Authority.Host(), []string{"--allow " + q.Authority.Host()}
	}
	return v
}

func (w *world) set(host string, v verdict.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules[host] = v
}

func (w *world) Closed(f verdict.Flow) { w.tell(f) }

func (w *world) Refused(f verdict.Flow) error {
	w.tell(f)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf {
		return errors.New("disk full")
	}
	return nil
}

func (w *world) tell(f verdict.Flow) {
	w.mu.Lock()
	w.flows = append(w.flows, f)
	w.mu.Unlock()
	select {
	case w.told <- struct{}{}:
	default:
	}
}

// flow waits for a flow that satisfies ok.
func (w *world) flow(what string, ok func(verdict.Flow) bool) verdict.Flow {
	w.t.Helper()
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		for _, f := range w.flows {
			if ok(f) {
				w.mu.Unlock()
				return f
			}
		}
		all := fmt.Sprintf("%+v", w.flows)
		w.mu.Unlock()
		select {
		case <-w.told:
		case <-deadline:
			w.t.Fatalf("no flow: %s\nhave %s", what, all)
		}
	}
}

func (w *world) reason(part string) verdict.Flow {
	w.t.Helper()
	return w.flow("reason "+part, func(f verdict.Flow) bool { return strings.Contains(f.Reason, part) })
}

func (w *world) count(kind verdict.QueryKind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, q := range w.queries {
		if q.Kind == kind {
			n++
		}
	}
	return n
}

// pair is one TCP connection over loopback.
func pair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// connect is a program's connect(2) to an address.
func (w *world) connect(dst string) *net.TCPConn {
	w.t.Helper()
	c, s := pair(w.t)
	w.dst.Store(s, netip.MustParseAddrPort(dst))
	w.conns <- s
	w.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// dial is a program's connection to a name: DNS, then connect.
func (w *world) dial(name string, port int) *net.TCPConn {
	w.t.Helper()
	addrs, err := w.resolver().LookupNetIP(w.t.Context(), "ip4", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.connect(fmt.Sprintf("%s:%d", addrs[0].Unmap(), port))
}

// resolver is Go's own stub resolver, asking the engine.
func (w *world) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		if strings.HasPrefix(network, "tcp") {
			return d.DialContext(ctx, network, w.dnsTCP.Addr().String())
		}
		return d.DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", w.dns.LocalAddr().(*net.UDPAddr).Port))
	}}
}

type listener struct {
	w      *world
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.w.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// resolver finds nothing unless a test gives it addresses.
type resolver map[string][]netip.Addr

func (r resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if a, ok := r[host]; ok {
		return a, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// An upstream is a server on loopback that counts its connections.
type upstream struct {
	addr string
	mu   sync.Mutex
	n    int
}

func (u *upstream) accepted() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n
}

// serve runs handle for each connection, which it closes afterwards.
func serve(t testing.TB, handle func(net.Conn)) *upstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sock.Unpaced(ln) // what a server has written is there
	u := &upstream{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			u.mu.Lock()
			u.n++
			u.mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				handle(c)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return u
}

func echo(c net.Conn) {
	_, _ = io.Copy(c, c)
	_ = c.(*net.TCPConn).CloseWrite()
}

// serveHTTPText answers each head (and its counted body) with what answer
// returns; it records the heads.
type textServer struct {
	*upstream
	mu    sync.Mutex
	heads []string
}

func serveText(t testing.TB, answer func(head string) string) *textServer {
	s := &textServer{}
	s.upstream = serve(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			head, err := readHead(r)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.heads = append(s.heads, head)
			s.mu.Unlock()
			if _, err := io.WriteString(c, answer(head)); err != nil {
				return
			}
		}
	})
	return s
}

func (s *textServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.heads...)
}

func readHead(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		b.WriteString(line)
		if line == "\r\n" {
			return b.String(), nil
		}
	}
}

func write(t testing.TB, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

// readAll reads to the end; reset says that it ended by RST.
func readAll(t testing.TB, c net.Conn) (text string, reset bool) {
	t.Helper()
	b, err := io.ReadAll(c)
	if err != nil && !strings.Contains(err.Error(), "reset by peer") {
		t.Fatalf("read: %v after %q", err, b)
	}
	return string(b), err != nil
}

// selfSigned is a certificate for tests.
func selfSigned(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
