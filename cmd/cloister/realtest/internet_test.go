package realtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloister/audit"
)

// An internet is one TLS server on loopback that answers for many names, with
// certificates of an authority of its own. It counts every byte of every
// connection, below TLS, as the gate does.
type internet struct {
	t      *testing.T
	caFile string
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey
	addr   string

	mu    sync.Mutex
	names map[string]http.Handler
	certs map[string]*tls.Certificate
	conns []*counted
	// raw are further names, served by something that is not HTTP.
	raw map[string]string
}

func newInternet(t *testing.T) *internet {
	t.Helper()
	n := &internet{t: t, names: map[string]http.Handler{}, certs: map[string]*tls.Certificate{}, raw: map[string]string{}}
	n.makeAuthority()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.addr = ln.Addr().String()
	srv := &http.Server{
		Handler:           http.HandlerFunc(n.serve),
		ReadHeaderTimeout: 30 * time.Second,
		TLSConfig:         &tls.Config{GetConfigForClient: n.hello, GetCertificate: n.certificate, NextProtos: []string{"h2", "http/1.1"}},
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeTLS(&countingListener{ln, n}, "", "") }()
	t.Cleanup(func() {
		_ = srv.Close() // closes what a client still holds open
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return n
}

func (n *internet) makeAuthority() {
	n.t.Helper()
	var err error
	if n.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		n.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Authority of the test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &n.key.PublicKey, n.key)
	if err != nil {
		n.t.Fatal(err)
	}
	if n.ca, err = x509.ParseCertificate(der); err != nil {
		n.t.Fatal(err)
	}
	n.caFile = filepath.Join(n.t.TempDir(), "ca.pem")
	write(n.t, n.caFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
}

// handle answers for a name.
func (n *internet) handle(name string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = h
}

// forward sends a name's connections to another server on loopback.
func (n *internet) forward(name, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.raw[name] = addr
}

// hosts is proxy.hosts.
func (n *internet) hosts() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string]string{}
	for name := range n.names {
		out[name] = n.addr
	}
	maps.Copy(out, n.raw)
	return out
}

func (n *internet) serve(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(r.Host, ":")
	n.mu.Lock()
	h := n.names[name]
	n.mu.Unlock()
	if h == nil || r.TLS == nil || r.TLS.ServerName != name {
		http.Error(w, "no such host here", http.StatusMisdirectedRequest)
		return
	}
	h.ServeHTTP(w, r)
	// A body that is left unread is reset with the connection, and the two ends
	// would count differently.
	_, _ = io.Copy(io.Discard, r.Body)
}

// hello notes a connection's name: also of a resumed session, which needs no
// certificate.
func (n *internet) hello(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if c, ok := hello.Conn.(*counted); ok {
		c.name.Store(&hello.ServerName)
	}
	return nil, nil
}

func (n *internet) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := hello.ServerName
	if n.names[name] == nil {
		return nil, errors.New("no such name here: " + name)
	}
	if c := n.certs[name]; c != nil {
		return c, nil
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(n.certs)) + 2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, n.ca, &n.key.PublicKey, n.key)
	if err != nil {
		return nil, err
	}
	n.certs[name] = &tls.Certificate{Certificate: [][]byte{der, n.ca.Raw}, PrivateKey: n.key}
	return n.certs[name], nil
}

// A counted connection knows what it carried and for which name.
type counted struct {
	net.Conn
	name     atomic.Pointer[string]
	up, down atomic.Int64
	closed   atomic.Bool // nothing more is counted
}

func (c *counted) Close() error {
	defer c.closed.Store(true)
	return c.Conn.Close()
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.up.Add(int64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.down.Add(int64(n))
	return n, err
}

type countingListener struct {
	net.Listener
	n *internet
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	cc := &counted{Conn: c}
	l.n.mu.Lock()
	l.n.conns = append(l.n.conns, cc)
	l.n.mu.Unlock()
	return cc, nil
}

// seen are the connections so far, by name.
func (n *internet) seen() map[string][]*counted {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string][]*counted{}
	for _, c := range n.conns {
		name := ""
		if p := c.name.Load(); p != nil {
			name = *p
		}
		out[name] = append(out[name], c)
	}
	return out
}

// A flow is one connection as both ends tell it.
type flow struct {
	name     string
	up, down int64
}

