//go:build linux

package webtest

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// RS-15, the window gone: who closes it leaves an ask without anybody. Nothing is done
// without an answer, the ask ends at its time, the next ones are refused at once, and
// whoever opens the window again sees what became of them.
func TestWindowGone(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	const lasts = 15 * time.Second
	file := "c/cloister/config.yaml"
	text, err := os.ReadFile(w.path(file))
	if err != nil {
		t.Fatal(err)
	}
	w.write(file, strings.Replace(string(text), "approval_timeout: 50s", "approval_timeout: "+lasts.String(), 1))
	tb.open(w)
	tb.goTo("a", "asks")
	first := w.begin("run", "--name", "first", "--", "curl", "-s", "-m", "40", "http://ask.example/")
	tb.Says("connect to ask.example:80")
	tb.Size(390, 780)
	tb.shot("asks-waiting-phone")
	again := newTab(t, tb)
	tb.Close()
	if out := first(); strings.Contains(out, "hello") {
		t.Fatalf("it went through: %q", out)
	}
	// Nobody watches any more: nothing waits for nobody.
	out := w.begin("run", "--name", "second", "--", "curl", "-s", "-m", "40", "http://ask.example/")()
	if !strings.Contains(out, "nobody is watching") {
		t.Errorf("with nobody there, it printed %q", out)
	}
	if n := w.reached("ask.example"); n != 0 {
		t.Fatalf("%d requests reached the server, and nobody answered", n)
	}
	again.open(w)
	again.goTo("a", "asks")
	again.Says("Nothing waits.")
	again.Wait(`document.querySelector('td .expired')`)
	took := eval[[]float64](again, `ours('./live.js').then((m) => [...m.state.approvals.values()].map((a) => new Date(a.settled_at) - new Date(a.created_at)))`)
	if len(took) != 1 || took[0] < float64((lasts-time.Second).Milliseconds()) || took[0] > float64((lasts+20*time.Second).Milliseconds()) {
		t.Errorf("the asks ended after %v ms, want one after %v", took, lasts)
	}
	t.Logf("an ask of %v ended after %v ms, with nobody there", lasts, took)
	// And it goes on.
	third := w.begin("run", "--name", "third", "--", "curl", "-s", "-m", "40", "http://ask.example/")
	again.Says("connect to ask.example:80")
	again.ready()
	again.Click(".ask .allow")
	if out := third(); !strings.Contains(out, "hello") || w.reached("ask.example") != 1 {
		t.Errorf("answered, it printed %q; %d requests arrived", out, w.reached("ask.example"))
	}
}

// RS-15, a reader that stalls: a page that sleeps while much happens holds nobody up,
// and is right again when it wakes.
func TestPageAsleep(t *testing.T) {
	w, asleep, awake := newWorld(t), newTab(t, nil), newTab(t, nil)
	asleep.Expect("net::ERR") // a stream that is cut off
	asleep.open(w)
	awake.open(w)
	asleep.goTo("t", "traffic")
	eval[bool](asleep, `!!(window.requestAnimationFrame = () => 1)`) // its browser gives it no frame, as was seen under load
	asleep.Do("Page.setWebLifecycleState", map[string]any{"state": "frozen"})
	run := w.begin("run", "--name", "box", "--", "sh", "-c", `curl -s -o /dev/null "http://up.example/`+strings.Repeat("x", 3000)+`[1-400]" && curl -s -m 40 http://ask.example/`)
	awake.goTo("a", "asks")
	awake.Says("connect to ask.example:80")
	if n := w.reached("up.example"); n != 400 {
		t.Errorf("control: %d requests went out while a page slept", n)
	}
	awake.Wait(`(() => { const d = document.querySelector('.ask .details'); d.scrollTop = d.scrollHeight; return true; })()`) // a long command
	awake.ready()
	awake.Press("a")
	if out := run(); !strings.Contains(out, "hello from ask.example") {
		t.Errorf("it printed %q", out)
	}
	if eval[bool](asleep, `[...document.querySelectorAll('.row')].some((r) => r.textContent.includes('up.example'))`) {
		t.Error("control: the page that sleeps shows what happens")
	}
	asleep.Do("Page.setWebLifecycleState", map[string]any{"state": "active"})
	asleep.Do("Page.bringToFront", nil) // what is behind another tab is not drawn
	asleep.Wait(`document.documentElement.dataset.live === 'yes' && [...document.querySelectorAll('.row')].some((r) => r.textContent.includes('ask.example'))`)
	asleep.goTo("a", "asks")
	asleep.Says("connect to ask.example:80")
	asleep.Wait(`document.querySelector('td .allowed') && !document.querySelector('.ask')`)
}

// A second guardian of the same instance does not begin; one of another instance that
// believes it had this address gets another, and knows no browser of this one. When
// the first is killed under an open page, the next takes its place.
func TestSecondGuardian(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	tb.Expect("net::ERR", "responded with a status of 401")
	tb.open(w)
	before := w.status()
	if out, err := w.command("guardian", "daemon").CombinedOutput(); err == nil || !strings.Contains(string(out), "a guardian is already running") {
		t.Errorf("a second guardian: %v, %s", err, out)
	}
	w.do("guardian", "start")
	if now := w.status(); now != before {
		t.Errorf("after a second start the guardian is %+v, before %+v", now, before)
	}

	other := newWorld(t)
	kept, err := os.ReadFile(w.path("run/cloister/window.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(other.path("run/cloister"), 0o700); err != nil {
		t.Fatal(err)
	}
	other.write("run/cloister/window.json", string(kept))
	other.do("guardian", "start")
	eventually(t, "the other window is open", func() bool { return other.status().UI != "" })
	if other.status().UI == before.UI {
		t.Fatalf("two windows are at %s", before.UI)
	}
	second := newTab(t, tb) // the same browser
	second.Navigate(other.status().UI + "now")
	second.Says("This browser is not known here.")
	second.open(other)
	run := other.begin("run", "--name", "there", "--", "curl", "-s", "-m", "40", "http://ask.example/")
	second.Wait(`document.title.startsWith('(1) ')`)
	if title := eval[string](tb, "document.title"); strings.HasPrefix(title, "(") {
		t.Errorf("the first window shows an ask of the second: %q", title)
	}
	second.goTo("a", "asks")
	second.ready()
	second.Press("a")
	if out := run(); !strings.Contains(out, "hello from ask.example") {
		t.Errorf("it printed %q", out)
	}

	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	tb.Says("The guardian does not answer")
	w.do("guardian", "start")
	tb.Wait(`document.getElementById('banner').hidden`)
	if now := w.status(); now.PID == before.PID || now.UI != before.UI {
		t.Errorf("the next guardian is %+v, the killed one was %+v", now, before)
	}
	run = w.begin("run", "--name", "here", "--", "curl", "-s", "-m", "40", "http://ask.example/")
	tb.Wait(`document.title.startsWith('(1) ')`)
	tb.goTo("a", "asks")
	tb.ready()
	tb.Press("d")
	run()
}

// status is what cloister guardian status says.
type status struct {
	PID int    `json:"pid"`
	UI  string `json:"ui"`
}

func (w *world) status() status {
	w.t.Helper()
	var s status
	if err := json.Unmarshal([]byte(w.do("guardian", "status", "--json")), &s); err != nil {
		w.t.Fatal(err)
	}
	return s
}
