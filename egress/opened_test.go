package egress_test

import (
	"bufio"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"cloister/egress/verdict"
)

// opened is what the guardian says of a host of which no rule says anything.
func opened(open verdict.Opening) verdict.Answer {
	v := allow()
	v.Open = open
	return v
}

// byALPN is a server that speaks what the protocols say: HTTP, or a greeting and an
// echo. It tells what it was sent first.
func byALPN(t testing.TB, ca *testCA, change func(*tls.Config), greets bool) (addr string, first chan string) {
	t.Helper()
	first = make(chan string, 16)
	u := serve(t, func(raw net.Conn) {
		config := &tls.Config{Certificates: []tls.Certificate{ca.leaf(nil, readHost, "inner.test")}}
		change(config)
		c := tls.Server(raw, config)
		if c.Handshake() != nil {
			return
		}
		if greets {
			_, _ = io.WriteString(c, "* OK ready\r\n")
		}
		r := bufio.NewReader(c)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				_ = c.CloseWrite()
				return
			}
			select {
			case first <- c.ConnectionState().ServerName + " " + c.ConnectionState().NegotiatedProtocol + " " + line:
			default:
			}
			_, _ = io.WriteString(c, "said "+line)
		}
	})
	return u.addr, first
}

// Without a rule that says otherwise TLS ends here, on each port, and requests are judged.
func TestOpenedByDefault(t *testing.T) {
	ca := newTestCA(t)
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.URL.Path)
	}), "h2", "http/1.1")
	w := newInspectedBy(t, ca, addr)
	for _, open := range []verdict.Opening{verdict.OpenAny, verdict.OpenHTTP} {
		w.set(readHost, opened(open))
		for _, port := range []string{"", ":8443"} {
			for proto, client := range map[string]*http.Client{"HTTP/1.1": w.client(), "HTTP/2.0": w.client2()} {
				before := w.count(verdict.Request)
				resp, err := client.Get("https://" + readHost + port + "/a")
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(text) != proto+" /a" || w.count(verdict.Request) != before+1 {
					t.Errorf("%v, port %q: %s, %d requests judged", open, port, text, w.count(verdict.Request)-before)
				}
			}
		}
	}
}

// What offers no protocol is looked at: HTTP is judged, and nothing else speaks for it.
func TestOpenedWithoutProtocol(t *testing.T) {
	ca := newTestCA(t)
	addr, _ := byALPN(t, ca, func(*tls.Config) {}, false)
	w := newInspectedBy(t, ca, addr)
	w.set(readHost, opened(verdict.OpenAny))
	c := w.open()
	fmt.Fprintf(c, "GET /x HTTP/1.1\r\nHost: other.test\r\n\r\n")
	if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 421 ") {
		t.Errorf("another Host: %q", line)
	}
	for _, inside := range []string{"\x16\x03\x01\x02\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
		c := w.open()
		_, _ = io.WriteString(c, inside)
		if line, err := bufio.NewReader(c).ReadString('\n'); err == nil && strings.HasPrefix(line, "said") {
			t.Errorf("%q reached the server", inside)
		}
	}
	w.reason("TLS in TLS")
}

