package egress_test

import (
	"bufio"
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"cloister/egress"
	"cloister/egress/verdict"
)

// counter is a server of one word that counts what it is asked.
func counter(t testing.TB, ca *testCA, protos ...string) (addr string, asked *atomic.Int32) {
	asked = new(atomic.Int32)
	return tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, "ok")
	}), protos...), asked
}

// Heads that are too long, or no text, are refused on both protocols, and the server
// is not asked.
func TestBadHeads(t *testing.T) {
	ca := newTestCA(t)
	addr, asked := counter(t, ca, "h2", "http/1.1")
	for name, tt := range map[string]struct{ path, field, value, status string }{
		"1 MB header":               {"/", "x-long", strings.Repeat("a", 1<<20), "431"},
		"invalid UTF-8 in the path": {"/\xff\xfe", "x", "y", "400"},
		"NUL in the path":           {"/a\x00b", "x", "y", "400"},
		"invalid UTF-8 in a name":   {"/", "x-\xff", "y", "400"},
		"NUL in a value":            {"/", "x", "a\x00b", "400"},
		"a line feed in a value":    {"/", "x", "a\nHost: evil.test", "400"},
	} {
		t.Run(name+", HTTP/1.1", func(t *testing.T) {
			w := newInspectedBy(t, ca, addr)
			c := w.open("http/1.1")
			go func() {
				fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: api.test\r\n%s: %s\r\nConnection: close\r\n\r\n", tt.path, tt.field, tt.value)
			}()
			if got, _ := io.ReadAll(c); !strings.HasPrefix(string(got), "HTTP/1.1 "+tt.status+" ") {
				t.Errorf("%.300q", got)
			}
		})
		t.Run(name+", HTTP/2", func(t *testing.T) {
			w := newInspectedBy(t, ca, addr)
			c := w.open("h2")
			_, _ = io.WriteString(c, http2.ClientPreface)
			f := http2.NewFramer(c, c)
			_ = f.WriteSettings()
			var block bytes.Buffer
			enc := hpack.NewEncoder(&block)
			for _, h := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", readHost}, {":path", tt.path}, {tt.field, tt.value}} {
				_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
			}
			go func() {
				rest := block.Bytes()
				first := rest[:min(len(rest), 16<<10)]
				rest = rest[len(first):]
				err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: true, EndHeaders: len(rest) == 0})
				for err == nil && len(rest) > 0 {
					part := rest[:min(len(rest), 16<<10)]
					rest = rest[len(part):]
					err = f.WriteContinuation(1, len(rest) == 0, part)
				}
			}()
			f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					return // the connection was ended
				}
				if h, is := frame.(*http2.MetaHeadersFrame); is {
					if h.PseudoValue("status")[0] != '4' {
						t.Errorf("status %s", h.PseudoValue("status"))
					}
					return
				}
				if _, is := frame.(*http2.RSTStreamFrame); is {
					return
				}
				if _, is := frame.(*http2.GoAwayFrame); is {
					return
				}
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
	// Bytes that a value may hold go through as they are.
	w := newInspectedBy(t, ca, addr)
	c := w.open("http/1.1")
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: api.test\r\nX: \xff\xfe\r\nConnection: close\r\n\r\n")
	if got, _ := io.ReadAll(c); !strings.HasPrefix(string(got), "HTTP/1.1 200 ") {
		t.Errorf("bytes in a value: %q", got)
	}
}

