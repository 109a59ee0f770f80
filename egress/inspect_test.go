package egress_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/egress"
	"cloister/egress/verdict"
)

// read is the verdict on hosts whose requests are read.
func read() verdict.Answer {
	return verdict.Answer{Allow: true, Effect: "allow", Rule: "read test", Inspect: true}
}

// An authority of the test signs its servers.
type testCA struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newTestCA(t testing.TB) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	c := &testCA{t: t, key: key, pool: x509.NewCertPool()}
	if c.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	c.pool.AddCert(c.cert)
	return c
}

// leaf is a server's certificate; change may spoil it.
func (c *testCA) leaf(change func(*x509.Certificate), names ...string) tls.Certificate {
	c.t.Helper()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	if change != nil {
		change(tmpl)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, c.cert, &c.key.PublicKey, c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: c.key}
}

// An inspected world has one host whose requests are read.
type inspected struct {
	*world
	ca   *testCA
	pool *x509.CertPool // what programs inside trust

	authority []byte
}

const readHost = "api.test"

func newInspected(t testing.TB, addr string, change ...func(*egress.Config)) *inspected {
	t.Helper()
	return newInspectedBy(t, newTestCA(t), addr, change...)
}

func newInspectedBy(t testing.TB, ca *testCA, addr string, change ...func(*egress.Config)) *inspected {
	t.Helper()
	session, err := new(egress.CAs).Take()
	if err != nil {
		t.Fatal(err)
	}
	w := &inspected{ca: ca, pool: x509.NewCertPool(), authority: session.PEM()}
	w.pool.AppendCertsFromPEM(session.PEM())
	w.world = newWorld(t, map[string]string{readHost: addr}, append([]func(*egress.Config){func(c *egress.Config) {
		c.CA, c.Roots = session, ca.pool
	}}, change...)...)
	w.set(readHost, read())
	return w
}

// open is a program's TLS connection to the host that is read.
func (w *inspected) open(protos ...string) *tls.Conn {
	w.t.Helper()
	c := tls.Client(w.dial(readHost, 443), &tls.Config{RootCAs: w.pool, ServerName: readHost, NextProtos: protos})
	w.t.Cleanup(func() { c.Close() })
	if err := c.Handshake(); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// client is Go's own, with one connection for each that it needs.
func (w *inspected) client() *http.Client {
	addrs, err := w.resolver().LookupNetIP(w.t.Context(), "ip4", readHost)
	if err != nil {
		w.t.Fatal(err)
	}
	transport := &http.Transport{
		TLSClientConfig:       &tls.Config{RootCAs: w.pool},
		ExpectContinueTimeout: 5 * time.Second,
		DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(addr)
			return w.connect(net.JoinHostPort(addrs[0].Unmap().String(), port)), nil
		},
	}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// tlsServer serves HTTP/1.1 with that certificate.
func tlsServer(t testing.TB, cert tls.Certificate, h http.Handler, protos ...string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if protos == nil {
		protos = []string{"http/1.1"}
	}
	p := new(http.Protocols)
	p.SetHTTP1(true)
	for _, proto := range protos {
		if proto == "h2" {
			p.SetHTTP2(true)
		}
	}
	s := &http.Server{Handler: h, Protocols: p, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protos}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.ServeTLS(ln, "", "") }()
	t.Cleanup(func() { s.Close(); <-done })
	return ln.Addr().String()
}

func TestInspected(t *testing.T) {
	ca := newTestCA(t)
	var conns atomic.Int32
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns.Add(1)
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s%s %s", r.Proto, r.Method, r.Host, r.RequestURI, b)
	}))
	w := newInspectedBy(t, ca, addr)
	client := w.client()
	for i := range 3 {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://API.test/a//b/../c%2e?q=%2e", strings.NewReader("body"))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if want := "HTTP/1.1 POST api.test/a/c.?q=%2e body"; string(got) != want {
			t.Errorf("request %d: %q, want %q", i, got, want)
		}
	}
	if n := w.count(verdict.Connect); n != 1 {
		t.Errorf("%d connections for one kept alive", n)
	}
	if n := w.count(verdict.Request); n != 3 {
		t.Errorf("%d requests judged", n)
	}
	f := w.flow("a request", func(f verdict.Flow) bool { return f.Kind == verdict.Request })
	if f.Path != "/a/c." || f.Status != 200 || f.Up != 4 || f.Authority.String() != "api.test:443" {
		t.Errorf("flow %+v", f)
	}
	w.set(readHost, verdict.Answer{Effect: "deny", Reason: "not this", Rule: "deny x", Place: "config.yaml:3", Hints: []string{"write y"}})
	req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://API.test/", nil)
	req.Header.Set("Accept", "text/plain")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, _ := io.ReadAll(resp.Body)
	for _, want := range []string{"not this", "deny x config.yaml:3", "write y"} {
		if resp.StatusCode != 403 || !strings.Contains(string(got), want) {
			t.Errorf("%d %s lacks %q", resp.StatusCode, got, want)
		}
	}
	if conns.Load() != 3 {
		t.Errorf("the server saw %d requests", conns.Load())
	}
}

