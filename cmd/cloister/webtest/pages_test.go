//go:build linux

package webtest

import (
	"strings"
	"testing"
)

func TestAskIsAnswered(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	tb.open(w)
	tb.Says("No cloister runs.")
	tb.shot("now-empty")
	run := w.begin("run", "--name", "box", "--", "sh", "-c", "curl -s http://up.example/ && curl -s -m 40 http://ask.example/")
	tb.Wait(`document.title.startsWith('(1) ')`)
	tb.Says("box")
	tb.shot("now")
	tb.goTo("a", "asks")
	tb.Says("connect to ask.example:80")
	tb.ready()
	tb.shot("asks")
	tb.axe("asks")
	tb.Press("2")
	tb.Press("a")
	if out := run(); !strings.Contains(out, "hello from ask.example") {
		t.Errorf("it printed %q", out)
	}
	tb.Says("Allowed (session): connect to ask.example:80")
	tb.Wait(`!document.title.startsWith('(')`)
	tb.shot("asks-answered")
}

// Two windows at once: what one answers, the other shows; who closes one leaves
// the other with the stream.
func TestTwoWindows(t *testing.T) {
	w, first := newWorld(t), newTab(t, nil)
	first.open(w)
	second, other := newTab(t, first), newTab(t, nil)
	second.Navigate(eval[string](first, "location.origin") + "/asks")
	second.Wait(`location.pathname === '/asks' && document.querySelector('h1')`)
	other.open(w) // another browser, by a link of its own
	run := w.begin("run", "--name", "box", "--", "sh", "-c", "curl -s -m 40 http://one.ask.example/; curl -s -m 40 http://two.ask.example/")
	for _, tb := range []*tab{first, second, other} {
		tb.Wait(`document.title.startsWith('(1) ')`)
	}
	second.ready()
	second.Click(".ask .deny")
	second.Says("Denied (once): connect to one.ask.example:80")
	// The tab that read the stream for both goes away.
	first.Close()
	second.Says("connect to two.ask.example:80")
	other.goTo("a", "asks")
	other.Says("connect to two.ask.example:80")
	other.ready()
	other.Click(".ask .allow")
	if out := run(); strings.Contains(out, "from one.ask") || !strings.Contains(out, "from two.ask") {
		t.Errorf("it printed %q", out)
	}
	second.Wait(`!document.querySelector('.ask')`)
}

// A restart of the guardian under an open page: it says so, and goes on.
func TestRestart(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	tb.Expect("net::ERR", "the server responded with a status of 401")
	tb.open(w)
	w.do("guardian", "stop")
	tb.Says("The guardian does not answer")
	w.do("guardian", "start")
	tb.Wait(`document.getElementById('banner').hidden`)
	run := w.begin("run", "--", "curl", "-s", "-m", "40", "http://ask.example/")
	tb.Wait(`document.title.startsWith('(1) ')`)
	tb.visit("/asks")
	tb.Says("connect to ask.example:80")
	tb.ready()
	tb.Press("a")
	if out := run(); !strings.Contains(out, "hello from ask.example") {
		t.Errorf("it printed %q", out)
	}
	// A reload and a fresh page of the same browser need no link.
	w.do("guardian", "stop")
	w.do("guardian", "start")
	eventually(t, "the window is open again", func() bool { return strings.Contains(w.do("guardian", "status", "--json"), `"ui": "http`) })
	tb.visit("/now")
	tb.Says("Ended")
}
