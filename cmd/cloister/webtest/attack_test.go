//go:build linux

package webtest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/api"
	"cloister/cmd/cloister/chromium"
)

// evil is a page of another origin, with what it wants to try.
func evil(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>evil</title><body>")
	}))
	t.Cleanup(s.Close)
	return s
}

// UI-02, UI-03, UI-06 by a real browser: a page of another site, and one of
// another port of this host, which gets our cookies, try all they can.
func TestAnotherOrigin(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	tb.open(w)
	base := eval[string](tb, "location.origin")
	run := w.begin("run", "--", "curl", "-s", "-m", "45", "http://ask.example/")
	tb.Wait(`document.title.startsWith('(1) ')`)
	id := eval[string](tb, `ours('./live.js').then((m) => m.pending()[0].id)`)
	// Control: the same calls by our own page are answered.
	if got := eval[int](tb, `ours('./api.js').then((m) => m.get('/v1/approvals')).then((l) => l.length)`); got != 1 {
		t.Fatalf("control: our own page sees %d asks", got)
	}
	s := evil(t)
	there, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, site := range []string{"http://evil.test:" + there.Port(), s.URL} {
		bad := newTab(t, tb) // the same profile: it has the cookie
		bad.Expect("CORS", "net::ERR", "Refused", "responded with a status", "WebSocket", "violates the following", "X-Frame-Options", "frame-ancestors", "Unsafe attempt", "blocked")
		bad.Navigate(site)
		bad.Wait(`document.title === 'evil'`)
		for name, js := range map[string]string{
			"reads":          `fetch(B + '/v1/approvals', {credentials: 'include'}).then((r) => r.text()).then((x) => 'read ' + x)`,
			"reads opaquely": `fetch(B + '/v1/approvals', {credentials: 'include', mode: 'no-cors'}).then((r) => r.text()).then((x) => x ? 'read ' + x : 'no')`,
			"answers":        `fetch(B + '/v1/approvals/ID/approve', {method: 'POST', credentials: 'include', headers: {'Content-Type': 'application/json'}, body: '{}'}).then((r) => r.ok ? 'answered' : 'no')`,
			"answers blind":  `fetch(B + '/v1/approvals/ID/approve', {method: 'POST', credentials: 'include', mode: 'no-cors', body: '{}'}).then(() => 'no')`,
			"a form":         `new Promise((done) => { const f = document.createElement('form'); f.action = B + '/v1/approvals/ID/approve'; f.method = 'POST'; f.enctype = 'text/plain'; const i = document.createElement('iframe'); i.name = 'f'; i.onload = () => setTimeout(() => done('no'), 50); f.target = 'f'; document.body.append(i, f); f.submit(); })`,
			"a frame":        `new Promise((done) => { const i = document.createElement('iframe'); i.src = B + '/asks'; i.onload = () => { try { done(i.contentDocument && i.contentDocument.body.innerText.length ? 'framed' : 'no') } catch { done(frames.length && i.contentWindow.length ? 'framed' : 'no') } }; document.body.append(i); })`,
			"a script":       `new Promise((done) => { const e = document.createElement('script'); e.src = B + '/live.js'; e.onload = () => done('loaded'); e.onerror = () => done('no'); document.body.append(e); })`,
			"a module":       `import(B + '/live.js').then(() => 'loaded')`,
			"an image":       `new Promise((done) => { const e = new Image(); e.src = B + '/favicon/1.svg'; e.onload = () => done('loaded'); e.onerror = () => done('no'); })`,
			"a socket":       `new Promise((done) => { const e = new WebSocket(B.replace('http', 'ws') + '/v1/events', ['cloister.terminal', 'x']); e.onopen = () => done('open'); e.onerror = () => done('no'); })`,
			"events":         `new Promise((done) => { const e = new EventSource(B + '/v1/events', {withCredentials: true}); e.onmessage = e.onopen = () => { e.close(); done('open') }; e.onerror = () => { e.close(); done('no') }; })`,
			"a window":       `(() => { const v = open(B + '/asks'); try { return v && v.document && v.document.title ? 'held' : 'no' } catch { return 'no' } })()`,
		} {
			got := eval[string](bad, strings.NewReplacer("B", chromium.Quoted(base), "ID", id).Replace(`Promise.resolve().then(() => `+js+`).catch(() => 'no')`))
			if got != "no" {
				t.Errorf("a page of %s, %s: %s", site, name, got)
			}
		}
		bad.Close()
	}
	if n := eval[int](tb, `ours('./api.js').then((m) => m.get('/v1/approvals')).then((l) => l.length)`); n != 1 {
		t.Errorf("%d asks wait after the attacks", n)
	}
	// DNS rebinding: a name of the enemy's that leads to our door.
	rebound := newTab(t, tb)
	rebound.Expect("responded with a status", "net::ERR", "has been ignored")
	rebound.Navigate(strings.Replace(base, "127.0.0.1", "evil.test", 1) + "/login")
	rebound.Wait(`document.body && document.body.innerText.includes('no such host here')`)
	rebound.Close()
	tb.goTo("a", "asks")
	tb.ready()
	tb.Press("d")
	run()
}

