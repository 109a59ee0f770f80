//go:build linux

package webtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// turnScript is what an agent's turn does: it writes what it was asked for, and remembers
// that in its home. trialScript is a turn of which only that of the second fork is right.
const (
	turnScript  = "echo $1 >answer\nprintf '%s ' $1 >>~/talk\ncp ~/talk talk\n"
	trialScript = "case $CLOISTER_NAME in\n*-2) sh turn.sh right ;;\n*) sh turn.sh wrong ;;\nesac\n"
	testScript  = "echo the answer is: $(cat answer)\ngrep -q right answer\n"
)

// TestForks goes from three turns back to the second and on from there in three ways at once, has
// a command compare them, applies the one that passes, and takes it back: by the window alone.
// The agent is a shell with a script.
func TestForks(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	w.write("home/project/turn.sh", turnScript)
	w.write("home/project/trial.sh", trialScript)
	w.write("home/project/test.sh", testScript)
	w.write("home/project/answer", "none\n")
	turn := func(word string) {
		t.Helper()
		w.do("run", "--workspace", "overlay", "--name", "k", "--agent", "sh", "--", "sh", "turn.sh", word)
	}
	tb.open(w)
	now := func(cond string) { // waits until the page's text is so
		t.Helper()
		tb.Wait(`(() => { const t = document.querySelector('main').textContent; return ` + cond + `; })()`)
	}
	enabled := func(word string) { // the button that a key stands for
		t.Helper()
		tb.Wait(`[...document.querySelectorAll('.acts-row button')].some((b) => b.textContent.startsWith(` + quoted(word) + `) && !b.disabled)`)
	}
	done := func() { // answers the dialog, and waits until it is gone
		t.Helper()
		tb.Wait(`document.querySelector('dialog[open] button.main:not(:disabled)')`)
		tb.Click(`dialog button.main`)
		tb.Wait(`!document.querySelector('dialog')`)
	}
	answer := func(want string) {
		t.Helper()
		eventually(t, "the answer is "+want, func() bool {
			text, err := os.ReadFile(filepath.Join(w.project, "answer"))
			return err == nil && strings.TrimSpace(string(text)) == want
		})
	}

	// Three turns, and back to the second.
	turn("one")
	turn("two")
	tb.visit("/time?name=k")
	enabled("Checkpoint")
	tb.Press("c")
	tb.Put(`dialog input`, "second turn")
	done()
	now(`t.includes('second turn')`)
	turn("three")
	tb.visit("/time?name=k")
	tb.Wait(`(() => { const c = [...document.querySelectorAll('.card')].find((c) => c.textContent.includes('second turn')); if (!c) return false; c.click(); return true; })()`)
	enabled("Restore")
	tb.Press("r")
	done()
	now(`t.includes('Restored')`)

	// Three ways on from there.
	enabled("Fork")
	tb.Press("f")
	tb.Wait(`document.querySelector('dialog input[type=number]')`)
	tb.Put(`dialog input[type=number]`, "3")
	tb.Put(`dialog input:not([type=number])`, "trial.sh")
	tb.axe("time-fork")
	done()
	tb.Says("Made: k-1, k-2, k-3.")
	eventually(t, "the agents have ended", func() bool { return !strings.Contains(w.do("list"), "k-") })

	// A command tells which is right.
	tb.visit("/time?name=k")
	enabled("Compare")
	tb.Press("v")
	tb.Wait(`document.querySelectorAll('dialog input[type=checkbox]:checked').length === 3`)
	tb.Put(`dialog label.field input`, "sh test.sh")
	tb.Click(`dialog button.main`)
	tb.Wait(`document.querySelector('dialog table')`)
	if got := eval[string](tb, `[...document.querySelectorAll('dialog .run .verdict')].map((v) => v.textContent).join()`); got != "failed,ok,failed" {
		t.Fatalf("of three forks the tests say %q", got)
	}
	text := eval[string](tb, `document.querySelector('dialog').textContent`)
	for _, want := range []string{"the answer is: right", "the answer is: wrong", "+1 -1 (a)"} {
		if !strings.Contains(text, want) {
			t.Errorf("the comparison does not say %q: %s", want, text)
		}
	}
	tb.axe("time-compare")
	if list := w.do("list", "-a"); strings.Contains(w.do("checkpoints", "k-2"), "try") {
		t.Errorf("a trial is left: %s", list)
	}

	// The one that passes goes into the project, with what its agent remembered, and out again.
	eval[bool](tb, `(() => { document.activeElement.blur(); document.querySelector('dialog button.show').focus(); return true; })()`)
	tb.Press("2")
	tb.Wait(`location.search === '?name=k-2' && !document.querySelector('dialog')`)
	now(`t.includes('modified answer')`)
	enabled("Apply")
	tb.Press("a")
	done()
	answer("right")
	if text, err := os.ReadFile(filepath.Join(w.project, "talk")); err != nil || string(text) != "one two right " {
		t.Errorf("the fork's agent remembered %q: %v", text, err)
	}
	now(`t.includes('Applied to the project')`)
	enabled("Undo")
	tb.Press("u")
	done()
	answer("none")
	if _, err := os.Stat(filepath.Join(w.project, "talk")); err == nil {
		t.Error("what was added is there after the undo")
	}

	// One of which is known no more is said, and the dialog stays.
	tb.Expect("responded with a status of 404")
	enabled("Compare")
	tb.Press("v")
	tb.Wait(`document.querySelectorAll('dialog input[type=checkbox]:checked').length === 3`)
	w.do("discard", "k-3")
	tb.Click(`dialog button.main`)
	tb.Wait(`document.querySelector('dialog .beware')`)
	tb.Click(`dialog .acts button`)
	tb.Wait(`!document.querySelector('dialog')`)
}
