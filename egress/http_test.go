package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/egress"
	"cloister/egress/verdict"

	"github.com/google/go-cmp/cmp"
)

const ok200 = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestHTTPIsWrittenAnew(t *testing.T) {
	s := serveText(t, func(string) string { return ok200 })
	w := newWorld(t, map[string]string{"web.test": s.addr})
	c := w.dial("web.test", 80)
	write(t, c, "GET http://WEB.test/a?b=secret HTTP/1.1\r\nhost:  Web.Test:80\r\nX-Keep:  v \r\nX-Drop: 1\r\nConnection: X-Drop, close\r\nKeep-Alive: 5\r\nProxy-Connection: close\r\nTE: gzip, trailers\r\n\r\n")
	got, _ := readAll(t, c)
	if got != "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok" {
		t.Errorf("response %q", got)
	}
	want := []string{"GET /a?b=secret HTTP/1.1\r\nHost: web.test\r\nX-Keep: v\r\nTE: trailers\r\nConnection: TE\r\n\r\n"}
	if diff := cmp.Diff(want, s.seen()); diff != "" {
		t.Errorf("upstream (-want +got):\n%s", diff)
	}
	f := w.flow("request", func(f verdict.Flow) bool { return f.Kind == verdict.Request })
	if f.Method != "GET" || f.Path != "/a" || f.Status != 200 || f.Down != 2 || f.Authority.String() != "web.test:80" {
		t.Errorf("flow %+v", f)
	}
}

