//go:build linux

package webtest

import (
	"bufio"
	"io"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/creack/pty"
)

// A tunnel of the person's: it passes everything on to where it leads, the Host as it is.
func newTunnel(t *testing.T, to *atomic.Pointer[url.URL]) string {
	t.Helper()
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to.Load())
		r.Out.Host = r.In.Host
	}})
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
}

// terminal is a command in a terminal of its own: what it prints by lines, and how it is
// answered.
func (w *world) terminal(words ...string) (lines *bufio.Reader, in io.Writer, wait func()) {
	w.t.Helper()
	cmd := w.command(words...)
	cmd.SysProcAttr = nil // pty makes it the leader of a session
	screen, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 60, Cols: 120})
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	w.t.Cleanup(func() {
		_ = screen.Close() // it hangs up
	})
	return bufio.NewReader(screen), screen, func() {
		w.t.Helper()
		if err := <-done; err != nil {
			w.t.Errorf("cloister %v: %v", words, err)
		}
	}
}

// until reads to what a pattern matches, and gives its group.
func until(t *testing.T, from *bufio.Reader, pattern string) string {
	t.Helper()
	re, seen := regexp.MustCompile(pattern), ""
	for {
		b, err := from.ReadByte()
		if err != nil {
			t.Fatalf("no %q in %q: %v", pattern, seen, err)
		}
		seen += string(b)
		if m := re.FindStringSubmatch(seen); m != nil {
			return m[1]
		}
	}
}

// TestPhone pairs a phone over a tunnel, answers with it, and unpairs it.
func TestPhone(t *testing.T) {
	w := newWorld(t)
	var leads atomic.Pointer[url.URL]
	tunnel := newTunnel(t, &leads)
	if out := w.do("window", "devices", "--json"); !strings.Contains(out, `"devices": []`) || strings.Contains(out, `"at"`) {
		t.Errorf("by itself: %s", out)
	}
	lines, in, wait := w.terminal("window", "pair", "--url", tunnel)
	to, err := url.Parse(until(t, lines, `leads to (http://127\.0\.0\.1:\d+),`))
	if err != nil {
		t.Fatal(err)
	}
	leads.Store(to)
	link := until(t, lines, `(`+regexp.QuoteMeta(tunnel)+`/#[\w-]{22})\r\n`)
	tb := newTab(t, nil)
	tb.Size(390, 844)
	tb.Navigate(link)
	tb.Wait(`/^\d{3} \d{3}$/.test(document.getElementById('number').textContent)`)
	number := eval[string](tb, `document.getElementById('number').textContent`)
	if at := eval[string](tb, `location.href + document.cookie`); at != tunnel+"/" {
		t.Errorf("the page is at %q, or has a cookie", at)
	}
	if asked := until(t, lines, `Does the phone show (\d{3} \d{3})\?`); asked != number {
		t.Fatalf("the computer shows %s, and the phone %s", asked, number)
	}
	tb.axe("phone-number")
	if _, err := io.WriteString(in, "y\n"); err != nil {
		t.Fatal(err)
	}
	key := until(t, lines, `phone is paired \(([0-9a-f]{8})\)`)
	wait()
	tb.Says("Paired.")
	run := w.begin("run", "--name", "asker", "--", "sh", "-c", "curl -s -m 100 http://one.ask.example/; curl -s -m 100 http://two.ask.example/ || echo refused")
	press := func(question, button string) {
		tb.Says(question)
		tb.Wait(`document.querySelectorAll('.ask').length === 1 && performance.now() - Number(document.getElementById('list').dataset.moved) > 600`)
		tb.axe("phone-ask")
		tb.shot("phone-ask")
		tb.Click(`.ask ` + button)
	}
	press("connect to one.ask.example:80", ".allow")
	tb.Says("Allowed.")
	press("connect to two.ask.example:80", ".deny")
	tb.Says("Denied.")
	if out := run(); !strings.Contains(out, "hello from one.ask.example") || strings.Contains(out, "hello from two") {
		t.Errorf("it printed %q", out)
	}
	w.tappedTwice(tb)
	record := w.do("audit", "tail", "--json", "--kind", "approval.decision")
	if strings.Count(record, "via device phone ("+key+")") != 4 {
		t.Errorf("the record says %s", record)
	}
	// No script of the page gets the key.
	if got := eval[string](tb, `new Promise((done) => { indexedDB.open('cloister-phone').onsuccess = (e) => {
		e.target.result.transaction('key').objectStore('key').get('own').onsuccess = (r) =>
			crypto.subtle.exportKey('pkcs8', r.target.result.privateKey).then(() => done('taken'), (x) => done(x.name));
	}; })`); got != "InvalidAccessError" {
		t.Errorf("the key: %s", got)
	}
	// A restart of the guardian finds it, at the same port.
	w.do("guardian", "stop")
	tb.Expect("responded with a status", "net::ERR")
	if out := w.do("window", "devices"); !strings.Contains(out, "phone  "+key) {
		t.Errorf("after a restart: %s", out)
	}
	eventually(t, "the phone looks at the next guardian", func() bool { return strings.Contains(w.do("guardian", "status", "--json"), `"watchers": 1`) })
	run = w.begin("run", "--", "curl", "-s", "-m", "100", "http://one.ask.example/again")
	press("connect to one.ask.example:80", ".allow")
	tb.Says("Allowed.")
	if out := run(); !strings.Contains(out, "hello from one.ask.example") {
		t.Errorf("after a restart it printed %q", out)
	}
	if _, err := os.Stat(w.path("s/cloister/devices.json")); err != nil {
		t.Error(err)
	}
	w.do("window", "unpair", "phone")
	tb.Wait(`/^No/.test(document.getElementById('say').textContent)`) // not paired, or no answer
	if out := w.do("window", "devices", "--json"); strings.Contains(out, `"at"`) {
		t.Errorf("it listens for no device: %s", out)
	}
	for _, kind := range []string{"device.pair", "device.remove"} {
		if got := w.do("audit", "tail", "--json", "--kind", kind); !strings.Contains(got, kind) {
			t.Errorf("%s is not in the record", kind)
		}
	}
}