// What two servers read in two ways is refused, and the request that one of them would
// have found in it never arrives.
func TestSmuggling(t *testing.T) {
	ca := newTestCA(t)
	var smuggled atomic.Int32
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/smuggled" {
			smuggled.Add(1)
		}
		b, _ := io.ReadAll(r.Body)
		_, _ = w.Write(b)
	}))
	const inner = "GET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"
	for _, tt := range []struct{ name, rest, status string }{
		{"CL.TE", "Content-Length: 53\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner, "400"},
		{"TE.CL", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n30\r\n" + inner + "\r\n0\r\n\r\n", "400"},
		{"TE.TE", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + inner, "400"},
		{"TE with a tab", "Transfer-Encoding:\tchunked, identity\r\n\r\n0\r\n\r\n" + inner, "400"},
		{"TE that nobody knows", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner, "400"},
		{"a blank before the colon", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + inner, "400"},
		{"two lengths", "Content-Length: 0\r\nContent-Length: 48\r\n\r\n" + inner, "400"},
		{"a list of lengths", "Content-Length: 0, 48\r\n\r\n" + inner, "400"},
		{"a length with a sign", "Content-Length: +0\r\n\r\n" + inner, "400"},
		{"obs-fold", "X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner, "400"},
		{"bare LF in the head", "X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner, "400"},
		{"bare CR in the head", "X: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner, "400"},
		{"bare LF in chunks", "Transfer-Encoding: chunked\r\n\r\n0\n\n" + inner, "400"},
		{"bare LF in a chunk's extension", "Transfer-Encoding: chunked\r\n\r\n0;a\nb\r\n\r\n" + inner, "400"},
		{"a chunk's size with a prefix", "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + inner, "400"},
	} {
		w := newInspectedBy(t, ca, addr)
		c := w.open("http/1.1")
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: api.test\r\n"+tt.rest)
		if got, _ := io.ReadAll(c); !strings.HasPrefix(string(got), "HTTP/1.1 "+tt.status+" ") || strings.Count(string(got), "HTTP/1.1 ") != 1 {
			t.Errorf("%s: %.200q", tt.name, got)
		}
		c.Close()
	}
	if n := smuggled.Load(); n != 0 {
		t.Errorf("%d requests were smuggled", n)
	}
	// The control: a second request is one, and is judged as one.
	w := newInspectedBy(t, ca, addr)
	c := w.open("http/1.1")
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 0\r\n\r\n"+strings.Replace(inner, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
	if got, _ := io.ReadAll(c); strings.Count(string(got), "HTTP/1.1 200 ") != 2 || smuggled.Load() != 1 {
		t.Errorf("two requests: %q", got)
	}
}

// Chunks without end: a bound ends those that go up, and those that come down last as
// long as somebody reads them.
func TestEndlessChunks(t *testing.T) {
	ca := newTestCA(t)
	ended := make(chan int64, 1)
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			n, _ := io.Copy(io.Discard, r.Body)
			ended <- n
			return
		}
		for {
			if _, err := w.Write([]byte("x")); err != nil || http.NewResponseController(w).Flush() != nil {
				ended <- 0
				return
			}
		}
	}))
	w := newInspectedBy(t, ca, addr, bounded(egress.Quota{RequestBytes: 4 << 10}))
	c := w.open("http/1.1")
	go func() {
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n")
		for {
			if _, err := fmt.Fprint(c, "1\r\nx\r\n"); err != nil {
				return
			}
		}
	}()
	head, err := readHead(bufio.NewReader(c))
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 413 ") {
		t.Errorf("%q %v", head, err)
	}
	if n := <-ended; n > 4<<10 {
		t.Errorf("%d bytes went up", n)
	}
	down := w.open("http/1.1")
	fmt.Fprint(down, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if _, err := io.ReadFull(down, make([]byte, 2000)); err != nil {
		t.Error(err)
	}
	down.NetConn().Close()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the server still pours")
	}
}

// What is compressed is nobody's to unpack: a bomb goes through as its few bytes.
func TestCompressedAsItIs(t *testing.T) {
	ca := newTestCA(t)
	bomb := bytes.Repeat([]byte("\x1f\x8b\x08 no more than bytes"), 1000)
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("X-Saw", r.Header.Get("Accept-Encoding")+","+r.Header.Get("Content-Encoding"))
		_, _ = w.Write(b)
	}), "h2", "http/1.1")
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		w := newInspectedBy(t, ca, addr)
		client := w.client()
		if proto == "HTTP/2.0" {
			client = w.client2()
		}
		client.Transport.(*http.Transport).DisableCompression = true
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/", bytes.NewReader(bomb))
		req.Header.Set("Content-Encoding", "gzip")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(got, bomb) || resp.Header.Get("X-Saw") != ",gzip" || resp.Header.Get("Content-Encoding") != "gzip" || resp.Proto != proto {
			t.Errorf("%s: %d bytes, %v, %v", proto, len(got), err, resp.Header)
		}
	}
}