// Every request of a connection is judged, pipelined ones too.
func TestHTTPEveryRequestIsJudged(t *testing.T) {
	for _, tt := range []struct{ name, second, status string }{
		{"other host", "GET /2 HTTP/1.1\r\nHost: evil.test\r\n\r\n", "421"},
		{"other host, absolute", "GET http://evil.test/2 HTTP/1.1\r\nHost: web.test\r\n\r\n", "421"},
		{"literal address", "GET /2 HTTP/1.1\r\nHost: 203.0.113.1\r\n\r\n", "421"},
		{"other port", "GET /2 HTTP/1.1\r\nHost: web.test:8080\r\n\r\n", "421"},
		{"CONNECT", "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", "405"},
		{"odd host", "GET /2 HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n", "400"},
		{"user in host", "GET /2 HTTP/1.1\r\nHost: web.test@evil.test\r\n\r\n", "400"},
		{"h2c", "GET /2 HTTP/1.1\r\nHost: web.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "400"},
		{"websocket", "GET /2 HTTP/1.1\r\nHost: web.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "400"},
		{"preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
		{"hop-by-hop host", "GET /2 HTTP/1.1\r\nHost: web.test\r\nConnection: Host\r\n\r\n", "400"},
		{"smuggled", "POST /2 HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /3 HTTP/1.1\r\nHost: web.test\r\n\r\n", "400"},
		{"HTTP/0.9", "GET /2\r\n\r\n", "400"},
		{"asterisk", "GET * HTTP/1.1\r\nHost: web.test\r\n\r\n", "400"},
		{"no slash", "GET a HTTP/1.1\r\nHost: web.test\r\n\r\n", "400"},
		{"expectation", "POST /2 HTTP/1.1\r\nHost: web.test\r\nExpect: miracle\r\n\r\n", "417"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveText(t, func(string) string { return ok200 })
			w := newWorld(t, map[string]string{"web.test": s.addr})
			c := w.dial("web.test", 80)
			write(t, c, "GET /1 HTTP/1.1\r\nHost: web.test\r\n\r\n"+tt.second)
			got, _ := readAll(t, c)
			first, rest, _ := strings.Cut(got, "\r\n\r\nok")
			if !strings.HasPrefix(first, "HTTP/1.1 200 ") || !strings.HasPrefix(rest, "HTTP/1.1 "+tt.status+" ") {
				t.Errorf("got %q", got)
			}
			if n := len(s.seen()); n != 1 {
				t.Errorf("upstream saw %q", s.seen())
			}
			f := w.flow("refusal", func(f verdict.Flow) bool { return f.Status != 200 })
			if strconv.Itoa(f.Status) != tt.status || f.Reason == "" {
				t.Errorf("flow %+v", f)
			}
		})
	}
}

func TestHTTPPolicyChangesBetweenRequests(t *testing.T) {
	s := serveText(t, func(string) string { return ok200 })
	w := newWorld(t, map[string]string{"web.test": s.addr})
	c := w.dial("web.test", 80)
	const get = "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"
	write(t, c, get)
	readN(t, c, len(ok200))
	write(t, c, get)
	readN(t, c, len(ok200))
	w.set("web.test", verdict.Answer{Effect: "deny", Reason: "it is over", Rule: "deny web.test", Place: "config.yaml:7"})
	write(t, c, get)
	got, _ := readAll(t, c)
	for _, want := range []string{"HTTP/1.1 403 ", `"rule": "deny web.test"`, `"place": "config.yaml:7"`, `"reason": "it is over"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if n := s.accepted(); n != 1 {
		t.Errorf("%d upstream connections for one kept alive", n)
	}
	if n := w.count(verdict.Request); n != 3 {
		t.Errorf("%d requests decided, want 3", n)
	}
}

// Go's own client and server, through the engine, in all the ways a body ends.
func TestHTTPBodies(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
		w.Header().Set("X-Trailer", r.Trailer.Get("X-Sum"))
		_, _ = w.Write(b)
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "42")
	})
	mux.HandleFunc("/none", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/same", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1<<20))
		_, _ = w.Write(make([]byte, 1<<20))
	})
	mux.HandleFunc("/refuse", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	web := webServer(t, mux)
	w := newWorld(t, map[string]string{"web.test": web})
	client := &http.Client{Transport: &http.Transport{DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		return w.dial("web.test", 80), nil
	}}}
	defer client.CloseIdleConnections()
	do := requester(t, client, "http://web.test")
	big := strings.Repeat("x", 300<<10)
	if r, b := do("POST", "/echo", strings.NewReader(big), nil); b != big || r.Header.Get("X-Length") != strconv.Itoa(len(big)) {
		t.Errorf("counted body: %d bytes, %v", len(b), r.Header)
	}
	r, b := do("POST", "/echo", io.MultiReader(strings.NewReader(big)), func(r *http.Request) {
		r.Trailer = http.Header{"X-Sum": {"7"}}
	})
	if b != big || r.Header.Get("X-Length") != "-1" || r.Header.Get("X-Trailer") != "7" {
		t.Errorf("chunked body: %d bytes, %v", len(b), r.Header)
	}
	if _, b := do("POST", "/echo", strings.NewReader("later"), func(r *http.Request) { r.Header.Set("Expect", "100-continue") }); b != "later" {
		t.Errorf("100-continue: %q", b)
	}
	if r, b := do("GET", "/trailers", nil, nil); b != "body" || r.Trailer.Get("X-Sum") != "42" {
		t.Errorf("trailers: %q %v", b, r.Trailer)
	}
	if r, b := do("HEAD", "/big", nil, nil); b != "" || r.ContentLength != 1<<20 {
		t.Errorf("HEAD: %q, %d", b, r.ContentLength)
	}
	if r, _ := do("GET", "/none", nil, nil); r.StatusCode != 204 {
		t.Errorf("204: %d", r.StatusCode)
	}
	if r, _ := do("GET", "/same", nil, nil); r.StatusCode != 304 {
		t.Errorf("304: %d", r.StatusCode)
	}
	if _, b := do("GET", "/big", nil, nil); len(b) != 1<<20 {
		t.Errorf("big: %d", len(b))
	}
	if r, _ := do("POST", "/refuse", strings.NewReader(big), func(r *http.Request) { r.Header.Set("Expect", "100-continue") }); r.StatusCode != 403 {
		t.Errorf("early answer: %d", r.StatusCode)
	}
}

func webServer(t testing.TB, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }()
	t.Cleanup(func() { s.Close(); <-done })
	return ln.Addr().String()
}

// Each event of a stream arrives when it was sent.
func TestHTTPStreams(t *testing.T) {
	for _, chunked := range []bool{true, false} {
		t.Run(fmt.Sprintf("chunked %v", chunked), func(t *testing.T) {
			next := make(chan struct{})
			u := serve(t, func(c net.Conn) {
				_, _ = readHead(bufio.NewReader(c))
				frame := func(s string) string { return s }
				head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
				if chunked {
					head += "Transfer-Encoding: chunked\r\n"
					frame = func(s string) string { return fmt.Sprintf("%x;ext=1\r\n%s\r\n", len(s), s) }
				}
				_, _ = io.WriteString(c, head+"\r\n")
				for i := range 3 {
					_, _ = io.WriteString(c, frame(fmt.Sprintf("data: %d\n\n", i)))
					<-next
				}
				if chunked {
					_, _ = io.WriteString(c, "0\r\n\r\n")
				}
			})
			w := newWorld(t, map[string]string{"web.test": u.addr})
			c := w.dial("web.test", 80)
			write(t, c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
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
		})
	}
}

// A body that breaks the chunk grammar reaches nobody as a whole request.
func TestHTTPBadChunks(t *testing.T) {
	for _, tt := range []struct{ name, body string }{
		{"bare line feed", "5\nhello\r\n0\r\n\r\n"},
		{"size", "0x5\r\nhello\r\n0\r\n\r\n"},
		{"overlong", "5\r\nhelloworld\r\n0\r\n\r\n"},
		{"extension with bare CR", "5;a\rb\r\nhello\r\n0\r\n\r\n"},
		{"folded trailer", "5\r\nhello\r\n0\r\n X: y\r\n\r\n"},
		{"endless extension", "5;" + strings.Repeat("a", 10<<10) + "\r\nhello\r\n0\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			whole := make(chan bool, 1)
			u := webServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				whole <- err == nil
			}))
			w := newWorld(t, map[string]string{"web.test": u})
			c := w.dial("web.test", 80)
			write(t, c, "POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n"+tt.body)
			if got, _ := readAll(t, c); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
				t.Errorf("got %q", got)
			}
			select {
			case is := <-whole:
				if is {
					t.Error("upstream took it for a whole request")
				}
			case <-time.After(20 * time.Second):
				t.Error("upstream still waits for the rest")
			}
		})
	}
}

func TestHTTPBadUpstream(t *testing.T) {
	for _, tt := range []struct{ name, answer, status string }{
		{"closes", "", "502"},
		{"no HTTP", "220 hello\r\n\r\n", "502"},
		{"unasked 101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nraw", "502"},
		{"two framings", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "502"},
		{"folded", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "502"},
		{"endless 100", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := serve(t, func(c net.Conn) {
				_, _ = readHead(bufio.NewReader(c))
				_, _ = io.WriteString(c, tt.answer)
			})
			w := newWorld(t, map[string]string{"web.test": u.addr})
			c := w.dial("web.test", 80)
			write(t, c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n")
			got, _ := readAll(t, c)
			if tt.status != "" && !strings.HasPrefix(got, "HTTP/1.1 "+tt.status+" ") {
				t.Errorf("got %q", got)
			}
			w.reason("the server's answer")
		})
	}
}

// A response that stops in the middle must not look whole.
func TestHTTPTruncated(t *testing.T) {
	for _, head := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
		u := serve(t, func(c net.Conn) {
			_, _ = readHead(bufio.NewReader(c))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+head+"\r\n\r\n5\r\nhe")
		})
		w := newWorld(t, map[string]string{"web.test": u.addr})
		c := w.dial("web.test", 80)
		write(t, c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n")
		if _, reset := readAll(t, c); !reset {
			t.Errorf("%s: not reset", head)
		}
	}
}

// An answer to a question that nobody asked is not given to the next one.
func TestHTTPUnaskedAnswer(t *testing.T) {
	s := serveText(t, func(string) string { return ok200 + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil" })
	w := newWorld(t, map[string]string{"web.test": s.addr})
	c := w.dial("web.test", 80)
	for range 2 {
		write(t, c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n")
		if got := readN(t, c, len(ok200)); got != ok200 {
			t.Fatalf("got %q", got)
		}
	}
	if n := s.accepted(); n != 2 {
		t.Errorf("%d upstream connections, want 2", n)
	}
}

// A server that closed the kept connection meanwhile costs no request.
func TestHTTPUpstreamClosesIdle(t *testing.T) {
	closed := make(chan struct{}, 2)
	u := serve(t, func(c net.Conn) {
		_, _ = readHead(bufio.NewReader(c))
		_, _ = io.WriteString(c, ok200)
		c.Close()
		closed <- struct{}{}
	})
	w := newWorld(t, map[string]string{"web.test": u.addr})
	c := w.dial("web.test", 80)
	for range 2 {
		write(t, c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n")
		if got := readN(t, c, len(ok200)); got != ok200 {
			t.Fatalf("got %q", got)
		}
		<-closed
	}
}

func TestHTTPSlowHead(t *testing.T) {
	w := newWorld(t, map[string]string{"web.test": "127.0.0.1:1"}, func(c *egress.Config) { c.Limits.Handshake = time.Second })
	c := w.dial("web.test", 80)
	write(t, c, "GET / HTTP/1.1\r\n")
	if got, _ := readAll(t, c); !strings.HasPrefix(got, "HTTP/1.1 408 ") {
		t.Errorf("got %q", got)
	}
}

// A program that leaves takes its request along.
func TestHTTPProgramLeaves(t *testing.T) {
	gone := make(chan struct{})
	u := serve(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		_, _ = readHead(r)
		_, _ = r.ReadByte()
		close(gone)
	})
	w := newWorld(t, map[string]string{"web.test": u.addr})
	c := w.dial("web.test", 80)
	write(t, c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n")
	w.flowless(func() bool { return u.accepted() == 1 })
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("upstream was not told")
	}
}

// flowless waits for a condition of the test's own.
func (w *world) flowless(ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // nothing tells that a condition came true
	}
	w.t.Fatal("condition did not come true")
}

// requester makes requests of one server, and reads their answers.
func requester(t *testing.T, client *http.Client, server string) func(
	method, path string, body io.Reader, change func(*http.Request)) (*http.Response, string) {
	return func(method, path string, body io.Reader, change func(*http.Request)) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server+path, body)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(req)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(b)
	}
}