// What is connected to, what TLS names and what each request names is one name.
func TestInspectedNames(t *testing.T) {
	for _, tt := range []struct{ name, second, status string }{
		{"another Host", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "421"},
		{"another port", "GET / HTTP/1.1\r\nHost: api.test:444\r\n\r\n", "421"},
		{"absolute, another", "GET https://evil.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", "421"},
		{"absolute, another scheme", "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", "400"},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: api.test\r\nHost: evil.test\r\n\r\n", "400"},
		{"CONNECT", "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", "405"},
		{"preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
		{"both framings", "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"a huge head", "GET / HTTP/1.1\r\nHost: api.test\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", "431"},
		{"h2c", "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ca := newTestCA(t)
			var seen atomic.Int32
			addr := tlsServer(t, ca.leaf(nil, readHost, "evil.test"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				seen.Add(1)
				_, _ = io.WriteString(w, "ok")
			}))
			w := newInspectedBy(t, ca, addr)
			c := w.open()
			go func() {
				_, _ = io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: api.test\r\n\r\n"+tt.second)
			}()
			got, _ := io.ReadAll(c)
			if !strings.HasPrefix(string(got), "HTTP/1.1 200 ") || !strings.Contains(string(got), "\r\n\r\nokHTTP/1.1 "+tt.status+" ") {
				t.Errorf("got %q", got)
			}
			if seen.Load() != 1 {
				t.Errorf("the server saw %d requests", seen.Load())
			}
		})
	}
	t.Run("TLS", func(t *testing.T) {
		w := newInspected(t, "127.0.0.1:1")
		c := tls.Client(w.dial(readHost, 443), &tls.Config{RootCAs: w.pool, ServerName: "evil.test"})
		if err := c.Handshake(); err == nil || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("handshake: %v", err)
		}
		w.reason("TLS server name is not the name that was connected to")
	})
}

// A server that cannot prove its name is not spoken to, and the program is told
// why over the connection that it trusts.
func TestInspectedServerCertificates(t *testing.T) {
	ca, other := newTestCA(t), newTestCA(t)
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "reached") })
	for _, tt := range []struct {
		name, reason, hint string
		cert               tls.Certificate
	}{
		{"expired", "has expired", "", ca.leaf(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, readHost)},
		{"wrong name", "for another name", "", ca.leaf(nil, "other.test")},
		{"unknown authority", "does not trust", "upstream_ca", other.leaf(nil, readHost)},
		{"self-signed", "does not trust", "upstream_ca", selfSigned(t, readHost)},
		{"for clients", "not valid for a server", "", ca.leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, readHost)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newInspectedBy(t, ca, tlsServer(t, tt.cert, ok))
			resp, err := w.client().Get("https://api.test/")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != 502 || !strings.Contains(string(got), tt.reason) || !strings.Contains(string(got), tt.hint) {
				t.Errorf("%d %s", resp.StatusCode, got)
			}
			w.reason(tt.reason)
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		w := newInspectedBy(t, ca, webServer(t, ok))
		resp, err := w.client().Get("https://api.test/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		w.reason("does not speak TLS")
	})
	t.Run("refused", func(t *testing.T) {
		w := newInspectedBy(t, ca, "127.0.0.1:1")
		resp, err := w.client().Get("https://api.test/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if w.reason("connection refused"); resp.StatusCode != 502 {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

// Each kind of body and of interim answer passes as it does without us.
func TestInspectedBodies(t *testing.T) {
	ca := newTestCA(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Got", r.Trailer.Get("X-Sum"))
		_, _ = w.Write(b)
		w.Header().Set("X-Sum", "42")
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	mux.HandleFunc("/hints", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "late")
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(5<<20))
		_, _ = w.Write(make([]byte, 5<<20))
	})
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), mux))
	client := w.client()
	do := requester(t, client, "https://api.test")
	big := strings.Repeat("x", 300<<10)
	if r, b := do("POST", "/echo", strings.NewReader(big), nil); b != big || r.Trailer.Get("X-Sum") != "42" {
		t.Errorf("counted: %d bytes, %v", len(b), r.Trailer)
	}
	if r, b := do("POST", "/echo", io.MultiReader(strings.NewReader(big)), func(r *http.Request) { r.Trailer = http.Header{"X-Sum": {"7"}} }); b != big || r.Header.Get("X-Got") != "7" {
		t.Errorf("chunked: %d bytes, %v", len(b), r.Header)
	}
	if _, b := do("POST", "/echo", strings.NewReader("later"), func(r *http.Request) { r.Header.Set("Expect", "100-continue") }); b != "later" {
		t.Errorf("100-continue: %q", b)
	}
	if r, _ := do("POST", "/early", strings.NewReader(strings.Repeat("x", 4<<20)), nil); r.StatusCode != 403 {
		t.Errorf("early: %d", r.StatusCode)
	}
	hinted := ""
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hinted = strconv.Itoa(code) + h.Get("Link")
		return nil
	}})
	if _, b := do("GET", "/hints", nil, func(r *http.Request) { *r = *r.WithContext(ctx) }); b != "late" || hinted != "103</x>" {
		t.Errorf("hints: %q %q", b, hinted)
	}
	if _, b := do("GET", "/big", nil, nil); len(b) != 5<<20 {
		t.Errorf("big: %d", len(b))
	}
}