// A server at another port of 127.0.0.1, such as one that a cloister publishes,
// gets our cookie by the browser's rules. It lets nobody in.
func TestStolenCookie(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	tb.open(w)
	base := eval[string](tb, "location.origin")
	var mu sync.Mutex
	stolen := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if c := r.Header.Get("Cookie"); c != "" {
			stolen = c
		}
		fmt.Fprint(w, "<title>port</title>")
	}))
	t.Cleanup(s.Close)
	other := newTab(t, tb)
	other.Navigate(s.URL)
	other.Wait(`document.title === 'port'`)
	mu.Lock()
	defer mu.Unlock()
	if !strings.HasPrefix(stolen, "cloister-") {
		t.Fatalf("control: the other port got %q", stolen)
	}
	for _, path := range []string{"/v1/status", "/v1/approvals", "/v1/events"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Cookie", stolen)
		resp, err := http.DefaultTransport.RoundTrip(req) //nolint:forbidigo // a plain client without a proxy is what an enemy has
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s with the cookie alone: status %d", path, resp.StatusCode)
		}
	}
}

// A server at another port writes over the window's cookie, which browsers let it:
// the page goes on, and nobody sees more than a request that is asked again.
func TestCookieWrittenOver(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	tb.Expect("responded with a status of 401") // once, before the page signs in again
	tb.open(w)
	base, err := url.Parse(eval[string](tb, "location.origin"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			return // it comes when it likes
		}
		for i := range 40 { // and as many more as may crowd ours out
			http.SetCookie(w, &http.Cookie{Name: fmt.Sprintf("junk%d", i), Value: strings.Repeat("x", 3000), Path: "/"})
		}
		http.SetCookie(w, &http.Cookie{Name: "cloister-" + base.Port(), Value: "theirs", Path: "/", HttpOnly: true})
		http.SetCookie(w, &http.Cookie{Name: "cloister-" + base.Port(), Value: "theirs", Path: "/v1", HttpOnly: true})
		value := ""
		for _, c := range r.CookiesNamed("cloister-" + base.Port()) {
			value += c.Value
		}
		fmt.Fprintf(w, "<title>port</title>%s", value)
	}))
	t.Cleanup(s.Close)
	other := newTab(t, tb)
	other.Navigate(s.URL + "/1")
	other.Wait(`location.pathname === '/1' && document.body.innerText.length > 20`) // ours, this once
	other.Navigate(s.URL + "/2")
	other.Wait(`location.pathname === '/2' && document.body.innerText === 'theirs'`) // control: it took the place of ours
	other.Close()
	for range 2 {
		if n := eval[int](tb, `ours('./api.js').then((m) => m.get('/v1/approvals')).then((l) => l.length)`); n != 0 {
			t.Errorf("%d asks", n)
		}
	}
	tb.visit("/audit")
	tb.Says("guardian.start")
	run := w.begin("run", "--", "curl", "-s", "-m", "40", "http://ask.example/")
	tb.Wait(`document.title.startsWith('(1) ')`)
	tb.goTo("a", "asks")
	tb.ready()
	tb.Click(".ask .allow")
	if out := run(); !strings.Contains(out, "hello from ask.example") {
		t.Errorf("it printed %q", out)
	}
}

// A page of another port writes over the window's cookie all the time, and crowds it.
// Pages load and answer all the same: what they ask for has a cookie of the run's
// folder, which that page can neither see nor write (docs/decisions/0023).
func TestCookieWrittenOverAgainAndAgain(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	tb.open(w)
	base, err := url.Parse(eval[string](tb, "location.origin"))
	if err != nil {
		t.Fatal(err)
	}
	name := "cloister-" + base.Port()
	var theirs atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, c := range r.CookiesNamed(name) {
			if c.Value == "theirs" {
				theirs.Add(1)
			}
		}
		for _, path := range []string{"/", "/v1", "/run", "/run/", "/now"} {
			http.SetCookie(w, &http.Cookie{Name: name, Value: "theirs", Path: path, HttpOnly: true})
		}
		for i := range 5 {
			http.SetCookie(w, &http.Cookie{Name: fmt.Sprintf("junk%d", i), Value: strings.Repeat("x", 1000), Path: "/"})
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>port</title>")
	}))
	t.Cleanup(s.Close)
	other := newTab(t, tb)
	other.Navigate(s.URL)
	other.Wait(`document.title === 'port'`)
	eval[bool](other, `(() => { const on = async () => { for (;;) { await fetch('/x').catch(() => {}); await new Promise((done) => setTimeout(done, 2)); } }; on(); on(); return true; })()`)
	began := theirs.Load()
	for _, page := range []string{"now", "asks", "traffic", "commands", "files", "time", "tools", "secrets", "policy", "audit", "doctor"} {
		tb.visit("/" + page)
		tb.Wait(`location.pathname === '/` + page + `' && document.querySelector('#nav a[href="/` + page + `"][aria-current]')`)
	}
	run := w.begin("run", "--", "curl", "-s", "-m", "40", "http://ask.example/")
	tb.goTo("a", "asks")
	tb.Says("connect to ask.example:80")
	tb.ready()
	tb.Press("a")
	if out := run(); !strings.Contains(out, "hello from ask.example") {
		t.Errorf("it printed %q", out)
	}
	if n := theirs.Load() - began; n < 20 { // control: all the while
		t.Errorf("the other port wrote over the cookie %d times", n)
	}
}

