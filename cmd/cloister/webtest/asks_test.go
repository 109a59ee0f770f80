//go:build linux

package webtest

import (
	"os"
	"strings"
)

// answerAll uses every button of Asks: for all of a wildcard and for one name, taken
// back from the notice and from the list.
func answerAll(w *world, tb *tab) {
	tb.t.Helper()
	file := w.path("c/cloister/config.yaml")
	was, err := os.ReadFile(file)
	if err != nil {
		tb.t.Fatal(err)
	}
	// The test has denied up.example meanwhile; the asked names go to the same server.
	run := w.begin("run", "--name", "asker", "--", "sh", "-c", "for n in one two; do curl -s -m 40 http://$n.ask.example/; done; curl -s -m 40 http://ask.example/; curl -s -m 40 http://ask.example/again")
	tb.goTo("n", "now")
	eval[bool](tb, `(window.pressed = document.querySelector('#nav a[href="/asks"]'), true)`)
	tb.Click(`a.count`) // from a cloister to what it asks
	tb.Wait(`location.pathname === '/asks'`)
	tb.Says("connect to one.ask.example:80")
	// A link that is made anew between a press and its release is not clicked.
	tb.Wait(`!document.querySelector('#nav .count').hidden`)
	if !eval[bool](tb, `document.querySelector('#nav a[href="/asks"]') === window.pressed`) {
		tb.t.Error("the bar's links were made anew when an ask came")
	}
	tb.ready()
	tb.Click(`.ask .check input`)
	tb.Click(`.ask .allow`)
	tb.Says("An answer for *.ask.example:80 is remembered: choose for how long.")
	tb.Click(`[data-scope=session]`)
	tb.Click(`.ask .allow`)
	tb.Says("Allow more than was asked?")
	tb.shot("asks-wider")
	tb.axe("asks-wider")
	tb.Click(`dialog .acts button`) // Cancel
	tb.Wait(`!document.querySelector('dialog') && document.querySelector('.ask')`)
	tb.Click(`.ask .allow`)
	tb.Click(`dialog .acts .allow`)
	tb.Says("Allowed (session): *.ask.example:80")
	// The second name is of the same wildcard: nobody is asked.
	tb.Says("connect to ask.example:80")
	tb.Says("*.ask.example:80")
	tb.Click(`.toast button`) // Undo
	tb.Says("Taken back.")
	tb.ready()
	tb.Click(`[data-scope=project]`)
	tb.Click(`.ask .deny`)
	tb.Says("Denied (project): connect to ask.example:80")
	if out := run(); strings.Count(out, "hello from") != 2 {
		tb.t.Errorf("it printed %q", out)
	}
	tb.Click(`td.acts button[aria-label="Take back: ask.example:80"]`)
	tb.Says("No answer is remembered.")
	if now, err := os.ReadFile(file); err != nil || string(now) != string(was) {
		tb.t.Errorf("an answer is written into config.yaml: %v", err)
	}
}