// Each event arrives when it was sent.
func TestInspectedStreams(t *testing.T) {
	ca := newTestCA(t)
	next := make(chan struct{})
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	})))
	resp, err := w.client().Get("https://api.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i := range 3 {
		got := make([]byte, 9)
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != fmt.Sprintf("data: %d\n\n", i) {
			t.Fatalf("%q, %v", got, err)
		}
		next <- struct{}{}
	}
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Fatalf("rest %q, %v", rest, err)
	}
}

// A body is let through as far as its rule says.
func TestInspectedBytes(t *testing.T) {
	ca := newTestCA(t)
	whole := make(chan bool, 8)
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		whole <- err == nil
		fmt.Fprint(w, len(b))
	})))
	v := read()
	v.MaxBytes, v.Place = 1000, "config.yaml:7"
	w.set(readHost, v)
	for _, tt := range []struct {
		name   string
		body   io.Reader
		status int
	}{
		{"counted, within", strings.NewReader(strings.Repeat("x", 1000)), 200},
		{"counted, beyond", strings.NewReader(strings.Repeat("x", 1001)), 413},
		{"chunked, within", io.MultiReader(strings.NewReader(strings.Repeat("x", 1000))), 200},
		{"chunked, beyond", io.MultiReader(strings.NewReader(strings.Repeat("x", 600)), strings.NewReader(strings.Repeat("x", 600))), 413},
	} {
		resp, err := w.client().Post("https://api.test/", "text/plain", tt.body)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%s: %d %s", tt.name, resp.StatusCode, got)
		}
		if tt.status == 413 && (!strings.Contains(string(got), `"place": "config.yaml:7"`) || !strings.Contains(string(got), "in the rule at config.yaml:7 write bytes: 2000")) {
			t.Errorf("%s: without words: %s", tt.name, got)
		}
		if tt.name == "counted, beyond" {
			continue // the server was never asked
		}
		select {
		case is := <-whole:
			if is != (tt.status == 200) {
				t.Errorf("%s: the server took it for whole: %t", tt.name, is)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: the server still waits", tt.name)
		}
	}
}

// webSocket is a server of frames: it answers the handshake as told and echoes.
func webSocket(accept func(key string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept(r.Header.Get("Sec-WebSocket-Key")))
		_ = rw.Flush()
		head := make([]byte, 6)
		for {
			if _, err := io.ReadFull(rw, head); err != nil {
				return
			}
			data := make([]byte, head[1]&0x7f)
			if _, err := io.ReadFull(rw, data); err != nil {
				return
			}
			for i := range data {
				data[i] ^= head[2+i%4]
			}
			_, _ = c.Write(append([]byte{head[0], byte(len(data))}, data...))
		}
	})
}

func rightAccept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

const webSocketRequest = "GET /chat HTTP/1.1\r\nHost: api.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

func TestInspectedWebSocket(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), webSocket(rightAccept)))
	c := w.open("http/1.1")
	// The first frame right behind the handshake, as an eager program does.
	_, _ = io.WriteString(c, webSocketRequest+"\x81\x85\x01\x02\x03\x04igohn")
	r := bufio.NewReader(c)
	head, err := readHead(r)
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("%q, %v", head, err)
	}
	for i := range 3 {
		got := make([]byte, 7)
		if _, err := io.ReadFull(r, got); err != nil || string(got) != "\x81\x05hello" {
			t.Fatalf("frame %d: %q, %v", i, got, err)
		}
		_, _ = io.WriteString(c, "\x81\x85\x01\x02\x03\x04igohn")
	}
	_, _ = io.WriteString(c, "SSH-2.0-tunnel\r\n")
	if rest, err := io.ReadAll(r); err == nil && len(rest) == 0 {
		t.Error("ended as if all was well")
	}
	w.reason("no frame")

	for name, h := range map[string]http.Handler{
		"wrong accept": webSocket(func(string) string { return "nonsense" }),
		"no upgrade":   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSwitchingProtocols) }),
	} {
		t.Run(name, func(t *testing.T) {
			w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), h))
			c := w.open()
			_, _ = io.WriteString(c, webSocketRequest)
			if got, _ := io.ReadAll(c); !strings.HasPrefix(string(got), "HTTP/1.1 502 ") {
				t.Errorf("%q", got)
			}
		})
	}
}

