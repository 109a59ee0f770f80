package inject_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"cloister/egress"
	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/internal/budget"
	"cloister/secret"
	"cloister/secret/inject"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const real = "sk-ant-api03-CanaryCanaryCanaryCanaryCanaryCanary"

// world is a gate whose proxy a program uses, with servers behind it that tell
// what reached them.
type world struct {
	t       testing.TB
	session *inject.Session
	held    inject.Held
	parts   []inject.Held // of an access key
	client  *http.Client

	mu     sync.Mutex
	value  string
	values inject.Values
	memory *budget.Budget
	deny   string // why the judge denies
	deaf   bool   // nothing can be recorded
	record []string
	seen   []string // requests that reached a server
	answer func(w http.ResponseWriter, r *http.Request)
}

func (w *world) Decide(ctx context.Context, q verdict.Query) verdict.Answer {
	v := verdict.Answer{Allow: true, Effect: "allow", Inspect: q.Authority.Port() != 8443, Open: verdict.OpenHTTP}
	if q.Kind == verdict.Request {
		edit, _ := w.session.Edit(ctx, q.HTTP)
		v.Edits = []verdict.Edit{edit}
	}
	return v
}

func (w *world) Closed(verdict.Flow)        {}
func (w *world) Refused(verdict.Flow) error { return nil }

func (w *world) AllowUse(_ context.Context, u inject.Use) verdict.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = append(w.record, "swap "+u.Name+" "+u.Place+" "+u.Method+" "+u.Authority.String()+u.Path)
	return verdict.Answer{Allow: w.deny == "", Effect: "deny", Reason: w.deny}
}

func (w *world) RecordUse(_ context.Context, u inject.Use, refused bool, why string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf {
		return errors.New("the disk is full")
	}
	word := "seen "
	if refused {
		word = "refuse "
	}
	w.record = append(w.record, word+u.Name+" "+u.Place+" "+u.Authority.String()+": "+why)
	return nil
}

func (w *world) Value(context.Context, string) (secret.Value, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.value == "" {
		return secret.Value{}, errors.New("its command failed")
	}
	return secret.New(w.value)
}

func newWorld(t testing.TB, http2 bool, words ...secret.Words) *world {
	t.Helper()
	v, err := secret.New(real)
	if err != nil {
		t.Fatal(err)
	}
	return newWorldOf(t, http2, real, []inject.Held{{Name: "KEY", Placeholder: secret.NewPlaceholder(v)}}, words...)
}

// newWorldOf is a world whose session holds one secret, in its parts.
func newWorldOf(t testing.TB, http2 bool, value string, held []inject.Held, words ...secret.Words) *world {
	t.Helper()
	w := &world{t: t, value: value, held: held[0], parts: held, memory: budget.New(128<<20, 0, 10*time.Second)}
	bound := map[string][]*secret.Binding{}
	for _, words := range words {
		words.Name, words.Origin = "KEY", "config.yaml:7"
		b, err := secret.Bind(words)
		if err != nil {
			t.Fatal(err)
		}
		bound["KEY"] = append(bound["KEY"], b)
	}
	w.session = inject.New(held, bound, w, w.memory.Share(), &w.values)
	server := httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	server.EnableHTTP2 = http2
	server.TLS = &tls.Config{}
	server.StartTLS()
	t.Cleanup(server.Close)
	plain := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(plain.Close)
	ca, err := new(egress.CAs).Take()
	if err != nil {
		t.Fatal(err)
	}
	roots, trusted := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(server.Certificate())
	trusted.AppendCertsFromPEM(ca.PEM())
	at := server.Listener.Addr().String()
	engine, err := egress.New(egress.Config{
		Session: "test", Redact: w.session.Scrubber, Decider: w, Journal: w, CA: ca, Roots: roots,
		Hosts:       map[string]string{"example.com": at, "other.example.com": at, "plain.example.com": plain.Listener.Addr().String()},
		OriginalDst: func(net.Conn) (netip.AddrPort, error) { return netip.MustParseAddrPort("198.18.0.1:3128"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Serve(ctx, egress.Listeners{TCP: []net.Listener{l}}) }()
	transport := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()}),
		TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: http2, DisableCompression: true,
	}
	w.client = &http.Client{Transport: transport, Timeout: 2 * time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s%s\n", r.Method, r.Host, r.URL.RequestURI())
	for name, values := range r.Header {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(values, "|"))
	}
	b.Write(body)
	for name, values := range r.Trailer {
		fmt.Fprintf(&b, "\ntrailer %s: %s", name, strings.Join(values, "|"))
	}
	w.mu.Lock()
	w.seen = append(w.seen, b.String())
	answer := w.answer
	w.mu.Unlock()
	if answer != nil {
		answer(rw, r)
	}
}