// echConfig is an ECHConfigList (RFC 9849) of a key that nobody has, under the name
// that is seen from outside.
func echConfig(t testing.TB, public string) []byte {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	two := binary.BigEndian.AppendUint16
	config := append([]byte{7}, two(nil, 0x20)...) // id, DHKEM(X25519)
	config = append(two(config, 32), key.PublicKey().Bytes()...)
	config = append(two(config, 4), 0, 1, 0, 1) // HKDF-SHA256, AES-128-GCM
	config = append(config, 0, byte(len(public)))
	config = two(append(config, public...), 0)
	whole := append(two(two(nil, 0xfe0d), uint16(len(config))), config...)
	return append(two(nil, uint16(len(whole))), whole...)
}

// A name that is hidden in a hello is not reached: the one that is seen is what is
// served, and the program is told that it was so.
func TestHiddenName(t *testing.T) {
	ca := newTestCA(t)
	addr, asked := counter(t, ca)
	w := newInspectedBy(t, ca, addr)
	for _, tt := range []struct{ public, reason string }{
		{readHost, ""}, // it refuses to go on by itself
		{"front.test", "TLS server name is not the name that was connected to"},
	} {
		c := tls.Client(w.dial(readHost, 443), &tls.Config{
			RootCAs: w.pool, ServerName: "hidden.test", MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: echConfig(t, tt.public),
		})
		err := c.Handshake()
		rejected, is := errors.AsType[*tls.ECHRejectionError](err)
		if tt.reason == "" && (!is || len(rejected.RetryConfigList) > 0) || err == nil {
			t.Errorf("%s: %v", tt.public, err)
		}
		c.Close()
		if tt.reason != "" {
			w.reason(tt.reason)
		}
	}
	if asked.Load() != 0 {
		t.Error("the server was asked")
	}
}

// TLS 1.0 is refused from both sides.
func TestOldTLS(t *testing.T) {
	ca := newTestCA(t)
	addr, _ := counter(t, ca)
	w := newInspectedBy(t, ca, addr)
	c := tls.Client(w.dial(readHost, 443), &tls.Config{RootCAs: w.pool, ServerName: readHost, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}) // it is what is refused
	if err := c.Handshake(); err == nil {
		t.Error("TLS 1.0 from inside")
	}
	c.Close()
	old := serve(t, func(c net.Conn) {
		_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{ca.leaf(nil, readHost)}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}).Handshake() // it is what is refused
	})
	w = newInspectedBy(t, ca, old.addr)
	resp, err := w.client().Get("https://api.test/")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 502 || !bytes.Contains(got, []byte("TLS with api.test:443")) {
		t.Errorf("%d %s", resp.StatusCode, got)
	}
}

// Random bytes after a handshake of WebSocket are no frames: both sides end.
func TestRandomWebSocket(t *testing.T) {
	ca := newTestCA(t)
	got := make(chan []byte, 1)
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", rightAccept(r.Header.Get("Sec-WebSocket-Key")))
		_ = rw.Flush()
		b, _ := io.ReadAll(rw)
		got <- b
	}))
	w := newInspectedBy(t, ca, addr)
	c := w.open("http/1.1")
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	r := bufio.NewReader(c)
	if head, err := readHead(r); err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("%q %v", head, err)
	}
	noise := make([]byte, 64<<10)
	_, _ = rand.Read(noise)
	noise[0] |= 0x70 // bits that nobody has negotiated
	_, _ = c.Write(noise)
	if rest, err := io.ReadAll(r); len(rest) > 200 {
		t.Errorf("%d bytes came, %v", len(rest), err)
	}
	if b := <-got; len(b) > 200 || bytes.Contains(b, noise[:64]) {
		t.Errorf("%d bytes of noise went up", len(b))
	}
	w.flow("its end", func(f verdict.Flow) bool { return strings.Contains(f.Reason, "frame") })
}

// A server that answers before the request ends is heard, on both protocols.
func TestEarlyAnswer(t *testing.T) {
	ca := newTestCA(t)
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "enough", http.StatusTeapot)
	}), "h2", "http/1.1")
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		w := newInspectedBy(t, ca, addr)
		client := w.client()
		if proto == "HTTP/2.0" {
			client = w.client2()
		}
		body, more := io.Pipe()
		go func() {
			for {
				if _, err := more.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}()
		resp, err := client.Post("https://api.test/", "text/plain", body)
		if err != nil {
			t.Fatalf("%s: %v", proto, err)
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		body.Close()
		if resp.StatusCode != http.StatusTeapot || string(got) != "enough\n" || resp.Proto != proto {
			t.Errorf("%s: %s %q", proto, resp.Status, got)
		}
	}
}