// Other protocols are relayed in TLS on both sides, whoever speaks first, and what ends
// is passed on; where only HTTP passes they are refused.
func TestOpenedOtherProtocols(t *testing.T) {
	ca := newTestCA(t)
	for _, protos := range [][]string{nil, {"imap"}, {"acme-tls/1", "mqtt"}} {
		for _, greets := range []bool{true, false} {
			addr, first := byALPN(t, ca, func(c *tls.Config) {
				if len(protos) > 0 {
					c.NextProtos = protos[len(protos)-1:]
				}
			}, greets)
			w := newInspectedBy(t, ca, addr)
			w.set(readHost, opened(verdict.OpenAny))
			c := w.open(protos...)
			r := bufio.NewReader(c)
			if greets {
				if line, err := r.ReadString('\n'); line != "* OK ready\r\n" {
					t.Fatalf("%v: greeting %q, %v", protos, line, err)
				}
			}
			proto := ""
			if len(protos) > 0 {
				proto = protos[len(protos)-1]
			}
			if got := c.ConnectionState().NegotiatedProtocol; got != proto {
				t.Errorf("%v: %q", protos, got)
			}
			fmt.Fprintf(c, "a1 LOGIN\r\n")
			if line, err := r.ReadString('\n'); line != "said a1 LOGIN\r\n" {
				t.Errorf("%v: %q, %v", protos, line, err)
			}
			if got := <-first; got != readHost+" "+proto+" a1 LOGIN\r\n" {
				t.Errorf("%v: the server saw %q", protos, got)
			}
			_ = c.CloseWrite()
			if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
				t.Errorf("%v: at the end %q, %v", protos, rest, err)
			}
			w.flow("its end", func(f verdict.Flow) bool { return f.Kind == verdict.Connect && f.Up > 0 && f.Down > 0 })

			w.set(readHost, opened(verdict.OpenHTTP))
			config := &tls.Config{RootCAs: w.pool, ServerName: readHost, NextProtos: protos}
			closed := tls.Client(w.dial(readHost, 443), config)
			patient(closed)
			_, _ = io.WriteString(closed, "a1 LOGIN\r\n\r\n")
			if got, _ := io.ReadAll(closed); strings.Contains(string(got), "said") || strings.Contains(string(got), "ready") {
				t.Errorf("%v: only HTTP passes, and the program got %q", protos, got)
			}
			closed.Close()
		}
	}
}

// A relative of HTTP that is not read here is not offered to the server.
func TestOpenedOffersNoKin(t *testing.T) {
	ca := newTestCA(t)
	addr, _ := byALPN(t, ca, func(c *tls.Config) { c.NextProtos = []string{"h2-14", "spdy/3", "http/1.0", "imap"} }, true)
	w := newInspectedBy(t, ca, addr)
	w.set(readHost, opened(verdict.OpenAny))
	c := w.open("h2-14", "spdy/3", "http/1.0", "imap")
	if got := c.ConnectionState().NegotiatedProtocol; got != "imap" {
		t.Errorf("got %q", got)
	}
	only := tls.Client(w.dial(readHost, 443), &tls.Config{RootCAs: w.pool, ServerName: readHost, NextProtos: []string{"h2-14"}})
	defer only.Close()
	if only.Handshake() == nil {
		t.Error("h2-14 passes")
	}
}

// A program that does not trust the session's authority is recorded with the words that
// would pass its connection on, in both versions of TLS.
func TestPinned(t *testing.T) {
	ca := newTestCA(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		addr := tlsServer(t, ca.leaf(nil, readHost), http.NotFoundHandler())
		w := newInspectedBy(t, ca, addr)
		w.set(readHost, opened(verdict.OpenAny))
		// Its own authority alone, as a program with one built in.
		c := tls.Client(w.dial(readHost, 8443), &tls.Config{RootCAs: ca.pool, ServerName: readHost, MaxVersion: version})
		err := c.Handshake()
		c.Close()
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
			t.Fatalf("%s: %v", tls.VersionName(version), err)
		}
		f := w.reason("does not trust")
		if !strings.Contains(strings.Join(f.Hints, " "), "{domain: api.test, ports: [8443], tls: tunnel}") {
			t.Errorf("hints %q", f.Hints)
		}
		// The control: where a rule says tunnel it sees its server's own.
		w.set(readHost, opened(verdict.OpenNothing))
		c = tls.Client(w.dial(readHost, 8443), &tls.Config{RootCAs: ca.pool, ServerName: readHost, MaxVersion: version})
		if err := c.Handshake(); err != nil {
			t.Errorf("%s, tunnel: %v", tls.VersionName(version), err)
		}
		c.Close()
	}
}