// send makes one request and gives status and body of the answer.
func (w *world) send(method, target, body string, header ...string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header[header[i]] = []string{header[i+1]}
	}
	return w.do(r)
}

func (w *world) do(r *http.Request) (int, string) {
	w.t.Helper()
	w.settle()
	resp, err := w.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err.Error()
	}
	var fields strings.Builder
	_ = resp.Header.Write(&fields)
	return resp.StatusCode, fields.String() + "\n" + string(text)
}

// settle has what the test changed seen by those that a request wakes: nothing else
// stands between its goroutine and theirs.
func (w *world) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
}

// took gives what reached the servers and was recorded, and forgets it.
func (w *world) took() (seen, record string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, record = strings.Join(w.seen, "\n----\n"), strings.Join(w.record, "\n")
	w.seen, w.record = nil, nil
	return seen, record
}

func both(t *testing.T, f func(t *testing.T, http2 bool)) {
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1", true: "HTTP/2"}[http2], func(t *testing.T) { f(t, http2) })
	}
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestSwapsInTheBoundPlace(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		for _, c := range []struct {
			name         string
			words        secret.Words
			method, path string
			body         string
			header       []string
			want         string
		}{
			{"header", secret.Words{Header: "x-api-key"}, "POST", "/v1/messages?a=b", "hi", []string{"X-Api-Key", "@"}, "X-Api-Key: " + real},
			{"bearer", secret.Words{}, "GET", "/", "", []string{"Authorization", "Bearer @"}, "Authorization: Bearer " + real},
			{"gh's word", secret.Words{Format: "Bearer {}"}, "GET", "/", "", []string{"Authorization", "token @"}, "Authorization: Bearer " + real},
			{"basic password", secret.Words{Format: "Bearer {}"}, "GET", "/", "", []string{"Authorization", basic("x", "@")}, basic("x", real)},
			{"basic user", secret.Words{}, "GET", "/", "", []string{"Authorization", basic("@", "")}, basic(real, "")},
			{"query", secret.Words{Query: "key"}, "GET", "/x?a=1&key=@&b=2", "", nil, "/x?a=1&key=" + real + "&b=2"},
			{"form", secret.Words{Body: true}, "POST", "/", "a=1&key=@", nil, "a=1&key=" + real},
			{"path and method", secret.Words{Methods: []string{"PUT"}, Paths: []string{"/a/**"}}, "PUT", "/a/b/c", "x", []string{"Authorization", "Bearer @"}, real},
		} {
			t.Run(c.name, func(t *testing.T) {
				c.words.Hosts = []string{"example.com"}
				w := newWorld(t, http2, c.words)
				at := strings.NewReplacer("@", w.held.Placeholder.Text)
				for i, h := range c.header {
					if i%2 == 1 && strings.HasPrefix(h, "Basic ") {
						text, _ := base64.StdEncoding.DecodeString(h[6:])
						c.header[i] = "Basic " + base64.StdEncoding.EncodeToString([]byte(at.Replace(string(text))))
					} else {
						c.header[i] = at.Replace(h)
					}
				}
				status, text := w.send(c.method, "https://example.com"+at.Replace(c.path), at.Replace(c.body), c.header...)
				seen, record := w.took()
				if status != 200 || !strings.Contains(seen, c.want) || strings.Contains(seen, w.held.Placeholder.Core) {
					t.Errorf("%d %s\nseen %s", status, text, seen)
				}
				if !strings.HasPrefix(record, "swap KEY ") {
					t.Errorf("recorded %q", record)
				}
			})
		}
	})
}

func packed(coding, text string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "zlib 1", "zlib 3", "zlib 6", "zlib 9":
		w, _ = zlib.NewWriterLevel(&b, int(coding[5]-'0'))
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	}
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

func TestRefusesEverywhereElse(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, http2, secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key", Methods: []string{"POST", "GET"}, Paths: []string{"/v1/**"}})
		p := w.held.Placeholder.Text
		hexed := hex.EncodeToString([]byte(p))
		b64 := func(before string) string { return base64.StdEncoding.EncodeToString([]byte(before + p)) }
		const good = "https://example.com/v1/x"
		type attempt struct {
			method, target, body string
			header               []string
		}
		attempts := map[string]attempt{
			"another host": {"POST", "https://other.example.com/v1/x", "", []string{"X-Api-Key", p}}, "plain": {"POST", "http://plain.example.com/v1/x", "", []string{"X-Api-Key", p}},
			"another path": {"POST", "https://example.com/v2/x", "", []string{"X-Api-Key", p}}, "another method": {"PUT", good, "", []string{"X-Api-Key", p}},
			"another header": {"POST", good, "", []string{"Authorization", "Bearer " + p}}, "more in the header": {"POST", good, "", []string{"X-Api-Key", p + " x"}},
			"twice in it": {"POST", good, "", []string{"X-Api-Key", p + p}}, "cookie": {"POST", good, "", []string{"Cookie", "a=" + p}},
			"header hex": {"POST", good, "", []string{"X-A", hexed}}, "header base64": {"POST", good, "", []string{"X-A", b64("")}},
			"basic": {"POST", good, "", []string{"Authorization", basic("a", p)}}, "header name": {"POST", good, "", []string{"X-" + p, "1"}},
			"path": {"GET", "https://example.com/v1/" + p, "", nil}, "path percent": {"GET", "https://example.com/v1/" + percent(p), "", nil},
			"query": {"GET", good + "?a=" + p, "", nil}, "query percent": {"GET", good + "?a=" + percent(p), "", nil},
			"query hex": {"GET", good + "?" + hexed, "", nil}, "query base64": {"GET", good + "?a=" + url.QueryEscape(b64("xy")), "", nil},
			"body": {"POST", good, strings.Repeat("x", 100000) + p, nil}, "body hex": {"POST", good, strings.ToUpper(hexed), nil},
			"json":      {"POST", good, `{"a":"` + p[:10] + fmt.Sprintf(`\u%04x`, p[10]) + p[11:] + `"}`, []string{"Content-Type", "application/json"}},
			"multipart": {"POST", good, "--x\r\nContent-Disposition: form-data; name=a\r\n\r\n" + p + "\r\n--x--\r\n", []string{"Content-Type", "multipart/form-data; boundary=x"}},
		}
		for shift := range 3 {
			attempts[fmt.Sprintf("body base64 %d", shift)] = attempt{"POST", good, b64(strings.Repeat("z", shift)), nil}
		}
		for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
			attempts["body "+coding] = attempt{"POST", good, packed(coding, strings.Repeat("some text ", 5000)+p+" and more"), []string{"Content-Encoding", coding}}
		}
		attempts["a file that is packed"] = attempt{"POST", good, packed("gzip", "a "+p), []string{"Content-Type", "application/octet-stream"}}
		attempts["a packed file, of zstd"] = attempt{"POST", good, packed("zstd", "a "+p), nil}
		for _, level := range []string{"zlib 1", "zlib 3", "zlib 6", "zlib 9"} {
			attempts["a packed file, of "+level] = attempt{"POST", good, packed(level, "a "+p), nil}
		}
		attempts["another port"] = attempt{"POST", "https://example.com:8443/v1/x", "", []string{"X-Api-Key", p}}
		attempts["a method in a field"] = attempt{"POST", good, "", []string{"X-Api-Key", p, "X-HTTP-Method-Override", "DELETE"}}
		attempts["a path in a field"] = attempt{"POST", good, "", []string{"X-Api-Key", p, "X_Original_URL", "/other"}}
		attempts["a method in the query"] = attempt{"POST", good + "?_method=DELETE", "", []string{"X-Api-Key", p}}
		attempts["a method in a key that is escaped"] = attempt{"POST", good + "?a=b&%5fMethod=%44ELETE", "", []string{"X-Api-Key", p}}
		attempts["body twice packed"] = attempt{"POST", good, packed("gzip", packed("br", p)), []string{"Content-Encoding", "br, gzip"}}
		for name, a := range attempts {
			t.Run(name, func(t *testing.T) {
				status, text := w.send(a.method, a.target, a.body, a.header...)
				seen, record := w.took()
				if status == 200 || strings.Contains(seen, "Canary") {
					t.Errorf("%d %s\nseen %s", status, text, seen)
				}
				if !strings.Contains(record, "refuse KEY ") {
					t.Errorf("recorded %q", record)
				}
				if status != 0 && (status != 403 || !strings.Contains(text, "the placeholder of the secret KEY")) {
					t.Errorf("told %d %s", status, text)
				}
			})
		}
		// The control: what is no placeholder passes.
		for name, a := range map[string]attempt{
			"text": {"POST", good, strings.Repeat("some text ", 5000), nil}, "gzip": {"POST", good, packed("gzip", strings.Repeat("some text ", 50000)), []string{"Content-Encoding", "gzip"}},
			"a packed file": {"POST", good, packed("gzip", strings.Repeat("some text ", 50000)), nil}, "half of one": {"POST", good, packed("gzip", strings.Repeat("some text ", 50000))[:99], nil},
			"begins as one": {"POST", good, "x\x9c" + strings.Repeat("some text ", 9000), nil}, "two bytes of one": {"POST", good, "\x1f\x8b", nil},
			"another port": {"POST", "https://example.com:8443/v1/x", "text", nil},
			"no gzip":      {"POST", good, "not packed", []string{"Content-Encoding", "gzip"}}, "unknown": {"POST", good, "x", []string{"Content-Encoding", "rot13"}},
		} {
			if status, text := w.send(a.method, a.target, a.body, a.header...); status != 200 {
				t.Errorf("control %s: %d %s", name, status, text)
			}
			if seen, record := w.took(); !strings.HasSuffix(seen, a.body) || record != "" {
				t.Errorf("control %s: %d bytes of %d reached the server; %s", name, len(seen), len(a.body), record)
			}
		}
	})
}

// A name is told to whoever resolves it.
func TestAPlaceholderInAName(t *testing.T) {
	w := newWorld(t, false, secret.Words{Hosts: []string{"example.com"}})
	core := w.held.Placeholder.Core
	hexed := hex.EncodeToString([]byte(core))
	for host, want := range map[string]string{
		strings.ToLower(core) + ".example.com":           "KEY",
		core[:12] + "." + core[12:] + ".example.com":     "KEY",
		hexed[:20] + "." + hexed[20:] + ".x.example.com": "KEY",
		"example.com": "",
		"a-long-name-that-is-nothing-of-it.x.example.com": "",
	} {
		a, err := authority.ParseHostPort(host, 443)
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		name, why := w.session.Named(t.Context(), a)
		if _, record := w.took(); name != want || (why != "") != (want != "") || strings.Contains(record, "refuse KEY name of a host") != (want != "") {
			t.Errorf("%s: %q, %q; recorded %q", host, name, why, record)
		}
	}
}

func percent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

// A body that is packed too well to be looked at goes nowhere.
func TestPackedTooWell(t *testing.T) {
	w := newWorld(t, true, secret.Words{Hosts: []string{"example.com"}})
	w.session.SetMost(4 << 20)
	long := func(zeros int, options ...zstd.EOption) string {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b, append(options, zstd.WithEncoderConcurrency(1))...)
		if err != nil {
			t.Fatal(err)
		}
		for piece := make([]byte, 1<<20); zeros > 0; zeros -= len(piece) {
			_, _ = z.Write(piece)
		}
		_ = z.Close()
		return b.String()
	}
	for name, c := range map[string]struct{ coding, body string }{
		"three codings": {"gzip, gzip, gzip", packed("gzip", packed("gzip", packed("gzip", "x")))},
		"too much":      {"zstd", long(5 << 20)},
		"too much, two": {"zstd, zstd", packed("zstd", long(5<<20))},
		"a wide window": {"zstd", long(3<<20, zstd.WithWindowSize(16<<20))},
	} {
		status, text := w.send("POST", "https://example.com/", c.body, "Content-Encoding", c.coding)
		if seen, _ := w.took(); status != 415 || !strings.Contains(text, "cannot be searched") || strings.HasSuffix(seen, c.body) {
			t.Errorf("%s: %d %s; seen %q", name, status, text, seen)
		}
	}
	// Another server: the first may be at work still on what was broken off.
	w = newWorld(t, true, secret.Words{Hosts: []string{"example.com"}})
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip, gzip, gzip")
		fmt.Fprint(rw, packed("gzip", packed("gzip", packed("gzip", real))))
	}
	if status, text := w.send("GET", "https://example.com/", "", "Authorization", "Bearer "+w.held.Placeholder.Text); status != 502 || !strings.Contains(text, "cannot be searched") {
		t.Errorf("an answer of three codings: %d %s", status, text)
	}
}

// A value that a server echoes cannot be fetched in pieces.
func TestNoRanges(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, http2, secret.Words{Hosts: []string{"example.com"}})
		w.answer = func(rw http.ResponseWriter, r *http.Request) {
			http.ServeContent(rw, r, "x.txt", time.Time{}, strings.NewReader("echo "+real))
		}
		try := func(host string, want int, header ...string) {
			t.Helper()
			status, text := w.send("GET", "https://"+host+"/", "", append(header, "Range", "bytes=0-20")...)
			if status != want || want == 200 && strings.Contains(text, "sk-ant-api03-Canary") {
				t.Errorf("%s: %d %s", host, status, text)
			}
		}
		try("other.example.com", 206) // control: nothing was sent yet
		try("example.com", 200, "Authorization", "Bearer "+w.held.Placeholder.Text)
		try("example.com", 200)
		try("other.example.com", 200)
	})
}

// A conversation with a model holds what the agent has read, env among it.
func TestAConversationMayMentionIt(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, http2, secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key"})
		said := "KEY=" + w.held.Placeholder.Text + " " + strings.Repeat("and more ", 9999)
		for coding, body := range map[string]string{"": said, "gzip": packed("gzip", said)} {
			header := []string{"X-Api-Key", w.held.Placeholder.Text}
			if coding != "" {
				header = append(header, "Content-Encoding", coding)
			}
			status, text := w.send("POST", "https://example.com/v1/messages", body, header...)
			seen, record := w.took()
			if status != 200 || !strings.HasSuffix(seen, body) || strings.Count(seen, "Canary") != strings.Count(real, "Canary") {
				t.Errorf("%d %s, %d bytes seen", status, text, len(seen))
			}
			if !strings.Contains(record, "swap KEY") || strings.Count(record, "seen KEY body") != 1 {
				t.Errorf("recorded %q", record)
			}
		}
	})
}

func TestABodyInPiecesIsSeen(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, http2, secret.Words{Hosts: []string{"example.com"}})
		out, in := io.Pipe()
		go func() {
			for i := range w.held.Placeholder.Text {
				if _, err := in.Write([]byte(w.held.Placeholder.Text[i : i+1])); err != nil {
					return
				}
			}
			_ = in.Close()
		}()
		r, err := http.NewRequest("POST", "https://example.com/", out)
		if err != nil {
			t.Fatal(err)
		}
		status, text := w.do(r)
		_ = out.Close()
		if _, record := w.took(); status == 200 || !strings.Contains(record, "refuse KEY body") {
			t.Errorf("%d %s, recorded %q", status, text, record)
		}
	})
}

func TestTheJudgeHasTheLastWord(t *testing.T) {
	w := newWorld(t, true, secret.Words{Hosts: []string{"example.com"}})
	try := func(want int, says string) {
		t.Helper()
		status, text := w.send("GET", "https://example.com/", "", "Authorization", "Bearer "+w.held.Placeholder.Text)
		seen, _ := w.took()
		if status != want || !strings.Contains(text, says) || want != 200 && seen != "" {
			t.Errorf("%d %s; seen %q", status, text, seen)
		}
	}
	w.deny = "a person said no"
	try(403, "a person said no")
	w.deny, w.value = "", ""
	status, text := w.send("GET", "https://example.com/", "", "Authorization", "Bearer "+w.held.Placeholder.Text)
	seen, record := w.took()
	if status != 502 || !strings.Contains(text, "the secret KEY cannot be had") || strings.Contains(text, "its command failed") || seen != "" {
		t.Errorf("the program is told %d %s; seen %q", status, text, seen)
	}
	if !strings.Contains(record, "its command failed") {
		t.Errorf("recorded %q", record)
	}
	w.value, w.deaf = real, true
	if status, text := w.send("GET", "https://other.example.com/", "", "Authorization", w.held.Placeholder.Text); status == 200 {
		t.Errorf("unrecorded: %d %s", status, text)
	}
	if seen, _ := w.took(); seen != "" {
		t.Errorf("seen %q", seen)
	}
	w.deaf = false
	try(200, "")
	w.value = "sk-ant-api03-SecondSecondSecondSecondSecondSecond"
	w.answer = func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, real, " ", r.Header.Get("Authorization"))
	}
	if status, text := w.send("GET", "https://example.com/", "", "Authorization", "Bearer "+w.held.Placeholder.Text); status != 200 || strings.Contains(text, "Second") || strings.Contains(text, "Canary") {
		t.Errorf("after a rotation: %d %s", status, text)
	}
	if seen, _ := w.took(); !strings.Contains(seen, "SecondSecond") {
		t.Errorf("the old one went out: %q", seen)
	}
}

func TestScrubsTheAnswer(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, http2, secret.Words{Hosts: []string{"example.com"}})
		forms := map[string]string{
			"plain": real, "hex": hex.EncodeToString([]byte(real)), "base64": base64.StdEncoding.EncodeToString([]byte(real)),
			"base64 behind one": base64.StdEncoding.EncodeToString([]byte("x" + real)), "base64 behind two": base64.StdEncoding.EncodeToString([]byte("xy" + real)),
			"percent": strings.ToUpper(percent(real)),
		}
		for name, form := range forms {
			core := strings.TrimRight(form, "=")
			core = core[4 : len(core)-4]
			for how, answer := range map[string]func(rw http.ResponseWriter){
				"body":   func(rw http.ResponseWriter) { fmt.Fprint(rw, "echo "+form+" end") },
				"header": func(rw http.ResponseWriter) { rw.Header().Set("X-Echo", form) },
				"error":  func(rw http.ResponseWriter) { http.Error(rw, form, 500) },
				"chunks": func(rw http.ResponseWriter) {
					for i := range len(form) {
						fmt.Fprint(rw, form[i:i+1])
						rw.(http.Flusher).Flush()
					}
				},
				"trailer": func(rw http.ResponseWriter) {
					rw.Header().Set("Trailer", "X-Echo")
					fmt.Fprint(rw, "x")
					rw.(http.Flusher).Flush()
					rw.Header().Set("X-Echo", form)
				},
				"gzip": func(rw http.ResponseWriter) {
					rw.Header().Set("Content-Encoding", "gzip")
					fmt.Fprint(rw, packed("gzip", "echo "+form+" end"))
				},
				"br": func(rw http.ResponseWriter) {
					rw.Header().Set("Content-Encoding", "br")
					fmt.Fprint(rw, packed("br", "echo "+form+" end"))
				},
			} {
				w.mu.Lock()
				w.answer = func(rw http.ResponseWriter, _ *http.Request) { answer(rw) }
				w.mu.Unlock()
				r, _ := http.NewRequest("GET", "https://example.com/", nil)
				r.Header.Set("Authorization", "Bearer "+w.held.Placeholder.Text)
				resp, err := w.client.Do(r)
				if err != nil {
					t.Fatalf("%s in %s: %v", name, how, err)
				}
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				var fields strings.Builder
				_ = resp.Header.Write(&fields)
				_ = resp.Trailer.Write(&fields)
				got := fields.String() + string(text)
				if err != nil || strings.Contains(got, core) {
					t.Errorf("%s in %s: %v, %q", name, how, err, got)
				}
				if how != "header" && how != "trailer" && len(text) < len(form) {
					t.Errorf("%s in %s: only %q came", name, how, text)
				}
				w.took()
			}
		}
		w.mu.Lock()
		w.answer = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "rot13")
			fmt.Fprint(rw, "fx-nag")
		}
		w.mu.Unlock()
		if status, text := w.send("GET", "https://example.com/", "", "Authorization", "Bearer "+w.held.Placeholder.Text); status != 502 || !strings.Contains(text, "cannot be searched") {
			t.Errorf("an unknown coding: %d %s", status, text)
		}
	})
}

func TestARedirectCarriesNothing(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, http2, secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key"})
		w.client.CheckRedirect = nil
		w.answer = func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/from") {
				http.Redirect(rw, r, "https://other.example.com/to?was="+r.Header.Get("X-Api-Key"), http.StatusTemporaryRedirect)
			}
		}
		status, _ := w.send("GET", "https://example.com/from", "", "X-Api-Key", w.held.Placeholder.Text)
		seen, record := w.took()
		if status != 403 || strings.Contains(seen, "other.example.com/to") || !strings.Contains(record, "refuse KEY query other.example.com:443") {
			t.Errorf("%d, seen %s, recorded %s", status, seen, record)
		}
	})
}

func TestAnEventIsNotHeldBack(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		w := newWorld(t, http2, secret.Words{Hosts: []string{"example.com"}})
		next := make(chan struct{})
		w.answer = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			for range 3 {
				fmt.Fprint(rw, "data: hello\n\n")
				rw.(http.Flusher).Flush()
				<-next
			}
		}
		r, _ := http.NewRequest("GET", "https://example.com/", nil)
		r.Header.Set("Authorization", "Bearer "+w.held.Placeholder.Text)
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		buf := make([]byte, 64)
		for range 3 {
			if _, err := io.ReadFull(resp.Body, buf[:len("data: hello\n\n")]); err != nil {
				t.Fatal(err)
			}
			next <- struct{}{}
		}
	})
}

// BenchmarkInject is what one swapped header adds to a request of a usual head.
func BenchmarkInject(b *testing.B) {
	v, _ := secret.New(real)
	p := secret.NewPlaceholder(v)
	f := secret.NewFinder([]string{p.Core})
	bind, err := secret.Bind(secret.Words{Name: "KEY", Hosts: []string{"api.example.com"}, Header: "x-api-key"})
	if err != nil {
		b.Fatal(err)
	}
	fields := [][2]string{
		{"accept", "application/json"}, {"content-type", "application/json"}, {"user-agent", "claude-cli/2.0.10 (external, cli)"}, {"x-api-key", p.Text},
		{"anthropic-version", "2023-06-01"}, {"anthropic-beta", "claude-code-20250219,interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14"},
		{"x-stainless-lang", "js"}, {"x-stainless-package-version", "0.60.0"}, {"x-stainless-os", "Linux"}, {"x-stainless-runtime", "node"}, {"x-stainless-timeout", "600"},
		{"accept-language", "*"}, {"sec-fetch-mode", "cors"}, {"accept-encoding", "br, gzip, deflate"},
	}
	b.ReportAllocs()
	for b.Loop() {
		f.In("/v1/messages")
		for _, x := range fields {
			f.In(x[0])
			if f.In(x[1]) < 0 {
				continue
			}
			if write, ok := bind.InField(x[0], x[1], p.Text); ok {
				_ = write(v.Reveal())
			}
		}
	}
}