// What cannot be read does not pass where rules read.
func TestInspectedOnly(t *testing.T) {
	u := serve(t, echo)
	w := newInspected(t, u.addr)
	for port, text := range map[int]string{443: "SSH-2.0-x\r\n", 22: "SSH-2.0-x\r\n", 5432: "\x00\x00\x00\x08\x04\xd2\x16\x2f", 8443: "hello\n"} {
		c := w.dial(readHost, port)
		write(t, c, text)
		if got, _ := readAll(t, c); strings.Contains(got, text) {
			t.Errorf("port %d: %q came through", port, got)
		}
	}
	w.reason("rules read the requests to this host")
	if u.accepted() != 0 {
		t.Errorf("%d connections were dialled", u.accepted())
	}
}

// A program that offers only what cannot be read, trusts somebody else, speaks an
// old TLS, or sends its hello byte by byte.
func TestInspectedHandshakes(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })))
	for _, tt := range []struct {
		name, reason string
		config       *tls.Config
	}{
		{"another protocol", "offers no protocol that can be read", &tls.Config{RootCAs: w.pool, NextProtos: []string{"acme-tls/1"}}},
		{"trusts somebody else", "does not trust the session's certificate", &tls.Config{RootCAs: ca.pool}},
		{"TLS 1.1", "broke the TLS handshake off", &tls.Config{RootCAs: w.pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}},
	} {
		tt.config.ServerName = readHost
		c := tls.Client(w.dial(readHost, 443), tt.config)
		if err := c.Handshake(); err == nil {
			t.Errorf("%s: got through", tt.name)
		}
		c.Close()
		w.reason(tt.reason)
	}
	raw := w.dial(readHost, 443)
	c := tls.Client(slowConn{raw}, &tls.Config{RootCAs: w.pool, ServerName: readHost})
	if err := c.Handshake(); err != nil {
		t.Errorf("byte by byte: %v", err)
	}
	c.Close()
}

// A program that closes in the middle of a handshake did not take the session's
// certificate, unless one took it before: then it ended, and nothing was refused.
func TestInspectedGivenUp(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })))
	giveUp := func(want bool) {
		t.Helper()
		c := tls.Client(leaver{w.dial(readHost, 443)}, &tls.Config{RootCAs: w.pool, ServerName: readHost, NextProtos: []string{"http/1.1"}})
		if c.Handshake() == nil {
			t.Fatal("the handshake was finished")
		}
		f := w.reason("broke the TLS handshake off")
		w.mu.Lock()
		w.flows = nil
		w.mu.Unlock()
		if refused := len(f.Hints) > 0; refused != want {
			t.Errorf("refused %v, want %v: %+v", refused, want, f)
		}
	}
	giveUp(true)
	w.open("http/1.1").Close()
	giveUp(false)
}

// A leaver closes as soon as an answer would be read.
type leaver struct{ net.Conn }

func (l leaver) Read([]byte) (int, error) { return 0, errors.Join(io.EOF, l.Close()) }

// slowConn writes each byte by itself.
type slowConn struct{ net.Conn }

func (s slowConn) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := s.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// A guardian that took the session over has no key to open connections with.
func TestInspectedWithoutAuthority(t *testing.T) {
	w := newInspected(t, "127.0.0.1:1", func(c *egress.Config) { c.CA = nil })
	c := tls.Client(w.dial(readHost, 443), &tls.Config{RootCAs: w.pool, ServerName: readHost})
	if err := c.Handshake(); err == nil {
		t.Error("got through")
	}
	w.reason("start the session again")
}

// A tunnel does not outlive a policy that wants to read.
func TestInspectedAfterReload(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })))
	w.set(readHost, allow())
	c := tls.Client(w.dial(readHost, 443), &tls.Config{RootCAs: ca.pool, ServerName: readHost})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	w.set(readHost, read())
	w.engine.Recheck(t.Context())
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the tunnel goes on")
	}
	w.reason("since a policy change")
	in := w.open()
	_, _ = io.WriteString(in, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if _, err := readHead(bufio.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	w.engine.Recheck(t.Context())
	_, _ = io.WriteString(in, "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
	if _, err := io.ReadAll(in); err != nil {
		t.Errorf("a connection that is read was ended: %v", err)
	}
}
