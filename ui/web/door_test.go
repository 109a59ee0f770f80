package web_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cloister/api"
	"cloister/ui/web"
)

// A server that refuses a large request waits half a second before it closes the
// connection, about as long as goleak does.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// house is a door with something behind it.
type house struct {
	t      *testing.T
	door   *web.Door
	host   string
	origin string
}

func build(t *testing.T, dir string) *house {
	t.Helper()
	d, err := web.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: d.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "inside ", web.From(r.Context()).Key)
	}))}
	done := make(chan struct{})
	go func() { _ = s.Serve(d.Listener()); close(done) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	host := d.Listener().Addr().String()
	return &house{t, d, host, "http://" + host}
}

// ask sends a request as it is written, and gives status, headers and body.
func (h *house) ask(method, path string, headers []string, body string) (int, http.Header, string) {
	h.t.Helper()
	c, err := net.Dial("tcp", h.host)
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		h.t.Fatal(err)
	}
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n\r\n%s", method, path, len(body), strings.Join(headers, "\r\n"), body)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		h.t.Fatalf("%s %s %q: %v", method, path, headers, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func (h *house) good(more ...string) []string {
	return append([]string{"Host: " + h.host, "Origin: " + h.origin, "Sec-Fetch-Site: same-origin", "Content-Type: application/json"}, more...)
}

// guest is a browser.
type guest struct {
	key    *ecdsa.PrivateKey
	id     string
	public []byte
	cookie string
	word   string
	run    string // the folder of the run
	own    string // the cookie of that
}

func newGuest(t *testing.T) *guest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(public)
	return &guest{key: key, id: hex.EncodeToString(sum[:]), public: public}
}

func (h *house) post(g *guest, path string, body any) int {
	h.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		h.t.Fatal(err)
	}
	status, headers, answer := h.ask("POST", path, h.good(), string(text))
	if status == http.StatusOK && g != nil {
		g.cookie, _, _ = strings.Cut(headers.Get("Set-Cookie"), ";")
		var got struct{ Word, Run string }
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			h.t.Fatal(err)
		}
		g.word, g.run = got.Word, got.Run
		if all := headers.Values("Set-Cookie"); len(all) == 2 {
			g.own = all[1]
		}
	}
	return status
}

func (h *house) secret() string {
	url, _ := h.door.Link()
	_, secret, ok := strings.Cut(url, h.origin+"/login#")
	if !ok || len(secret) < 40 {
		h.t.Fatalf("link %q", url)
	}
	return secret
}

func (h *house) enter(g *guest) {
	h.t.Helper()
	if status := h.post(g, "/login/link", map[string]any{"link": h.secret(), "public": g.public}); status != http.StatusOK {
		h.t.Fatalf("a fresh link: status %d", status)
	}
}

// sign answers a challenge as the page at origin would.
func (h *house) sign(g *guest, origin string) int {
	h.t.Helper()
	_, _, text := h.ask("POST", "/login/challenge", h.good(), "{}")
	var c struct{ Challenge string }
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		h.t.Fatal(err)
	}
	return h.answer(g, origin, c.Challenge)
}

