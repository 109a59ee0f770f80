package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"cloister/egress"
	"cloister/egress/verdict"
)

// byHand is a server in TLS that says what no library would say.
func byHand(t testing.TB, ca *testCA, proto string, handle func(c net.Conn)) *upstream {
	cert := ca.leaf(nil, readHost)
	return serve(t, func(raw net.Conn) {
		c := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{proto}})
		if c.Handshake() == nil {
			handle(c)
		}
	})
}

// framed is byHand in HTTP/2: it is called with the fields of each stream.
func framed(t testing.TB, ca *testCA, settings []http2.Setting, handle func(f *http2.Framer, h *http2.MetaHeadersFrame)) *upstream {
	return byHand(t, ca, "h2", func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
		f := http2.NewFramer(c, c)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		_ = f.WriteSettings(settings...)
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.PingFrame:
				_ = f.WritePing(true, frame.Data)
			case *http2.MetaHeadersFrame:
				handle(f, frame)
			}
		}
	})
}

// say writes one head of a stream.
func say(f *http2.Framer, id uint32, end bool, fields ...string) {
	var b strings.Builder
	enc := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(b.String()), EndStream: end, EndHeaders: true})
}

// ask2 asks with exactly these fields besides the usual ones, and gives the status of
// the answer; empty where there is none.
func (w *inspected) ask2(fields ...string) string {
	w.t.Helper()
	c := w.open("h2")
	defer c.Close()
	patient(c)
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	all := []string{":method", "GET", ":scheme", "https", ":authority", readHost, ":path", "/"}
	for i := 0; i < len(fields); i += 2 {
		if at := strings.Index(" :method :scheme :authority :path ", " "+fields[i]+" "); at >= 0 {
			all[map[int]int{0: 1, 8: 3, 16: 5, 27: 7}[at]] = fields[i+1]
		} else {
			all = append(all, fields[i], fields[i+1])
		}
	}
	say(f, 1, true, all...)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return ""
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if status := frame.PseudoValue("status"); status[0] != '1' {
				return status
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return ""
		}
	}
}

// What a server behind, that speaks HTTP/1.1 further on, would read as another request
// or another length is refused in HTTP/2 as it is in HTTP/1.1.
func TestFieldsThatAreLines(t *testing.T) {
	ca := newTestCA(t)
	var mu sync.Mutex
	var seen []string
	u := framed(t, ca, nil, func(f *http2.Framer, h *http2.MetaHeadersFrame) {
		mu.Lock()
		seen = append(seen, h.PseudoValue("method")+" "+h.PseudoValue("path"))
		for _, field := range h.RegularFields() {
			seen = append(seen, field.Name+"="+field.Value)
		}
		mu.Unlock()
		say(f, h.StreamID, true, ":status", "200")
	})
	w := newInspectedBy(t, ca, u.addr)
	for _, fields := range [][]string{
		{":method", "GET /admin HTTP/1.1"}, {":method", "GET\t/admin"}, {":method", "G\xc3\x89T"}, {":method", strings.Repeat("A", 33)}, {":method", "GET:"},
		{"content_length", "5"}, {"transfer_encoding", "chunked"}, {"Transfer_encoding", "chunked"}, {":path", "/a/%c0%ae%c0%ae/b\x7f"},
	} {
		if got := w.ask2(fields...); got != "400" && got != "" {
			t.Errorf("%q: %s", fields, got)
		}
	}
	mu.Lock()
	if len(seen) > 0 {
		t.Errorf("the server saw %q", seen)
	}
	mu.Unlock()
	// The control; and a value is what HTTP/1.1 would make of it, for the judge too.
	if got := w.ask2("x-mark", " \tmark "); got != "200" || strings.Join(seen, " ") != "GET / x-mark=mark" {
		t.Errorf("%s, %q", got, seen)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, value := range w.queries[len(w.queries)-1].HTTP.Header {
		if value != "mark" {
			t.Errorf("judged: %s=%q", name, value)
		}
	}
}

// Whatever a server says, a program gets an answer with an end, or hears that it is none.
func TestAnswersThatAreNone(t *testing.T) {
	ca := newTestCA(t)
	for answer, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nConnection: content-length\r\nContent-Length: 2\r\n\r\nok":                                                    "200 ok",
		"HTTP/1.1 200 OK\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 9\r\n\r\n": "200 ok",
		"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok":                                                                          "204 ",
		"HTTP/1.1 200 OK\r\nConnection: " + strings.Repeat("a,", 20_000) + "\r\n\r\n":                                                     "502 ",
	} {
		u := byHand(t, ca, "http/1.1", func(c net.Conn) {
			r := bufio.NewReader(c)
			for {
				if _, err := readHead(r); err != nil {
					return
				}
				_, _ = io.WriteString(c, answer)
			}
		})
		w := newInspectedBy(t, ca, u.addr)
		c := w.open("http/1.1")
		patient(c)
		r := bufio.NewReader(c)
		for range 2 { // the second proves that the first had an end
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"); err != nil {
				break
			}
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Errorf("%.60q: %v", answer, err)
				break
			}
			body, err := io.ReadAll(resp.Body)
			if got := fmt.Sprintf("%d %s", resp.StatusCode, body); err != nil || !strings.HasPrefix(got, want) {
				t.Errorf("%.60q: %.60q, %v", answer, got, err)
			}
			if resp.Close {
				break
			}
		}
		c.Close()
	}
	for status, want := range map[string]string{"200": "200", "42": "502", "099": "502", "600": "502", "1000": "502", "-1": "502", "101": "502", "103": "502"} {
		u := framed(t, ca, nil, func(f *http2.Framer, h *http2.MetaHeadersFrame) {
			for range 100 {
				if say(f, h.StreamID, status[0] != '1' || len(status) > 3, ":status", status); status != "103" {
					return
				}
			}
		})
		w := newInspectedBy(t, ca, u.addr)
		if got := w.ask2(); got != want {
			t.Errorf("status %s: %q", status, got)
		}
		if want == "502" {
			w.reason("the server's answer")
		}
	}
}

// A head that would cost more to read than its server is refused.
func TestConnectionNamesTooMuch(t *testing.T) {
	ca := newTestCA(t)
	addr, asked := counter(t, ca)
	w := newInspectedBy(t, ca, addr)
	for named, want := range map[string]string{
		"Connection: " + strings.Repeat("te,", 9000) + "\r\n" + strings.Repeat("a:\r\n", 6000): "400",
		strings.Repeat("Connection: te\r\n", 3000):                                             "400",
		"Connection: te, keep-alive, x-a, x-b\r\nX-A: b\r\n":                                   "200",
	} {
		c := w.open("http/1.1")
		patient(c)
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: api.test\r\n%s\r\n", named)
		if head, err := readHead(bufio.NewReader(c)); err != nil || !strings.HasPrefix(head, "HTTP/1.1 "+want) {
			t.Errorf("%.40q: %.100q, %v", named, head, err)
		}
		c.Close()
	}
	if asked.Load() != 1 {
		t.Errorf("the server was asked %d times", asked.Load())
	}
}

// Bytes up are counted wherever they stand: in heads, addresses, and behind the body.
func TestQuotaOfHeads(t *testing.T) {
	ca := newTestCA(t)
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }), "h2", "http/1.1")
	big := strings.Repeat("x", 9000)
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, where := range []string{"head", "query", "trailer", "many", "none"} {
			w := newInspectedBy(t, ca, addr, bounded(egress.Quota{UploadHost: 20_000}))
			client := w.client()
			if proto == "HTTP/2.0" {
				client = w.client2()
			}
			refused := -1
			for i := range 60 {
				req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/", io.MultiReader(strings.NewReader("x")))
				switch where {
				case "head":
					req.Header.Set("X-Data", big)
				case "query":
					req.URL.RawQuery = big
				case "trailer":
					req.Trailer = http.Header{"X-Data": {big[:7500]}}
				case "many":
					req.Header.Set("X-Data", big[:900])
				}
				resp, err := client.Do(req)
				if err != nil {
					refused = i // behind the body: the answer may be there
					break
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode == http.StatusRequestEntityTooLarge {
					refused = i
					break
				}
			}
			want := map[string][2]int{"head": {1, 3}, "query": {1, 3}, "trailer": {1, 3}, "many": {16, 45}, "none": {-1, -1}}[where]
			if refused < want[0] || refused > want[1] {
				t.Errorf("%s, %s: refused at %d, want %d to %d", proto, where, refused, want[0], want[1])
			}
			if where != "none" {
				w.reason("bytes sent to this host")
			}
		}
	}
}

// Behind a body nothing names another method or path: rules were asked before.
func TestTrailersThatNameAnother(t *testing.T) {
	ca := newTestCA(t)
	got := make(chan http.Header, 1)
	addr := tlsServer(t, ca.leaf(nil, readHost), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Trailer
	}), "h2", "http/1.1")
	w := newInspectedBy(t, ca, addr)
	for proto, client := range map[string]*http.Client{"HTTP/1.1": w.client(), "HTTP/2.0": w.client2()} {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/", io.MultiReader(strings.NewReader("x")))
		req.Trailer = http.Header{"X-Http-Method-Override": {"DELETE"}, "X_rewrite_url": {"/admin"}, "Cookie": {"a=b"}, "X-Sum": {"7"}}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		trailer := <-got
		if trailer.Get("X-Sum") != "7" || trailer.Get("X-Http-Method-Override")+trailer.Get("X_rewrite_url")+trailer.Get("Cookie") != "" || resp.Proto != proto {
			t.Errorf("%s: %v", resp.Proto, trailer)
		}
	}
}

// A server that takes one stream at a time is asked on a connection for each that is
// under way, and none more for those that have ended.
func TestServerOfOneStream(t *testing.T) {
	ca := newTestCA(t)
	var seen atomic.Int32
	third := make(chan struct{})
	u := framed(t, ca, []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 1}}, func(f *http2.Framer, h *http2.MetaHeadersFrame) {
		switch seen.Add(1) {
		case 2:
			select {
			case <-third:
			case <-time.After(patience):
			}
		case 3:
			close(third)
		}
		say(f, h.StreamID, true, ":status", "200")
	})
	w := newInspectedBy(t, ca, u.addr)
	client := w.client2()
	get := func() {
		resp, err := client.Get("https://api.test/")
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("%v %v", resp, err)
			return
		}
		resp.Body.Close()
	}
	get() // from here on its bound is known
	var both sync.WaitGroup
	both.Go(get)
	both.Go(get)
	both.Wait()
	for range 20 {
		get()
	}
	// One is taken for busy until its stream is tidied away.
	if n := u.accepted(); n < 2 || n > 5 {
		t.Errorf("%d connections", n)
	}
}

// A server that refuses more streams than it said is never asked for more.
func TestServerOfFewStreams(t *testing.T) {
	ca := newTestCA(t)
	u := byHand(t, ca, "h2", func(c net.Conn) {
		think := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(50 * time.Millisecond) //nolint:forbidigo // a server that thinks
		})
		(&http2.Server{MaxConcurrentStreams: 4}).ServeConn(c, &http2.ServeConnOpts{Handler: think}) //nolint:staticcheck // what the border itself stands on
	})
	w := newInspectedBy(t, ca, u.addr)
	client := w.client2()
	post := func() {
		resp, err := client.Post("https://api.test/", "text/plain", strings.NewReader("asked once"))
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("%v %v", resp, err)
			return
		}
		resp.Body.Close()
	}
	post() // from here on its bound is known
	var all sync.WaitGroup
	for range 20 {
		all.Go(post)
	}
	all.Wait()
}

// A server that goes away as it is asked has not read the request: it is sent again,
// where it may be.
func TestServerThatGoesAway(t *testing.T) {
	ca := newTestCA(t)
	u := framed(t, ca, nil, func(f *http2.Framer, h *http2.MetaHeadersFrame) {
		if h.StreamID == 1 {
			say(f, 1, true, ":status", "200")
			return
		}
		_ = f.WriteGoAway(1, http2.ErrCodeNo, nil)
	})
	w := newInspectedBy(t, ca, u.addr)
	client := w.client2()
	for range 5 {
		resp, err := client.Get("https://api.test/")
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		resp.Body.Close()
	}
	if u.accepted() != 5 || w.count(verdict.Request) != 5 {
		t.Errorf("%d connections, %d requests judged", u.accepted(), w.count(verdict.Request))
	}
}

// A server that wants a certificate of the program is told apart, whichever way it says so.
func TestServerThatWantsACertificate(t *testing.T) {
	ca := newTestCA(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, proto := range []string{"http/1.1", "h2"} {
			u := serve(t, func(raw net.Conn) {
				c := tls.Server(raw, &tls.Config{
					Certificates: []tls.Certificate{ca.leaf(nil, readHost)}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: version, NextProtos: []string{proto},
				})
				_ = c.Handshake()
				_, _ = io.Copy(io.Discard, raw) // what is closed unread is reset, and the alert with it
			})
			w := newInspectedBy(t, ca, u.addr)
			client := w.client()
			if proto == "h2" {
				client = w.client2()
			}
			resp, err := client.Get("https://api.test/")
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			// In HTTP/2 the connection may have ended before the request, and the alert with it.
			told := strings.Contains(string(text), "client certificate") && strings.Contains(string(text), "tls: tunnel")
			if resp.StatusCode != 502 || !told && (version == tls.VersionTLS12 || proto != "h2") {
				t.Errorf("%s, %s: %s %s", tls.VersionName(version), proto, resp.Status, text)
			}
		}
	}
}

// The frames of a WebSocket are no way around what a rule lets a body hold.
func TestFramesHoldNoMoreThanABody(t *testing.T) {
	framesHold(t, 0)
	framesHold(t, 500) // which bounds each request, and no conversation
}

func framesHold(t *testing.T, own int64) {
	t.Helper()
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), webSocket(rightAccept)), bounded(egress.Quota{RequestBytes: own}))
	v := read()
	v.MaxBytes = 1000
	w.set(readHost, v)
	c := w.open("http/1.1")
	patient(c)
	write(t, c, webSocketRequest)
	r := bufio.NewReader(c)
	if head, err := readHead(r); err != nil || !strings.Contains(head, "101") {
		t.Fatal(head, err)
	}
	for range 20 {
		if _, err := io.WriteString(c, "\x82\xe4abcd"+strings.Repeat("x", 100)); err != nil {
			break
		}
	}
	_, _ = io.Copy(io.Discard, r)
	if f := w.reason("a body of more than 1000 bytes"); f.Up > 1000 || f.Status != 413 {
		t.Errorf("%+v", f)
	}
}
