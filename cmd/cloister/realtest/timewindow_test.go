//go:build linux

package realtest

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/cmd/cloister/chromium"
)

// A viewed is a person who does all of it in the window, in a real browser.
type viewed struct {
	*turned
	tb *chromium.Tab
}

// visit goes to a page as a person types it.
func (v *viewed) visit(path string) {
	v.t.Helper()
	v.tb.Navigate(chromium.Eval[string](v.tb, "window.leaving = true, location.origin") + path)
	v.tb.Wait(`!window.leaving && document.querySelector('main h1') && document.documentElement.dataset.live === 'yes'`)
}

// shot keeps a picture where CLOISTER_WINDOW_SHOTS names a folder for them.
func (v *viewed) shot(name string) {
	v.t.Helper()
	if dir := os.Getenv("CLOISTER_WINDOW_SHOTS"); dir != "" {
		v.tb.Shot(dir, name, "light")
	}
}

// key presses the key of an act once its button can be pressed.
func (v *viewed) key(key string) {
	v.t.Helper()
	v.tb.Wait(`[...document.querySelectorAll('.acts-row button')].some((b) => !b.disabled && b.querySelector('kbd')?.textContent === ` +
		chromium.Quoted(key) + `)`)
	v.tb.Press(key)
	v.tb.Wait(`document.querySelector('dialog[open]')`)
}

// yes answers the question that an act asks, and waits until it is gone.
func (v *viewed) yes() {
	v.t.Helper()
	v.tb.Wait(`document.querySelector('dialog[open] .acts button:last-child:not(:disabled)')`)
	v.tb.Click(`dialog .acts button:last-child`)
	v.tb.Wait(`!document.querySelector('dialog')`)
}

// shows waits until the page has a text.
func (v *viewed) shows(text string) {
	v.t.Helper()
	v.tb.Wait(`document.querySelector('main').textContent.includes(` + chromium.Quoted(text) + `)`)
}

// card chooses the moment or the path that says a text.
func (v *viewed) card(text string) {
	v.t.Helper()
	v.tb.Wait(`(() => { const c = [...document.querySelectorAll('.card')].find((c) => c.textContent.includes(` +
		chromium.Quoted(text) + `)); if (!c) return false; c.click(); return true; })()`)
}

// onScreen is what the terminal in the window shows.
const onScreen = `(() => { const b = window.cloisterTerminal?.buffer.active; let text = ''; ` +
	`for (let i = 0; b && i < b.length; i++) text += b.getLine(i).translateToString(true) + '\n'; ` +
	`return text.replaceAll('\u00a0', ' '); })()`

// terminal goes to a cloister's terminal by the page Now.
func (v *viewed) terminal(name string) {
	v.t.Helper()
	v.visit("/now")
	v.tb.Click(`[aria-label="Terminal ` + name + `"]`)
	v.tb.Wait(onScreen + `.includes('❯')`)
}

// says types a prompt at the agent's terminal, and waits for the last answer. An agent that
// is still drawing loses letters, and takes an Enter close behind letters for a new line.
func (v *viewed) says(prompt string) {
	v.t.Helper()
	within := func(js string) bool {
		for range 50 {
			if chromium.Eval[bool](v.tb, js) {
				return true
			}
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // letters that are lost tell nothing
		}
		return false
	}
	for try := 0; ; try++ {
		v.tb.Press(strings.Split(prompt, "")...)
		if within(onScreen + `.includes(` + chromium.Quoted("❯ "+prompt) + `)`) {
			break
		}
		if try == 5 {
			v.t.Fatalf("the terminal does not take %q:\n%s", prompt, chromium.Eval[string](v.tb, onScreen))
		}
		v.tb.Press(slices.Repeat([]string{"Backspace"}, len(prompt))...)
	}
	for try := 0; v.api.taken(prompt) == 0; try++ {
		if try == 20 {
			v.t.Fatalf("the agent does not take %q:\n%s", prompt, chromium.Eval[string](v.tb, onScreen))
		}
		v.tb.Press("Enter")
		within(strconv.FormatBool(v.api.taken(prompt) > 0))
	}
	v.ended(prompt, 1)
}

// stops ends a cloister by the page Now.
func (v *viewed) stops(names ...string) {
	v.t.Helper()
	v.visit("/now")
	for _, name := range names {
		v.tb.Click(`[aria-label="Stop ` + name + `"]`)
		v.yes()
		waitFor(v.t, "the end of "+name, func() bool { return !strings.Contains(v.do(0, "list"), name+" ") })
	}
}