// checkAudit compares what the servers saw with what the record says: every
// connection has a verdict before it and one end with its name and its bytes.
func (w *world) checkAudit() {
	w.t.Helper()
	open, closed := map[string]int{}, map[string]int{}
	told, requests := map[flow]int{}, map[string]int{}
	var broken []flow
	for _, e := range w.events() {
		if e.Kind == audit.HTTPRequest && e.Verdict == "allow" {
			requests[e.Host]++
		}
		// Allowed, and given up before it said anything: by the program, or as the session ended.
		given := strings.Contains(e.Reason, "broke the TLS handshake off") || strings.Contains(e.Reason, "the session's network was closed")
		if e.Kind == audit.NetConnect && e.Action == "refuse" && given && open[e.Host] > closed[e.Host] {
			closed[e.Host]++
		}
		if e.Kind != audit.NetConnect || e.Verdict != "allow" {
			continue
		}
		switch e.Action {
		case "connect":
			open[e.Host]++
		case "close":
			if closed[e.Host]++; closed[e.Host] > open[e.Host] {
				w.t.Errorf("audit: a connection to %s ended that had no verdict before", e.Host)
			}
			if e.BytesUp == nil || e.BytesDown == nil || e.DurationMS == nil {
				w.t.Errorf("audit: the end of a connection to %s tells no bytes or no time", e.Host)
				continue
			}
			f := flow{e.Host, *e.BytesUp, *e.BytesDown}
			if told[f]++; e.Reason != "" {
				broken = append(broken, f)
			}
		}
	}
	if diff := cmp.Diff(open, closed); diff != "" {
		w.t.Errorf("audit: connections begun and ended differ (-begun +ended):\n%s", diff)
	}
	waitFor(w.t, "the servers' ends of what the record tells to be over", func() bool {
		for name, conns := range w.net.seen() {
			if w.rules[name] == nil && requests[name] == 0 && slices.ContainsFunc(conns, func(c *counted) bool { return !c.closed.Load() }) {
				return false
			}
		}
		return true
	})
	seen := 0
	var untold []flow
	for name, conns := range w.net.seen() {
		for _, c := range conns {
			if w.rules[name] != nil || requests[name] > 0 {
				if open[name] == 0 && !slices.Contains(w.outside, name) {
					w.t.Errorf("audit: no record of a connection to %q, which was inspected", name)
				}
				continue // what is inspected is counted by requests
			}
			seen++
			f := flow{name, c.up.Load(), c.down.Load()}
			if told[f]--; told[f] < 0 {
				untold = append(untold, f)
			}
		}
	}
	broken = slices.DeleteFunc(broken, func(b flow) bool { told[b]--; return told[b] < 0 })
	for _, f := range unmatched(untold, broken) {
		w.t.Errorf("audit: no record of a connection to %q with %d bytes up and %d down", f.name, f.up, f.down)
	}
	if w.t.Failed() {
		w.t.Logf("%d connections seen; the record:\n%s", seen, w.journal())
	}
}

// unmatched are the flows as servers saw them that are none of the broken ones of
// the record: what one side reset, the other had perhaps sent already, so that a
// record tells as many bytes up or more, and as many down or fewer.
func unmatched(seen, broken []flow) (left []flow) {
	// Who sent most up has the fewest records to be; of these it takes the one
	// with most bytes down, which is of least use to the others.
	slices.SortFunc(seen, func(a, b flow) int { return int(b.up - a.up) })
	for _, f := range seen {
		best := -1
		for i, b := range broken {
			if b.name == f.name && b.up >= f.up && b.down <= f.down && (best < 0 || b.down > broken[best].down) {
				best = i
			}
		}
		if best < 0 {
			left = append(left, f)
			continue
		}
		broken = slices.Delete(broken, best, best+1)
	}
	return left
}

func TestUnmatched(t *testing.T) {
	const name = "api.example"
	broken := []flow{{name, 400, 10}, {name, 50, 30}, {name, 50, 20}}
	// In any order: the one of 50 and 30 could be any of the three.
	seen := []flow{{name, 40, 32}, {name, 50, 24}, {name, 390, 12}}
	if left := unmatched(slices.Clone(seen), slices.Clone(broken)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	for _, f := range []flow{{name, 401, 12}, {name, 40, 9}, {"other.example", 40, 32}} {
		if left := unmatched([]flow{f}, slices.Clone(broken)); len(left) != 1 {
			t.Errorf("%v is told by %v", f, broken)
		}
	}
}