// tappedTwice has two questions wait: a second tap, on what takes the first one's place, is
// for neither, and an answer that did not get through can be given again.
func (w *world) tappedTwice(tb *tab) {
	w.t.Helper()
	run := w.begin("run", "--", "sh", "-c", "curl -s -m 100 http://one.ask.example/2 & curl -s -m 100 http://two.ask.example/2; wait")
	tb.Wait(`document.querySelectorAll('.ask').length === 2 && performance.now() - Number(document.getElementById('list').dataset.moved) > 600`)
	eval[bool](tb, `(() => {
		const fetched = window.fetch;
		window.fetch = (...a) => a[0] === '/answer' ? Promise.reject(new Error('no network')) : fetched(...a);
		window.again = () => { window.fetch = fetched; };
		return true;
	})()`)
	tb.Click(`.ask:first-child .allow`)
	tb.Says("Not answered: no network")
	tb.Wait(`!document.querySelector('.ask .allow:disabled') && performance.now() - Number(document.getElementById('list').dataset.moved) > 600`)
	eval[bool](tb, `(() => {
		again();
		window.second = '';
		new MutationObserver((_, o) => {
			const next = document.querySelector('.ask');
			o.disconnect();
			next.querySelector('.allow').click();
			window.second = next.querySelector('.allow').disabled ? 'answered' : 'still';
		}).observe(document.getElementById('list'), { childList: true });
		return true;
	})()`)
	tb.Click(`.ask:first-child .allow`)
	tb.Wait(`window.second`)
	if got := eval[string](tb, `window.second`); got != "still" {
		w.t.Errorf("a second tap on the place of the first question: the next is %s", got)
	}
	tb.Wait(`document.querySelectorAll('.ask').length === 1 && performance.now() - Number(document.getElementById('list').dataset.moved) > 600`)
	tb.Click(`.ask .allow`)
	if out := run(); !strings.Contains(out, "hello from one") || !strings.Contains(out, "hello from two") {
		w.t.Errorf("both allowed, it printed %q", out)
	}
}