// TestTurnsInTheWindow is TestTurns with each step done in the window: three turns of one
// conversation of the real agent in its terminal, then time's keys.
func TestTurnsInTheWindow(t *testing.T) {
	if os.Getenv("CLOISTER_TEST_LONG") == "" {
		t.Skip("four agents and their tests: CLOISTER_TEST_LONG=1")
	}
	s := newTurned(t)
	t.Cleanup(s.stopAll)
	b, err := chromium.Start(need(t, "chromium", "chromium"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	v := &viewed{s, b.Tab(t, nil)}
	v.tb.Navigate(strings.TrimSpace(s.do(0, "guardian", "open")))
	v.tb.Wait(`location.pathname === '/now' && document.documentElement.dataset.live === 'yes'`)

	// Three turns.
	s.do(0, "start", "--detach", "--workspace", "overlay", "--name", "k", "--agent", "claude")
	v.terminal("k")
	v.says(turnOne)
	v.says(turnTwo)
	v.says(turnThree)
	s.remembers(turnThree, 4, turnOne, turnTwo)
	v.tb.Wait(onScreen + `.includes('sum_test.go')`)
	v.shot("time-turns")
	v.stops("k")

	// Back to the second, with what the agent knew then.
	v.visit("/time?name=k")
	v.card("Before the turn “" + turnTwo)
	v.card("Before the turn “" + turnThree)
	v.shows("added sum_test.go")
	v.card("added sum_test.go")
	v.tb.Wait(`document.querySelector('.diff .add')`)
	v.shot("time-moment")
	v.key("r")
	v.yes()
	v.tb.Says("It is k@")
	if text := s.do(0, "diff", "k", "--name-only"); text != "sum.go\nsum_test.go\n" {
		t.Errorf("back at the second turn: %s", text)
	}

	// Three ways on from there.
	v.key("f")
	v.tb.Put(`dialog input[type=number]`, "3")
	v.tb.Put(`dialog input:not([type=number])`, turnFork)
	v.shot("time-fork")
	v.yes()
	v.tb.Says("Made: k-1, k-2, k-3.")
	s.ended(turnFork, 3)
	s.remembers(turnFork, 9, turnOne, turnTwo, "toolu_0_Write_a_test_of_Sum_0")
	for i, body := range s.api.bodies(turnFork) {
		if strings.Contains(body, turnThree) {
			t.Errorf("request %d of a fork tells of the turn that was taken back", i)
		}
	}
	v.stops("k-1", "k-2", "k-3")

	// The tests decide.
	v.visit("/time?name=k")
	v.key("v")
	v.tb.Wait(`document.querySelectorAll('dialog input[type=checkbox]:checked').length === 3`)
	v.tb.Put(`dialog label.field input`, "go test ./...")
	v.tb.Click(`dialog button.main`)
	v.tb.Wait(`document.querySelector('dialog table')`)
	runs := strings.Split(chromium.Eval[string](v.tb, `[...document.querySelectorAll('dialog .run .verdict')].map((v) => v.textContent).join()`), ",")
	slices.Sort(runs)
	if got := strings.Join(runs, ","); got != "failed,failed,ok" {
		t.Fatalf("of three forks the tests say %q", got)
	}
	v.shot("time-compare")
	at := chromium.Eval[int](v.tb, `[...document.querySelectorAll('dialog .run .verdict')].findIndex((v) => v.textContent === 'ok')`) + 1
	winner := "k-" + strconv.Itoa(at)
	if want := s.right(); winner != want {
		t.Fatalf("%s passed, want %s", winner, want)
	}

	// The winner goes into the project, and out of it again.
	chromium.Eval[bool](v.tb, `(document.querySelector('dialog button.show').focus(), true)`)
	v.tb.Press(strconv.Itoa(at))
	v.tb.Wait(`location.search === ` + chromium.Quoted("?name="+winner) + ` && !document.querySelector('dialog')`)
	v.shows("added sum.go")
	v.key("a")
	v.yes()
	v.tb.Says("Applied: ")
	if out := s.host("go", "test", "./..."); !strings.Contains(out, "ok") || !strings.Contains(read(t, s.project+"/sum.go"), theLast) {
		t.Errorf("what was applied: %s", out)
	}
	v.shows("Nothing is different.")
	v.shot("time-applied")
	v.key("u")
	v.yes()
	waitFor(t, "the undo", func() bool { return s.host("git", "status", "--short") == "" })
	v.visit("/now") // the page of a workspace that is discarded asks for it in vain
	for _, name := range []string{"k", "k-1", "k-2", "k-3"} {
		s.do(0, "discard", name)
	}
}