func (h *house) answer(g *guest, origin, challenge string) int {
	h.t.Helper()
	sum := sha256.Sum256([]byte("cloister window\n" + origin + "\n" + challenge))
	r, s, err := ecdsa.Sign(rand.Reader, g.key, sum[:])
	if err != nil {
		h.t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return h.post(g, "/login/key", map[string]any{"key": g.id, "challenge": challenge, "signature": signature})
}

func (h *house) inside(g *guest) int {
	h.t.Helper()
	status, _, _ := h.ask("GET", "/v1/status", []string{"Host: " + h.host, "Cookie: " + g.cookie, web.Header + ": " + g.word}, "")
	return status
}

// UI-01: everything but the login page wants a browser that is known, and
// neither half of what it has is enough.
func TestNobodyComesInUnknown(t *testing.T) {
	h, g := build(t, t.TempDir()), newGuest(t)
	h.enter(g)
	if status := h.inside(g); status != http.StatusOK {
		t.Fatalf("control: a known browser gets %d", status)
	}
	host := "Host: " + h.host
	for _, path := range []string{"/", "/now", "/main.js", "/pages/now.js", "/index.html", "/v1/status", "/v1/events", "/v1/approvals", "/debug/pprof/", "/metrics", "/health", "/nothing", "//v1/status",
		g.run + "/now", g.run + "/main.js", g.run + "/v1/status", g.run + "/v1/events", g.run + "/", "/run/", "/run/x", "/run//v1/status", "/run/x/v1/status", g.run + g.run + "/v1/status", g.run + "/../v1/status", g.run + "/%2e/v1/status"} {
		for name, headers := range map[string][]string{
			"nothing":       {host},
			"wrong cookie":  {host, "Cookie: " + g.cookie + "x"},
			"word alone":    {host, web.Header + ": " + g.word},
			"basic":         {host, "Authorization: Basic " + g.word},
			"cookie's name": {host, "Cookie: cloister-1=" + strings.SplitN(g.cookie, "=", 2)[1]},
		} {
			if status, _, body := h.ask("GET", path, headers, ""); status != http.StatusUnauthorized || strings.Contains(body, "inside") {
				t.Errorf("%s with %s: status %d, %q", path, name, status, body)
			}
		}
	}
	for name, headers := range map[string][]string{
		"cookie alone":      {host, "Cookie: " + g.cookie},
		"wrong word":        {host, "Cookie: " + g.cookie, web.Header + ": " + g.word + "x"},
		"another's word":    {host, "Cookie: " + g.cookie, web.Header + ": " + strings.Repeat("A", 43)},
		"word in the query": {host, "Cookie: " + g.cookie},
	} {
		if status, _, _ := h.ask("GET", "/v1/status?token="+g.word, headers, ""); status != http.StatusUnauthorized {
			t.Errorf("%s: status %d", name, status)
		}
	}
	for _, path := range []string{"/login", "/login.js", "/sign.js", "/words.js", "/window.css", "/favicon.svg"} {
		if status, _, _ := h.ask("GET", path, []string{host}, ""); status != http.StatusOK {
			t.Errorf("%s: status %d: nobody could come in", path, status)
		}
	}
}

// A server on another port can set cookies of the same name that come first.
func TestAnothersCookieFirst(t *testing.T) {
	h, g := build(t, t.TempDir()), newGuest(t)
	h.enter(g)
	name, _, _ := strings.Cut(g.cookie, "=")
	two := "Cookie: " + name + "=theirs; " + g.cookie
	if status, _, body := h.ask("GET", "/v1/status", []string{"Host: " + h.host, two, web.Header + ": " + g.word}, ""); status != http.StatusOK {
		t.Errorf("locked out: %d %s", status, body)
	}
	if status, _, _ := h.ask("POST", "/login/out", h.good(two, web.Header+": "+g.word), "{}"); status != http.StatusOK || h.inside(g) == http.StatusOK {
		t.Errorf("it cannot sign out: %d", status)
	}
}

// All that a page asks for is in a folder of this run, whose cookie is its own; there
// nothing is easier to get than at the top.
func TestFolderOfTheRun(t *testing.T) {
	dir := t.TempDir()
	h, g := build(t, dir), newGuest(t)
	h.enter(g)
	if !strings.HasPrefix(g.run, "/run/") || len(g.run) < len("/run/")+22 {
		t.Fatalf("the folder is %q", g.run)
	}
	for _, want := range []string{"; Path=" + g.run + "/;", "; HttpOnly", "; SameSite=Strict"} {
		if !strings.Contains(g.own, want) || !strings.HasPrefix(g.own, g.cookie) {
			t.Errorf("the folder's cookie is %q, without %q", g.own, want)
		}
	}
	known := []string{"Host: " + h.host, "Cookie: " + g.cookie}
	status, headers, page := h.ask("GET", g.run+"/now", known, "")
	if status != http.StatusOK || headers.Get("Cache-Control") != "private, no-cache" {
		t.Errorf("the page: %d, %q", status, headers)
	}
	for _, part := range []string{`href="` + g.run + `/main.js"`, `href="` + g.run + `/pages/now.js"`, `href="` + g.run + `/window.css"`} {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %s:\n%s", part, page)
		}
	}
	for path, kept := range map[string]bool{g.run + "/main.js": true, g.run + "/pages/asks.js": true, g.run + "/window.css": true, "/main.js": false, "/run/another/main.js": false} {
		status, headers, text := h.ask("GET", path, known, "")
		if status != http.StatusOK || text == "" || strings.Contains(headers.Get("Cache-Control"), "immutable") != kept {
			t.Errorf("%s: status %d, %q", path, status, headers.Get("Cache-Control"))
		}
	}
	status, _, body := h.ask("GET", g.run+"/v1/status", append(known, web.Header+": "+g.word), "")
	if status != http.StatusOK || !strings.Contains(body, "inside") {
		t.Errorf("a request in the folder: %d, %q", status, body)
	}
	for name, more := range map[string][]string{
		"another origin":    {"Origin: http://evil.test"},
		"another site":      {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"},
		"another port":      {"Sec-Fetch-Site: same-site"},
		"into another page": {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"},
	} {
		if status, _, _ := h.ask("GET", g.run+"/v1/status", append(append(known, web.Header+": "+g.word), more...), ""); status != http.StatusForbidden {
			t.Errorf("a request in the folder from %s: status %d", name, status)
		}
	}
	before := g.run
	if status := h.sign(g, h.origin); status != http.StatusOK || g.run != before {
		t.Errorf("signed in again: %d, folder %q, before %q", status, g.run, before)
	}
	status, headers, _ = h.ask("POST", g.run+"/login/out", h.good("Cookie: "+g.cookie, web.Header+": "+g.word), "{}")
	if all := headers.Values("Set-Cookie"); status != http.StatusOK || len(all) != 2 || !strings.Contains(all[1], "Path="+g.run+"/; Max-Age=0") {
		t.Errorf("signed out: %d, %q", status, all)
	}
}

// A cookie is as old as its browser is away, and no older.
func TestCookieEnds(t *testing.T) {
	h, g := build(t, t.TempDir()), newGuest(t)
	now := time.Now()
	h.door.SetClock(func() time.Time { return now })
	h.enter(g)
	for range 2 {
		now = now.Add(6 * 24 * time.Hour)
		if status := h.inside(g); status != http.StatusOK {
			t.Fatalf("control: a browser that comes by: status %d", status)
		}
	}
	now = now.Add(7 * 24 * time.Hour)
	if status := h.inside(g); status != http.StatusUnauthorized {
		t.Errorf("after a week away: status %d", status)
	}
}

// UI-02: another name for this host is another host.
func TestHosts(t *testing.T) {
	h, g := build(t, t.TempDir()), newGuest(t)
	h.enter(g)
	_, port, _ := net.SplitHostPort(h.host)
	for _, lines := range [][]string{
		{"Host: evil.test"}, {"Host: evil.test:" + port}, {"Host: 127.0.0.1.evil.test:" + port}, {"Host: localhost:" + port}, {"Host: localhost.evil.test:" + port},
		{"Host: 0.0.0.0:" + port}, {"Host: [::ffff:127.0.0.1]:" + port}, {"Host: [::1]:" + port}, {"Host: 127.0.0.1"}, {"Host: 127.0.0.1:1"}, {"Host: 127.1:" + port},
		{"Host: 127.0.0.1.:" + port}, {"Host: "}, {"X-Forwarded-Host: " + h.host, "Host: evil.test"}, {"Host: " + h.host, "Host: evil.test"}, {}, {"Host: " + h.host + "@evil.test"},
	} {
		for _, path := range []string{"/login", "/v1/status"} {
			status, _, body := h.ask("GET", path, append(lines, "Cookie: "+g.cookie, web.Header+": "+g.word), "")
			if status < 400 || strings.Contains(body, "inside") {
				t.Errorf("%q %s: status %d", lines, path, status)
			}
		}
	}
	if status, _, _ := h.ask("GET", "http://evil.test/v1/status", []string{"Host: " + h.host, "Cookie: " + g.cookie, web.Header + ": " + g.word}, ""); status < 400 {
		t.Errorf("an absolute target of another host: status %d", status)
	}
}

// UI-03: what another origin's page can make a browser send is refused, although
// the browser adds the cookie.
func TestOtherOrigins(t *testing.T) {
	h, g := build(t, t.TempDir()), newGuest(t)
	h.enter(g)
	base := []string{"Host: " + h.host, "Cookie: " + g.cookie, web.Header + ": " + g.word}
	json := "Content-Type: application/json"
	own := "Origin: " + h.origin
	if status, _, _ := h.ask("POST", "/v1/x", append(base, own, json, "Sec-Fetch-Site: same-origin"), "{}"); status != http.StatusOK {
		t.Fatalf("control: the page's own request gets %d", status)
	}
	for name, headers := range map[string][]string{
		"a form":             {own, "Content-Type: application/x-www-form-urlencoded", "Sec-Fetch-Site: same-origin"},
		"multipart":          {own, "Content-Type: multipart/form-data; boundary=x"},
		"JSON as text":       {own, "Content-Type: text/plain"},
		"JSON with charset":  {own, "Content-Type: application/json; charset=x, text/plain"},
		"no type":            {own},
		"no origin":          {json},
		"null origin":        {json, "Origin: null"},
		"another origin":     {json, "Origin: http://evil.test"},
		"another port":       {json, "Origin: http://127.0.0.1:1"},
		"https":              {json, "Origin: https://" + h.host},
		"two origins":        {json, own, "Origin: http://evil.test"},
		"cross-site":         {json, own, "Sec-Fetch-Site: cross-site"},
		"same-site":          {json, own, "Sec-Fetch-Site: same-site"},
		"typed by a person":  {json, own, "Sec-Fetch-Site: none"},
		"a name that begins": {json, "Origin: " + h.origin + ".evil.test"},
	} {
		if status, _, body := h.ask("POST", "/v1/x", append(base, headers...), "{}"); status < 400 || strings.Contains(body, "inside") {
			t.Errorf("POST as %s: status %d", name, status)
		}
	}
	for name, headers := range map[string][]string{
		"cross-site":  {"Sec-Fetch-Site: cross-site"},
		"same-site":   {"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors"},
		"origin":      {"Origin: http://127.0.0.1:1"},
		"a frame":     {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"},
		"a document":  {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"},
		"a websocket": {"Upgrade: websocket", "Connection: Upgrade", "Origin: http://127.0.0.1:1", "Sec-WebSocket-Protocol: cloister.terminal, " + g.word},
		"no origin":   {"Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Protocol: cloister.terminal, " + g.word},
	} {
		if status, _, body := h.ask("GET", "/v1/status", append(base, headers...), ""); status < 400 || strings.Contains(body, "inside") {
			t.Errorf("GET as %s: status %d", name, status)
		}
	}
	for _, method := range []string{"OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT"} {
		status, headers, _ := h.ask(method, "/v1/status", append(base, "Origin: "+h.origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Private-Network: true"), "")
		if status < 400 {
			t.Errorf("%s: status %d", method, status)
		}
		for name := range headers {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s is answered with %s", method, name)
			}
		}
	}
}

// UI-05, UI-08: a link lets one browser in, once, soon; guesses are refused and
// do not lock out who has a good one.
func TestLinks(t *testing.T) {
	h := build(t, t.TempDir())
	secret := h.secret()
	for i := range 200 {
		status := h.post(nil, "/login/link", map[string]any{"link": fmt.Sprintf("%d%s", i%10, secret[1:len(secret)-1]), "public": newGuest(t).public})
		if want := http.StatusUnauthorized; i < 20 && status != want || i >= 20 && status != http.StatusTooManyRequests {
			t.Fatalf("guess %d: status %d", i, status)
		}
	}
	g := newGuest(t)
	if status := h.post(g, "/login/link", map[string]any{"link": secret, "public": g.public}); status != http.StatusOK || h.inside(g) != http.StatusOK {
		t.Fatalf("control: a good link after guesses: status %d", status)
	}
	if status := h.post(newGuest(t), "/login/link", map[string]any{"link": secret, "public": newGuest(t).public}); status < 400 {
		t.Errorf("the same link again: status %d", status)
	}
	first := h.secret()
	for range 16 {
		h.secret()
	}
	if status := h.post(newGuest(t), "/login/link", map[string]any{"link": first, "public": newGuest(t).public}); status < 400 {
		t.Errorf("the seventeenth link left the first one good: status %d", status)
	}
	for name, body := range map[string]string{"no JSON": "x", "too long": `{"link":"` + strings.Repeat("x", 5000) + `"}`, "no key": `{"link":"` + h.secret() + `"}`, "null": "null", "RSA": `{"link":"` + h.secret() + `","public":"MAo="}`} {
		if status, _, answer := h.ask("POST", "/login/link", h.good(), body); status < 400 {
			t.Errorf("%s: status %d %s", name, status, answer)
		}
	}
}

func TestLinkEnds(t *testing.T) {
	h := build(t, t.TempDir())
	now := time.Now()
	h.door.SetClock(func() time.Time { return now })
	g, late := newGuest(t), h.secret()
	now = now.Add(time.Minute)
	if status := h.post(g, "/login/link", map[string]any{"link": late, "public": g.public}); status < 400 {
		t.Errorf("a link of a minute ago: status %d", status)
	}
	h.enter(g)
	if status := h.sign(g, h.origin); status != http.StatusOK {
		t.Errorf("control: a key signs in: status %d", status)
	}
	_, _, text := h.ask("POST", "/login/challenge", h.good(), "{}")
	var c struct{ Challenge string }
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	now = now.Add(30 * time.Second)
	if status := h.answer(g, h.origin, c.Challenge); status < 400 {
		t.Errorf("a challenge of half a minute ago: status %d", status)
	}
	now = now.Add(8 * 24 * time.Hour)
	if status := h.sign(g, h.origin); status < 400 {
		t.Errorf("a browser that was away for a week: status %d", status)
	}
}

// A restart makes every word and link anew; the browser's key still lets it in,
// but for no other address than its own.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	first, g := build(t, dir), newGuest(t)
	first.enter(g)
	left := first.secret()
	was := *g
	_ = first.door.Listener().Close()
	second := build(t, dir)
	if first.host != second.host {
		t.Fatalf("it moved from %s to %s", first.host, second.host)
	}
	if status := second.inside(&was); status < 400 {
		t.Errorf("words of the last run: status %d", status)
	}
	if status := second.post(newGuest(t), "/login/link", map[string]any{"link": left, "public": g.public}); status < 400 {
		t.Errorf("a link of the last run: status %d", status)
	}
	if status := second.sign(g, "http://127.0.0.1:1"); status < 400 {
		t.Errorf("a signature for another address: status %d", status)
	}
	if status := second.sign(newGuest(t), second.origin); status < 400 {
		t.Errorf("a key that nobody knows: status %d", status)
	}
	if status := second.sign(g, second.origin); status != http.StatusOK || second.inside(g) != http.StatusOK {
		t.Errorf("control: the browser's own key: status %d", status)
	}
	third := build(t, dir) // while the second has the address
	if third.host == second.host {
		t.Fatal("two doors at one address")
	}
	if status := third.inside(g); status < 400 {
		t.Errorf("words of one door at another: status %d", status)
	}
	// Who has the old address now can have the browser's key sign whatever it likes.
	if status := third.sign(g, third.origin); status < 400 {
		t.Errorf("a key that the browser keeps for another address: status %d", status)
	}
	third.enter(g)
	_ = third.door.Listener().Close()
	if fourth := build(t, dir); fourth.host != third.host || fourth.sign(g, fourth.origin) != http.StatusOK {
		t.Errorf("control: a key of this address at %s, after %s", fourth.host, third.host)
	}
}

// The window is at a port that no cloister's can be, also where an older one was
// elsewhere, and goes to another when one is taken.
func TestPorts(t *testing.T) {
	for _, was := range []int{0, 1, 40_000, api.WindowFirst - 1, api.WindowLast + 1, api.WindowFirst, api.WindowLast} {
		dir := t.TempDir()
		if was != 0 {
			if err := os.WriteFile(filepath.Join(dir, "window.json"), fmt.Appendf(nil, `{"version":1,"port":%d,"keys":[]}`, was), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h := build(t, dir)
		at := h.door.Listener().Addr().(*net.TCPAddr)
		if !at.IP.Equal(net.IPv4(127, 0, 0, 1)) || !api.WindowPort(uint16(at.Port)) {
			t.Errorf("after port %d it is at %v", was, at)
		}
		if api.WindowPort(uint16(was)) && at.Port != was {
			t.Logf("port %d is taken, it is at %d", was, at.Port)
		}
	}
}

// A service worker of a server that had the address before takes itself away as
// soon as the browser asks for a newer one; there is none of the window's.
func TestNoServiceWorker(t *testing.T) {
	h, g := build(t, t.TempDir()), newGuest(t)
	h.enter(g)
	for _, path := range []string{"/sw.js", "/main.js", "/v1/status", "/login"} {
		status, headers, body := h.ask("GET", path, []string{"Host: " + h.host, "Service-Worker: script", "Sec-Fetch-Dest: serviceworker", "Sec-Fetch-Site: same-origin", "Cookie: " + g.cookie}, "")
		if status != http.StatusOK || !strings.Contains(body, "unregister") || strings.Contains(body, "fetch") || strings.Contains(body, "import") {
			t.Errorf("%s: status %d: %s", path, status, body)
		}
		if !strings.Contains(headers.Get("Content-Security-Policy"), "worker-src 'none'") {
			t.Errorf("%s: the page's policy lets workers be made", path)
		}
	}
	if status, _, body := h.ask("GET", "/sw.js", []string{"Host: evil.test", "Service-Worker: script"}, ""); status < 400 {
		t.Errorf("for another host: %d %s", status, body)
	}
}

func TestSignOut(t *testing.T) {
	h, g := build(t, t.TempDir()), newGuest(t)
	h.enter(g)
	if status, _, _ := h.ask("POST", "/login/out", h.good(), "{}"); status != http.StatusUnauthorized {
		t.Errorf("nobody signs out: status %d", status)
	}
	if status, _, _ := h.ask("POST", "/login/out", h.good("Cookie: "+g.cookie, web.Header+": "+g.word), "{}"); status != http.StatusOK {
		t.Errorf("sign out: status %d", status)
	}
	if h.inside(g) != http.StatusUnauthorized || h.sign(g, h.origin) != http.StatusUnauthorized {
		t.Error("it is still known")
	}
}

// UI-07: what lies on the disk is this user's alone, and lets nobody in.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	h, g := build(t, dir), newGuest(t)
	h.enter(g)
	path := filepath.Join(dir, "window.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, cookie, _ := strings.Cut(g.cookie, "=")
	for _, secret := range []string{cookie, g.word} {
		if secret == "" || bytes.Contains(text, []byte(secret)) {
			t.Errorf("the file has %q: %s", secret, text)
		}
	}
	for name, spoil := range map[string]func(string) error{
		"a link":         func(p string) error { return os.Symlink(path, p) },
		"open to others": func(p string) error { return os.WriteFile(p, text, 0o644) },
		"a folder":       func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		other := t.TempDir()
		if err := spoil(filepath.Join(other, "window.json")); err != nil {
			t.Fatal(err)
		}
		if name == "open to others" {
			if err := os.Chmod(filepath.Join(other, "window.json"), 0o644); err != nil { // whatever the mask
				t.Fatal(err)
			}
		}
		if _, err := web.Open(t.Context(), other); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for name, text := range map[string]string{"nothing": "", "no JSON": "{", "another version": `{"version":2,"port":1}`, "a port": `{"version":1,"port":99999}`, "a key": `{"version":1,"port":1,"keys":[{"public":"AAAA"},null]}`} {
		other := t.TempDir()
		if err := os.WriteFile(filepath.Join(other, "window.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := web.Open(t.Context(), other)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = d.Listener().Close()
	}
}

// UI-06: every answer, of whatever kind, forbids what the pages do not need.
func TestHeaders(t *testing.T) {
	h, g := build(t, t.TempDir()), newGuest(t)
	h.enter(g)
	for _, path := range []string{"/login", "/v1/status", "/now", "/nothing", "/main.js", "/favicon/3.svg"} {
		for _, headers := range [][]string{{"Host: " + h.host}, {"Host: " + h.host, "Cookie: " + g.cookie, web.Header + ": " + g.word}, {"Host: evil.test"}} {
			status, got, _ := h.ask("GET", path, headers, "")
			policy := got.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
				if !strings.Contains(policy, want) {
					t.Errorf("%s %d: policy %q without %s", path, status, policy, want)
				}
			}
			for _, never := range []string{"unsafe", "*", "data:", "blob:"} {
				if strings.Contains(policy, never) {
					t.Errorf("%s: policy %q with %s", path, policy, never)
				}
			}
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
				"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": ""} {
				if got.Get(name) != want {
					t.Errorf("%s %d: %s is %q", path, status, name, got.Get(name))
				}
			}
		}
	}
}

// A person's reload after a restart goes to the page that signs in.
func TestReload(t *testing.T) {
	h := build(t, t.TempDir())
	status, headers, _ := h.ask("GET", "/asks", []string{"Host: " + h.host, "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, "")
	if status != http.StatusSeeOther || headers.Get("Location") != "/login?to=asks" {
		t.Errorf("status %d to %q", status, headers.Get("Location"))
	}
	for _, name := range web.Pages() {
		if status, _, _ := h.ask("GET", "/"+name, []string{"Host: " + h.host}, ""); status != http.StatusUnauthorized {
			t.Errorf("/%s: status %d", name, status)
		}
	}
}