// A tunnel ends when policy no longer says so.
func TestTunnelEndsByPolicy(t *testing.T) {
	ca := newTestCA(t)
	addr, _ := byALPN(t, ca, func(*tls.Config) {}, true)
	w := newInspectedBy(t, ca, addr)
	w.set(readHost, opened(verdict.OpenNothing))
	c := tls.Client(w.dial(readHost, 443), &tls.Config{RootCAs: ca.pool, ServerName: readHost})
	defer c.Close()
	patient(c)
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "* OK ready\r\n" {
		t.Fatal(line, err)
	}
	w.engine.Recheck(t.Context())
	fmt.Fprintf(c, "still\r\n")
	if got, err := bufio.NewReader(c).ReadString('\n'); err != nil || got != "said still\r\n" {
		t.Fatalf("a tunnel that stays: %q, %v", got, err)
	}
	w.set(readHost, opened(verdict.OpenAny))
	w.engine.Recheck(t.Context())
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the tunnel stays open")
	}
}

// ech is a configuration for encrypted ClientHellos with its key (RFC 9849 4).
func ech(t testing.TB, public string) (list []byte, key tls.EncryptedClientHelloKey) {
	t.Helper()
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	vector := func(b []byte, inner []byte) []byte {
		return append(binary.BigEndian.AppendUint16(b, uint16(len(inner))), inner...)
	}
	contents := []byte{7, 0, 0x20} // config_id, DHKEM(X25519)
	contents = vector(contents, private.PublicKey().Bytes())
	contents = vector(contents, []byte{0, 1, 0, 1}) // HKDF-SHA256, AES-128-GCM
	contents = append(contents, 32, byte(len(public)))
	contents = vector(append(contents, public...), nil)
	config := vector([]byte{0xfe, 0x0d}, contents)
	return vector(nil, config), tls.EncryptedClientHelloKey{Config: config, PrivateKey: private.Bytes(), SendAsRetry: true}
}

// NW-60: an encrypted ClientHello is never passed on, whatever a rule says of TLS; the
// server inside it is not reached.
func TestEncryptedHello(t *testing.T) {
	ca := newTestCA(t)
	list, key := ech(t, readHost)
	addr, first := byALPN(t, ca, func(c *tls.Config) { c.EncryptedClientHelloKeys = []tls.EncryptedClientHelloKey{key} }, false)
	both := x509.NewCertPool()
	both.AddCert(ca.cert)
	attack := func(c net.Conn) error {
		t.Helper()
		inner := tls.Client(c, &tls.Config{RootCAs: both, ServerName: "inner.test", MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: list})
		patient(inner)
		defer inner.Close()
		if _, err := io.WriteString(inner, "GET / HTTP/1.1\r\nHost: inner.test\r\n\r\n"); err != nil {
			return err
		}
		_, err := inner.Read(make([]byte, 1))
		return err
	}
	for _, v := range []verdict.Answer{opened(verdict.OpenNothing), opened(verdict.OpenAny), opened(verdict.OpenHTTP), read()} {
		for _, port := range []int{443, 8443} {
			w := newInspectedBy(t, ca, addr)
			both.AppendCertsFromPEM(w.authority)
			w.set(readHost, v)
			err := attack(w.dial(readHost, port))
			// The client gives this error when a server that knows no such keys has proved
			// the outer name: one that only sends grease goes on from here (RFC 9849 6.1.6).
			if _, ok := errors.AsType[*tls.ECHRejectionError](err); !ok {
				t.Errorf("%+v, port %d: %v", v, port, err)
			}
			f := w.reason("insists on an encrypted ClientHello")
			if len(f.Hints) == 0 {
				t.Error("no hint")
			}
		}
	}
	select {
	case got := <-first:
		t.Fatalf("the inner server saw %q", got)
	default:
	}
	// The control: with nobody in between it is reached.
	c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := attack(c); err != nil {
		t.Fatal(err)
	}
	if got := <-first; got != "inner.test  GET / HTTP/1.1\r\n" {
		t.Errorf("the control saw %q", got)
	}
}
