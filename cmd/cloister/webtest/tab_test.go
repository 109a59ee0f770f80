//go:build linux

package webtest

import (
	"os"
	"sync"
	"testing"
	"time"

	"cloister/cmd/cloister/chromium"
	"cloister/internal/needs"
)

// one is the browser of all tests here.
var one struct {
	once sync.Once
	c    *chromium.Browser
	err  error
}

func closeBrowser() {
	if one.c != nil {
		one.c.Close()
	}
}

// tab is a tab of a browser, with the words of the window's tests.
type tab struct {
	*chromium.Tab
	t *testing.T
}

// newTab opens a tab in a profile of its own, or in that of another tab.
func newTab(t *testing.T, beside *tab) *tab {
	t.Helper()
	path := needs.Program(t, "chromium", "chromium")
	one.once.Do(func() { one.c, one.err = chromium.Start(path) })
	if one.err != nil {
		t.Fatalf("start chromium: %v", one.err)
	}
	var profile *chromium.Tab
	if beside != nil {
		profile = beside.Tab
	}
	tb := &tab{one.c.Tab(t, profile), t}
	tb.OnEachPage(ours)
	return tb
}

// ours gives scripts of a test the modules that the page has, which are not those of
// another address.
const ours = `globalThis.ours = (name) => import(new URL(name, document.querySelector('link[rel=modulepreload]').href))`

// eval gives the value of an expression.
func eval[T any](tb *tab, js string) T {
	tb.t.Helper()
	return chromium.Eval[T](tb.Tab, js)
}

// in is the tab for a part of a test.
func (tb *tab) in(t *testing.T) *tab {
	tb.t = t
	tb.In(t)
	// What a part that failed left open is not this one's.
	eval[bool](tb, `(() => { for (const d of document.querySelectorAll('dialog')) d.close(); if (document.activeElement) document.activeElement.blur(); return true; })()`)
	return tb
}

// ready waits until an ask stands still for longer than answers are dead after it
// moved, and may be allowed: nobody has read what is in a tab behind another.
func (tb *tab) ready() {
	tb.t.Helper()
	tb.Do("Page.bringToFront", nil)
	tb.Wait(`(() => {
		const e = document.querySelector('.ask.chosen');
		if (!e || e.querySelector('.allow').disabled) return false;
		e.since = e.since || performance.now();
		return performance.now() - e.since > 700;
	})()`)
}

// open comes in by a link and waits for the page.
func (tb *tab) open(w *world) {
	tb.t.Helper()
	tb.Navigate(w.link())
	tb.Wait(`location.pathname === '/now' && document.querySelector('main h1') && document.documentElement.dataset.live === 'yes'`)
}

// visit goes to a page as a person types it.
func (tb *tab) visit(path string) {
	tb.t.Helper()
	tb.Navigate(eval[string](tb, "window.leaving = true, location.origin") + path)
	tb.Wait(`!window.leaving && document.querySelector('main h1') && document.documentElement.dataset.live === 'yes'`)
}

// goTo goes to a page by its keys. They are one word within a second and a half,
// which a busy machine may not make of them at once.
func (tb *tab) goTo(key, page string) {
	tb.t.Helper()
	for range 10 {
		tb.Press("g", key)
		for range 20 {
			if eval[string](tb, "location.pathname") == "/"+page {
				return
			}
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // a key that came too late tells nothing
		}
	}
	tb.t.Fatalf("g %s does not lead to %s", key, page)
}

// shot keeps a picture, light and dark, where CLOISTER_WINDOW_SHOTS names a folder
// for them.
func (tb *tab) shot(name string) {
	tb.t.Helper()
	if dir := os.Getenv("CLOISTER_WINDOW_SHOTS"); dir != "" {
		// The test is faster than a person: notices would hide what is shown.
		eval[bool](tb, `(() => { const all = [...document.querySelectorAll('.toast')]; for (const n of all.slice(0, -1)) n.remove(); if (!all.length || !all[all.length - 1].querySelector('button')) document.getElementById('toasts')?.replaceChildren(); return true; })()`)
		tb.Shot(dir, name, "light", "dark")
	}
}
