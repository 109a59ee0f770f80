package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"cloister/egress"
	"cloister/egress/verdict"
)

func (w *world) proxy() *net.TCPConn { return w.connect("198.18.0.1:3128") }

func TestProxyCONNECT(t *testing.T) {
	w := newWorld(t, map[string]string{"api.test": serveTLS(t).addr})
	c := w.proxy()
	write(t, c, "CONNECT API.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "CONNECT"})
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v, %v", resp, err)
	}
	s := tls.Client(c, &tls.Config{ServerName: "api.test", InsecureSkipVerify: true})
	write(t, s, "hi")
	if got := readN(t, s, 2); got != "hi" {
		t.Errorf("got %q", got)
	}
	s.Close()
	f := w.flow("tunnel", func(f verdict.Flow) bool { return f.Via == verdict.ViaConnect })
	if f.Authority.String() != "api.test:443" {
		t.Errorf("flow %+v", f)
	}
}

// Inside a CONNECT the same is enforced as outside.
func TestProxyInner(t *testing.T) {
	s := serveText(t, func(string) string { return ok200 })
	w := newWorld(t, map[string]string{"api.test": serveTLS(t).addr, "web.test": s.addr})
	c := w.proxy()
	write(t, c, "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
	readN(t, c, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	err := tls.Client(c, &tls.Config{ServerName: "evil.test", InsecureSkipVerify: true}).Handshake()
	if err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("handshake: %v", err)
	}
	c = w.proxy()
	write(t, c, "CONNECT web.test:80 HTTP/1.1\r\nHost: web.test:80\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	if got, _ := readAll(t, c); !strings.Contains(got, "HTTP/1.1 421 ") {
		t.Errorf("got %q", got)
	}
	if len(s.seen()) != 0 {
		t.Errorf("upstream saw %q", s.seen())
	}
}

func TestProxyRefused(t *testing.T) {
	for _, tt := range []struct{ name, in, status, want string }{
		{"denied CONNECT", "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", "403", "--allow evil.test"},
		{"denied http", "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", "403", "--allow evil.test"},
		{"origin-form", "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n", "400", "http://HOST/PATH"},
		{"https form", "GET https://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n", "400", "CONNECT"},
		{"foreign Host", "GET http://web.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", "421", "Host"},
		{"CONNECT with foreign Host", "CONNECT web.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n", "400", "Host"},
		{"CONNECT without port", "CONNECT web.test HTTP/1.1\r\nHost: web.test\r\n\r\n", "400", "port"},
		{"port 0", "CONNECT web.test:0 HTTP/1.1\r\nHost: web.test\r\n\r\n", "400", "port"},
		{"port 65536", "CONNECT web.test:65536 HTTP/1.1\r\nHost: web.test\r\n\r\n", "400", "port"},
		{"port 00443", "CONNECT web.test:00443 HTTP/1.1\r\nHost: web.test\r\n\r\n", "400", "port"},
		{"octal address", "CONNECT 0177.0.0.1:443 HTTP/1.1\r\nHost: x\r\n\r\n", "400", "number"},
		{"decimal address", "CONNECT 2130706433:443 HTTP/1.1\r\nHost: x\r\n\r\n", "400", "number"},
		{"percent", "CONNECT web.test%00:443 HTTP/1.1\r\nHost: x\r\n\r\n", "400", "percent"},
		{"the proxy itself", "CONNECT proxy.cloister.internal:3128 HTTP/1.1\r\nHost: proxy.cloister.internal:3128\r\n\r\n", "403", "no destination"},
		{"the gate's address", "CONNECT 198.18.0.1:3128 HTTP/1.1\r\nHost: 198.18.0.1:3128\r\n\r\n", "403", "no destination"},
		{"unknown synthetic address", "CONNECT 198.18.3.3:443 HTTP/1.1\r\nHost: 198.18.3.3:443\r\n\r\n", "403", "no name has this address"},
		{"CONNECT with body", "CONNECT web.test:443 HTTP/1.1\r\nHost: web.test:443\r\nContent-Length: 3\r\n\r\nabc", "400", "body"},
		{"user", "GET http://u:p@web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n", "400", "plain host"},
		{"nobody there", "CONNECT web.test:443 HTTP/1.1\r\nHost: web.test:443\r\n\r\n", "502", "connection refused"},
		{"no such name", "CONNECT lost.test:443 HTTP/1.1\r\nHost: lost.test:443\r\n\r\n", "502", "no such name"},
		{"forbidden address", "CONNECT inside.test:443 HTTP/1.1\r\nHost: inside.test:443\r\n\r\n", "403", "forbidden"},
		{"forbidden literal", "GET http://169.254.169.254/latest HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", "403", "metadata"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"web.test": "127.0.0.1:1"}, func(c *egress.Config) {
				c.Resolver = resolver{"inside.test": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:127.0.0.1")}}
			})
			for _, h := range []string{"lost.test", "inside.test", "169.254.169.254", "198.18.0.1", "proxy.cloister.internal"} {
				w.set(h, allow())
			}
			c := w.proxy()
			write(t, c, tt.in)
			got, _ := readAll(t, c)
			if !strings.HasPrefix(got, "HTTP/1.1 "+tt.status+" ") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q", got)
			}
			if strings.Contains(got, "127.0.0.1") {
				t.Errorf("an address of the host is told: %q", got)
			}
		})
	}
}

