//go:build linux

package webtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTime takes an overlay cloister through time by the window alone: three turns, a
// checkpoint of each, back to the first, a fork, an apply of what is shown, and its undo.
func TestTime(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	tb.open(w)
	tb.goTo("i", "time")
	tb.Says("No overlay workspace is kept.")
	tb.shot("time-none")
	tb.axe("time-none")

	turn := func(script string) {
		t.Helper()
		w.do("run", "--workspace", "overlay", "--name", "k", "--", "sh", "-c", script)
	}
	now := func(cond string) { // waits until the page's text is so
		t.Helper()
		tb.Wait(`(() => { const t = document.querySelector('main').textContent; return ` + cond + `; })()`)
	}
	card := func(text string) { // the moment or change that says text
		t.Helper()
		tb.Wait(`(() => { const c = [...document.querySelectorAll('.card')].find((c) => c.textContent.includes(` + quoted(text) + `)); if (!c) return false; c.click(); return true; })()`)
	}
	done := func(button string) { // answers the dialog, and waits until it is gone
		t.Helper()
		tb.Wait(`document.querySelector('dialog[open] ` + button + `:not(:disabled)')`)
		tb.Click(`dialog ` + button)
		tb.Wait(`!document.querySelector('dialog')`)
	}
	checkpoint := func(message string) {
		t.Helper()
		tb.Press("c")
		tb.Put(`dialog input`, message)
		done(`button.main`)
		now(`t.includes(` + quoted(message) + `)`)
	}
	file := func(name string) string {
		text, err := os.ReadFile(filepath.Join(w.project, name))
		if err != nil {
			return "-"
		}
		return string(text)
	}
	is := func(name, want string) {
		t.Helper()
		eventually(t, name+" is "+want, func() bool { return file(name) == want })
	}

	turn(`echo one >a; echo two >b`)
	now(`t.includes('A session ended') && t.includes('added a')`)
	checkpoint("first try")
	card("Now")
	turn(`echo changed >a; echo export A=2 >.envrc; echo x >"$(printf 'evil\342\200\256gpj')"`)
	now(`t.includes('.envrc')`)
	checkpoint("second try")

	// What is shown of each moment.
	card("first try")
	now(`t.includes('added a') && !t.includes('modified .envrc')`)
	card("added a")
	tb.Wait(`document.querySelector('.diff .add') && document.querySelector('.diff').textContent.includes('+one')`)
	card("second try")
	now(`t.includes('modified .envrc') && t.includes('programs of the host may run')`)
	if eval[bool](tb, `/[\u200b-\u200f\u2028-\u202e\u2066-\u2069]/.test(document.querySelector('main').textContent)`) {
		t.Error("a name with a mark that turns the direction is shown as it is")
	}
	now(`t.includes('evil\\u{202e}gpj')`)
	card("modified .envrc")
	tb.Wait(`document.querySelector('.diff .add') && document.querySelector('.diff').textContent.includes('+export A=2')`)
	tb.shot("time")
	tb.axe("time")
	tb.Click(`section .against button + button`) // since the checkpoint before
	now(`t.includes('evil') && !t.includes('added b')`)
	tb.Click(`section .against button:first-child`)
	tb.Size(390, 780)
	tb.Wait(`document.documentElement.scrollWidth <= 390`)
	tb.shot("time-phone")
	tb.Size(1180, 760)

	// A file that the host obeys needs a word of its own, and what is applied is what was shown.
	tb.Wait(`[...document.querySelectorAll('button.main')].some((b) => b.textContent.startsWith('Apply') && !b.disabled)`)
	tb.Press("a")
	tb.Wait(`document.querySelector('dialog button.main:disabled')`)
	tb.Says("Programs of the host may run or obey these:")
	tb.shot("time-apply")
	tb.axe("time-apply")
	tb.Press("Escape")
	tb.Wait(`!document.querySelector('dialog')`)
	post := func(verb, body string) int {
		t.Helper()
		return eval[int](tb, `ours('./api.js').then((m) => m.post('/v1/workspaces/k/`+verb+`', `+body+`)).then(() => 200, (e) => e.status)`)
	}
	tb.Expect("responded with a status of 409", "responded with a status of 404")
	for body, want := range map[string]int{`{digest: 'x', autorun: true}`: 409, `{autorun: true}`: 409, `{checkpoint: 'nosuch', digest: 'x'}`: 404} {
		if got := post("apply", body); got != want {
			t.Errorf("apply %s: %d, want %d", body, got, want)
		}
	}
	if got := post("nothing", `{}`); got != 409 {
		t.Errorf("an act that there is none of: %d", got)
	}
	if file("a") != "-" || !strings.Contains(file(".envrc"), "A=1") {
		t.Fatal("something was applied")
	}

	// Back to the first, into the project, and out of it again.
	card("first try")
	tb.Wait(`[...document.querySelectorAll('button')].some((b) => b.textContent.startsWith('Restore') && !b.disabled)`)
	tb.Press("r")
	tb.shot("time-restore")
	done(`button.main`)
	now(`t.includes('Restored') && t.includes('added a') && !t.includes('modified .envrc')`)
	tb.Press("a")
	done(`button.main`)
	is("a", "one\n")
	is("b", "two\n")
	now(`t.includes('Applied to the project') && t.includes('Nothing is different.')`)
	tb.Wait(`[...document.querySelectorAll('button')].some((b) => b.textContent.startsWith('Undo') && !b.disabled)`)
	tb.Press("u")
	done(`button.main`)
	is("a", "-")

	// A fork goes its own way.
	now(`t.includes('Taken back out') && t.includes('added a')`)
	tb.Press("f")
	done(`button.main`)
	tb.Says("Made: k-1.")
	tb.Wait(`[...document.querySelectorAll('.toast button')].some((b) => b.textContent === 'Show' && (b.click(), true))`)
	tb.Wait(`location.search === '?name=k-1'`)
	now(`t.includes('added a') && t.includes('added b')`)

	// With the word for it.
	tb.visit("/time?name=k")
	card("second try")
	now(`t.includes('modified .envrc')`)
	tb.Wait(`[...document.querySelectorAll('button.main')].some((b) => b.textContent.startsWith('Apply') && !b.disabled)`)
	tb.Press("a")
	tb.Click(`dialog input[type=checkbox]`)
	done(`button.main`)
	is(".envrc", "export A=2\n")

	// One that runs cannot be applied as it is, but held still and kept.
	w.begin("run", "--workspace", "overlay", "--name", "k-1", "--", "sh", "-c", "echo more >c; exec sleep 600")
	tb.visit("/time?name=k-1")
	now(`t.includes('It runs, and may change this') && t.includes('added c')`)
	if !eval[bool](tb, `[...document.querySelectorAll('section button')].filter((b) => /^(Apply|Restore)/.test(b.textContent)).every((b) => b.disabled)`) {
		t.Error("what runs can be applied or restored")
	}
	checkpoint("while it runs")
	now(`t.includes('added c')`)
	w.do("stop", "k-1")
	tb.Wait(`![...document.querySelectorAll('.verdict.running')].length`)
	if list := w.do("checkpoints", "k-1", "--json"); !strings.Contains(list, "while it runs") {
		t.Errorf("the command line knows of no checkpoint that the window made: %s", list)
	}

	// A path is given up alone, and all of it by its name.
	discard := `[...document.querySelectorAll('button')].some((b) => b.textContent.startsWith('Discard') && !b.disabled)`
	tb.visit("/time?name=k-1")
	card("added c")
	tb.Wait(discard)
	tb.Press("d")
	tb.Wait(`document.querySelector('dialog input[type=checkbox]:checked')`)
	tb.shot("time-discard")
	tb.axe("time-discard")
	done(`button.main`)
	now(`!t.includes('added c') && t.includes('modified a')`)
	tb.Wait(discard)
	tb.Press("d")
	tb.Wait(`document.querySelector('dialog button.main:disabled')`)
	tb.Put(`dialog input`, "k-1")
	done(`button.main`)
	tb.Wait(`![...document.querySelectorAll('option')].some((o) => o.value === 'k-1')`)
}

// quoted is a word as JavaScript spells it.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }
