package egress_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"cloister/egress/verdict"
)

// client2 is Go's own client, speaking HTTP/2.
func (w *inspected) client2() *http.Client {
	c := w.client()
	t := c.Transport.(*http.Transport)
	t.ForceAttemptHTTP2 = true
	return c
}

// server2 echoes, and knows what HTTP/2 has besides.
func server2(t testing.TB, ca *testCA) string {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Saw", fmt.Sprintf("%s %s %s %d", r.Proto, r.Host, r.RequestURI, r.ContentLength))
		_ = http.NewResponseController(w).EnableFullDuplex()
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Body.Read(buf)
			_, _ = w.Write(buf[:n])
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				break
			}
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"X-Got", r.Trailer.Get("X-Sum"))
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "late")
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/wait", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	return tlsServer(t, ca.leaf(nil, readHost), mux, "h2", "http/1.1")
}

func TestHTTP2(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, server2(t, ca))
	client := w.client2()
	body := strings.Repeat("x", 200<<10)
	for i := range 3 {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/a/..//echo?q=%2e", io.MultiReader(strings.NewReader(body)))
		req.Trailer = http.Header{"X-Sum": {"7"}}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(got) != body || resp.Proto != "HTTP/2.0" || resp.Trailer.Get("Grpc-Status") != "0" || resp.Trailer.Get("X-Got") != "7" {
			t.Fatalf("request %d: %d bytes, %v, %s, %v", i, len(got), err, resp.Proto, resp.Trailer)
		}
		if saw := resp.Header.Get("X-Saw"); saw != "HTTP/2.0 api.test /echo?q=%2e -1" {
			t.Errorf("the server saw %q", saw)
		}
	}
	if c, r := w.count(verdict.Connect), w.count(verdict.Request); c != 1 || r != 3 {
		t.Errorf("%d connections, %d requests", c, r)
	}
	f := w.flow("a request", func(f verdict.Flow) bool { return f.Kind == verdict.Request })
	if f.Path != "/echo" || f.Status != 200 || f.Up != 200<<10 || f.Down != 200<<10 {
		t.Errorf("flow %+v", f)
	}
	hinted := ""
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hinted = fmt.Sprint(code, h.Get("Link"))
		return nil
	}})
	req, _ := http.NewRequestWithContext(ctx, "GET", "https://api.test/hints", nil)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(got) != "late" || hinted != "103 </x>" && hinted != "103</x>" {
		t.Errorf("hints: %q %q", got, hinted)
	}
	if resp, err = client.Get("https://api.test/broken"); err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		t.Error("half an answer looks whole")
	}
}

// Both directions of a stream go on at once, as gRPC's do.
func TestHTTP2BothWays(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, server2(t, ca))
	r, pw := io.Pipe()
	req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.test/echo", r)
	done := make(chan *http.Response, 1)
	go func() {
		resp, err := w.client2().Do(req)
		if err != nil {
			t.Error(err)
		}
		done <- resp
	}()
	_, _ = io.WriteString(pw, "one")
	resp := <-done
	if resp == nil {
		return
	}
	defer resp.Body.Close()
	for _, word := range []string{"one", "two", "six"} {
		if word != "one" {
			_, _ = io.WriteString(pw, word)
		}
		got := make([]byte, 3)
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != word {
			t.Fatalf("%q, %v", got, err)
		}
	}
	pw.Close()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

// A stream for another name does not ride on a connection to this one.
func TestHTTP2Names(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, server2(t, ca))
	for _, tt := range []struct {
		method, authority, status string
		extra                     []hpack.HeaderField
		path                      string
	}{
		{"GET", "api.test", "200", nil, "/echo"},
		{"GET", "evil.test", "421", nil, "/echo"},
		{"GET", "api.test:444", "421", nil, "/echo"},
		{"GET", "api.test", "PROTOCOL_ERROR", []hpack.HeaderField{{Name: "host", Value: "evil.test"}}, "/echo"},
		{"GET", "0x7f.1", "400", nil, "/echo"},
		{"CONNECT", "evil.test:443", "405", nil, ""},
		{"POST", "api.test", "400", []hpack.HeaderField{{Name: "content-length", Value: "5"}}, "/echo"}, // and no body
		{"POST", "api.test", "400", []hpack.HeaderField{{Name: "content-length", Value: "+0"}}, "/echo"},
		{"POST", "api.test", "200", []hpack.HeaderField{{Name: "content-length", Value: "0"}}, "/echo"},
		// Fields of a connection, which an HTTP/1 server behind would obey (RFC 9113
		// 8.2.2), and a second request in a value.
		{"GET", "api.test", "400", []hpack.HeaderField{{Name: "transfer-encoding", Value: "chunked"}}, "/echo"},
		{"GET", "api.test", "400", []hpack.HeaderField{{Name: "connection", Value: "x-rule"}}, "/echo"},
		{"GET", "api.test", "400", []hpack.HeaderField{{Name: "keep-alive", Value: "1"}}, "/echo"},
		{"GET", "api.test", "400", []hpack.HeaderField{{Name: "proxy-connection", Value: "close"}}, "/echo"},
		{"GET", "api.test", "400", []hpack.HeaderField{{Name: "upgrade", Value: "websocket"}}, "/echo"},
		{"GET", "api.test", "400", []hpack.HeaderField{{Name: "te", Value: "gzip"}}, "/echo"},
		{"GET", "api.test", "PROTOCOL_ERROR", []hpack.HeaderField{{Name: "X-Large", Value: "1"}}, "/echo"},
		{"GET", "api.test", "PROTOCOL_ERROR", []hpack.HeaderField{{Name: "x", Value: "a\r\nGET /smuggled HTTP/1.1"}}, "/echo"},
		// What HTTP/1 refuses in a target, since servers read it in two ways.
		{"GET", "api.test", "400", nil, "/echo#x"},
		{"GET", "api.test", "400", nil, "/echo?#x"},
		{"GET", "api.test", "400", nil, "/echo HTTP/1.1"},
		{"GET", "api.test", "400", nil, "/ech\xf6"},
	} {
		c := w.open("h2")
		_, _ = io.WriteString(c, http2.ClientPreface)
		f := http2.NewFramer(c, c)
		_ = f.WriteSettings()
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block)
		fields := []hpack.HeaderField{{Name: ":method", Value: tt.method}, {Name: ":authority", Value: tt.authority}}
		if tt.method != "CONNECT" {
			fields = append(fields, hpack.HeaderField{Name: ":scheme", Value: "https"}, hpack.HeaderField{Name: ":path", Value: tt.path})
		}
		for _, h := range append(fields, tt.extra...) {
			_ = enc.WriteField(h)
		}
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		got := ""
		for got == "" {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Fatalf("%s %s: %v", tt.method, tt.authority, err)
			}
			switch frame := frame.(type) {
			case *http2.MetaHeadersFrame:
				got = frame.PseudoValue("status")
			case *http2.RSTStreamFrame:
				got = frame.ErrCode.String()
			case *http2.GoAwayFrame:
				got = frame.ErrCode.String()
			}
		}
		if got != tt.status {
			t.Errorf("%s %s %s %v: %s, want %s", tt.method, tt.authority, tt.path, tt.extra, got, tt.status)
		}
		c.Close()
	}
}

// Each stream is judged, bounded and told for itself.
func TestHTTP2Judged(t *testing.T) {
	ca := newTestCA(t)
	w := newInspectedBy(t, ca, server2(t, ca))
	client := w.client2()
	open, err := client.Get("https://api.test/wait")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	v := read()
	v.MaxBytes = 1000
	w.set(readHost, v)
	for body, status := range map[string]int{strings.Repeat("x", 1000): 200, strings.Repeat("x", 1001): 413} {
		resp, err := client.Post("https://api.test/echo", "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, _ = io.Copy(io.Discard, resp.Body); resp.StatusCode != status {
			t.Errorf("%d bytes: %d", len(body), resp.StatusCode)
		}
		resp.Body.Close()
	}
	w.set(readHost, verdict.Answer{Effect: "deny", Reason: "not this", Hints: []string{"write y"}})
	resp, err := client.Get("https://api.test/echo")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 403 || !strings.Contains(string(got), "not this") || !strings.Contains(string(got), "write y") {
		t.Errorf("%d %s", resp.StatusCode, got)
	}
	ended := make(chan error, 1)
	go func() { _, err := io.ReadAll(open.Body); ended <- err }()
	w.engine.Recheck(t.Context())
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a stream that is no longer allowed ended as if it was whole")
		}
	case <-time.After(20 * time.Second):
		t.Error("a stream that is no longer allowed goes on")
	}
}

// What the server speaks is what the program gets.
func TestHTTP2Honest(t *testing.T) {
	ca := newTestCA(t)
	ok := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), ok))
	if got := w.open("h2", "http/1.1").ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("the program got %q from a server of HTTP/1.1", got)
	}
	both := newInspectedBy(t, ca, server2(t, ca))
	for want, offer := range map[string][]string{"h2": {"h2", "http/1.1"}, "http/1.1": {"http/1.1"}, "": nil} {
		if got := both.open(offer...).ConnectionState().NegotiatedProtocol; got != want {
			t.Errorf("offered %v, got %q", offer, got)
		}
	}
	// A server that cannot be trusted, told in HTTP/2.
	bad := newInspectedBy(t, newTestCA(t), server2(t, ca))
	c := bad.client2()
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: bad.pool, NextProtos: []string{"h2"}}
	resp, err := c.Get("https://api.test/echo")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); resp.StatusCode != 502 || !strings.Contains(string(got), "does not trust") {
		t.Errorf("%d %s", resp.StatusCode, got)
	}
}