// Absolute-form requests to several hosts on one connection.
func TestProxyHTTP(t *testing.T) {
	name := func(s string) func(string) string {
		return func(string) string { return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(s), s) }
	}
	a, b := serveText(t, name("a")), serveText(t, name("b"))
	w := newWorld(t, map[string]string{"a.test": a.addr, "b.test:8080": b.addr})
	proxy, _ := url.Parse("http://proxy.invalid:3128")
	client := &http.Client{Transport: &http.Transport{
		Proxy:       http.ProxyURL(proxy),
		DialContext: func(context.Context, string, string) (net.Conn, error) { return w.proxy(), nil },
	}}
	defer client.CloseIdleConnections()
	for _, tt := range []struct{ url, want string }{{"http://a.test/x", "a"}, {"http://b.test:8080/", "b"}, {"http://a.test/y", "a"}} {
		resp, err := client.Get(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(got) != tt.want {
			t.Errorf("%s: %q", tt.url, got)
		}
	}
	if got := a.seen()[0]; !strings.HasPrefix(got, "GET /x HTTP/1.1\r\nHost: a.test\r\n") || strings.Contains(got, "Proxy-") {
		t.Errorf("upstream saw %q", got)
	}
	if got := b.seen()[0]; !strings.Contains(got, "Host: b.test:8080\r\n") {
		t.Errorf("upstream saw %q", got)
	}
}

func socks(host string, port int) string {
	return "\x05\x01\x00" + "\x05\x01\x00\x03" + string(rune(len(host))) + host + string([]byte{byte(port >> 8), byte(port)})
}

func TestProxySOCKS(t *testing.T) {
	s := serveText(t, func(string) string { return ok200 })
	w := newWorld(t, map[string]string{"web.test": s.addr, "db.test": serve(t, echo).addr})
	t.Run("name", func(t *testing.T) {
		c := w.connect("198.18.0.1:1080")
		write(t, c, socks("web.test", 80)+"GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n")
		got, _ := readAll(t, c)
		if !strings.HasPrefix(got, "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00HTTP/1.1 200 OK") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("synthetic address of a name", func(t *testing.T) {
		addrs, err := w.resolver().LookupNetIP(t.Context(), "ip4", "db.test")
		if err != nil {
			t.Fatal(err)
		}
		a := addrs[0].Unmap().As4()
		c := w.connect("198.18.0.1:1080")
		write(t, c, "\x05\x01\x00\x05\x01\x00\x01"+string(a[:])+"\x13\x88\x01")
		if got := readN(t, c, 13); got != "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01" {
			t.Errorf("got %q", got)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if q := w.queries[len(w.queries)-1]; q.Authority.String() != "db.test:5000" || q.Via != verdict.ViaSOCKS5 {
			t.Errorf("query %+v", q)
		}
	})
	for _, tt := range []struct{ name, in, want string }{
		{"denied", socks("evil.test", 443), "\x05\x00\x05\x02"},
		{"NUL", socks("web.test\x00.evil.test", 443), "\x05\x00\x05\x01"},
		{"octal", socks("0177.0.0.1", 443), "\x05\x00\x05\x01"},
		{"IPv6", "\x05\x01\x00\x05\x01\x00\x04" + strings.Repeat("\x00", 15) + "\x01\x00\x50", "\x05\x00\x05\x02"},
		{"BIND", "\x05\x01\x00\x05\x02\x00\x01\x01\x02\x03\x04\x00\x50", "\x05\x00\x05\x07"},
		{"password only", "\x05\x01\x02", "\x05\xff"},
		{"version 4", "\x04\x01\x00\x50\x01\x02\x03\x04\x00", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := w.connect("198.18.0.1:1080")
			write(t, c, tt.in)
			got, _ := readAll(t, c)
			if !strings.HasPrefix(got, tt.want) || len(got) > 12 {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