// A part of the page that does not come at all is told, with a way on.
func TestPartOfPageMissing(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	tb.Expect("net::ERR_BLOCKED_BY_CLIENT")
	tb.open(w)
	tb.Do("Network.enable", nil)
	tb.Do("Network.setBlockedURLs", map[string]any{"urls": []string{"*/main.js"}})
	tb.Do("Network.setCacheDisabled", map[string]any{"cacheDisabled": true})
	tb.Navigate(eval[string](tb, "location.origin") + "/audit")
	tb.Says("Another page of this browser")
	tb.Do("Network.setBlockedURLs", map[string]any{"urls": []string{}})
	tb.Click(`#banner button`)
	tb.Wait(`location.pathname === '/audit' && document.documentElement.dataset.live === 'yes'`)
	tb.Says("guardian.start")
}

// A server that had the window's address before left a service worker there, which
// answers in the window's name. It is gone after one visit, and no port of a
// cloister can have been there (docs/decisions/0018).
func TestLeftServiceWorker(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	tb.Expect("responded with a status of 401") // an icon that the worker's page has
	var l net.Listener
	var port int
	for port = api.WindowLast; l == nil; port-- {
		var config net.ListenConfig
		l, _ = config.Listen(t.Context(), "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	}
	port++
	s := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sw.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `addEventListener('install', () => skipWaiting());
addEventListener('fetch', (e) => e.request.mode === 'navigate' && e.respondWith(new Response('<title>worker</title>', {headers: {'Content-Type': 'text/html'}})));`)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>before</title>")
	})}
	served := make(chan struct{})
	go func() { _ = s.Serve(l); close(served) }()
	tb.Navigate(fmt.Sprintf("http://127.0.0.1:%d/", port))
	tb.Wait(`document.title === 'before'`)
	eval[bool](tb, `navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker.ready).then(() => true)`)
	_ = s.Close()
	<-served
	if err := os.MkdirAll(w.path("run/cloister"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.write("run/cloister/window.json", fmt.Sprintf(`{"version":1,"port":%d,"keys":[]}`, port))
	link := w.link()
	if !strings.HasPrefix(link, fmt.Sprintf("http://127.0.0.1:%d/", port)) {
		t.Fatalf("control: the window is at %s", link)
	}
	tb.Navigate(fmt.Sprintf("http://127.0.0.1:%d/login", port))
	tb.Wait(`document.title === 'worker'`) // control: it is answered by the worker
	// The browser looks for a newer one a moment after the visit.
	eventually(t, "the worker is gone", func() bool { return eval[bool](tb, `navigator.serviceWorker.getRegistration().then((r) => !r)`) })
	tb.Navigate(fmt.Sprintf("http://127.0.0.1:%d/login", port))
	tb.Says("This browser is not known here.")
	tb.open(w)
	// Nor can a page of ours make one.
	tb.Expect("CSP", "worker-src", "violates the following", "TrustedScriptURL")
	if got := eval[string](tb, `navigator.serviceWorker.register('/main.js').then(() => 'made', () => 'no')`); got != "no" {
		t.Errorf("a service worker is %s", got)
	}
}

// UI-05: the secret of a link is nowhere after its use, and it works once.
func TestLinkIsForgotten(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	link := w.link()
	_, secret, _ := strings.Cut(link, "#")
	tb.Navigate(link)
	tb.Wait(`location.pathname === '/now' && document.querySelector('main h1')`)
	var history struct {
		Entries []struct{ URL, UserTypedURL string }
	}
	tb.Ask("Page.getNavigationHistory", nil, &history)
	for i, e := range history.Entries {
		if strings.Contains(e.URL, secret) {
			t.Errorf("history entry %d is %s", i, e.URL)
		}
	}
	if got := eval[string](tb, `location.href + document.referrer + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie`); strings.Contains(got, secret) || strings.Contains(got, "cloister-") {
		t.Errorf("a script can read %s", got)
	}
	stranger := newTab(t, nil)
	stranger.Expect("responded with a status of 401")
	stranger.Navigate(link)
	stranger.Says("This browser was not let in: this link was used already")
	stranger.Says("cloister guardian open")
	stranger.shot("login-refused")
	if where := eval[string](stranger, "location.href"); strings.Contains(where, secret) {
		t.Errorf("the address line keeps the secret: %s", where)
	}
}
