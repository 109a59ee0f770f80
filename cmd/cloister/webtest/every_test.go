//go:build linux

package webtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostile is what an enemy would write into names, arguments and paths.
const hostile = `<img src=x onerror=alert(1)>"'&{{7*7}}`

// TestEveryPage walks through the window as a person does: every page, every
// button, with what real cloisters did.
func TestEveryPage(t *testing.T) {
	w, tb := newWorld(t), newTab(t, nil)
	c := tb.note()
	tb.open(w)
	tb.shot("now-empty")
	tb.Click(`.empty button`)
	tb.Says("Projects appear here once a cloister ran in them.")
	tb.Click(`dialog .acts button`)

	// A cloister with a terminal, and one that runs things.
	w.do("start", "--detach", "--name", "term", "--agent", "sh")
	run := w.begin("run", "--name", "box", "--", "sh", "-c", "curl -s http://up.example/a/path?q=1; curl -s http://no.example/; hostexec seq 3; hostexec tail -f Makefile; echo", hostile)
	tb.Wait(`document.querySelectorAll('tbody tr [aria-label="Terminal term"]').length === 1`)
	tb.Wait(`document.querySelectorAll('.spark rect').length > 0`)
	tb.shot("now")

	t.Run("commands", func(t *testing.T) {
		tb := tb.in(t)
		tb.goTo("h", "commands")
		tb.Says("seq 3")
		tb.Click(`.card[aria-pressed=false]`)
		tb.Wait(`[...document.querySelectorAll('.card')].some((c) => c.textContent.includes('tail -f Makefile'))`)
		eval[bool](tb, `[...document.querySelectorAll('.card')].find((c) => c.textContent.includes('tail -f')).click(), true`)
		tb.Wait(`document.querySelector('.output') && document.querySelector('.output').textContent.includes('echo built')`)
		f, err := os.OpenFile(filepath.Join(w.project, "Makefile"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("# " + hostile + " \x1b]0;owned\x07\u202e\n"); err != nil {
			t.Fatal(err)
		}
		f.Close()
		tb.Wait(`document.querySelector('.output').textContent.includes('onerror')`)
		tb.Says(`\x1b]0;owned\a\u202e`)
		tb.shot("commands")
		tb.axe("commands")
	})
	// It ends by the person's word, and a file that host programs obey changes.
	if err := os.WriteFile(filepath.Join(w.project, ".envrc"), []byte("export A=1\nexport PATH=./evil:$PATH\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("now", func(t *testing.T) {
		tb := tb.in(t)
		tb.goTo("n", "now")
		tb.Click(`[aria-label="Stop box"]`)
		tb.Says("Stop box? Its command ends; files stay.")
		tb.shot("now-stop")
		tb.Click(`dialog .acts button`)
		tb.Wait(`!document.querySelector('dialog')`)
		tb.Click(`[aria-label="Stop box"]`)
		tb.Click(`dialog button.deny`)
		run()
		tb.Says("Ended")
		tb.axe("now")
		tb.Click(`.head button`)
		tb.Says("Start a cloister")
		tb.Put(`dialog input[aria-label="Agent"]`, "sh")
		tb.shot("now-start")
		eval[bool](tb, `[...document.querySelectorAll('dialog button')].pop().click(), true`)
		tb.Says("Started project.") // as start does: it is the one that runs already
	})
	t.Run("traffic", func(t *testing.T) {
		tb := tb.in(t)
		tb.goTo("t", "traffic")
		tb.Says("GET up.example/a/path")
		eval[bool](tb, `[...document.querySelectorAll('.row')].find((r) => r.textContent.includes('no.example')).click(), true`)
		tb.Says("Show the rule")
		// What ends a connection has the rule that let it begin.
		eval[bool](tb, `[...document.querySelectorAll('.row')].find((r) => r.textContent.includes('up.example') && r.textContent.includes('closed')).click(), true`)
		tb.Wait(`document.querySelector('aside').textContent.includes('allow up.example (config.yaml:')`)
		eval[bool](tb, `[...document.querySelectorAll('.row')].find((r) => r.textContent.includes('no.example')).click(), true`)
		tb.shot("traffic")
		tb.axe("traffic")
		// From an event to its rule, on the line where it stands.
		eval[bool](tb, `[...document.querySelectorAll('.row')].find((r) => r.textContent.includes('no.example')).click(), true`)
		tb.Click(`aside a`)
		tb.Wait(`location.pathname === '/policy' && document.querySelector('textarea') && document.querySelector('textarea').value.includes('no.example')`)
		tb.Wait(`(() => { const a = document.querySelector('textarea'); return a.value.slice(a.selectionStart, a.selectionEnd).includes('no.example'); })()`)
		tb.Press("Escape")
		tb.goTo("t", "traffic")
		tb.Wait(`[...document.querySelectorAll('.row')].some((r) => r.textContent.includes('no.example'))`)
		eval[bool](tb, `[...document.querySelectorAll('.row')].find((r) => r.textContent.includes('no.example')).click(), true`)
		tb.Wait(`document.querySelector('aside a')`)
		// A draft rule, as a difference, checked, and saved.
		tb.Click(`aside [aria-label="Draft: allow it"]`)
		tb.Says("another rule weighs more")
		tb.Press("Escape")
		eval[bool](tb, `[...document.querySelectorAll('.row')].find((r) => r.textContent.includes('up.example')).click(), true`)
		tb.Wait(`document.querySelector('aside').textContent.includes('up.example')`)
		before, err := os.ReadFile(w.path("c/cloister/config.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		tb.Click(`aside [aria-label="Draft: deny it"]`)
		tb.Wait(`document.querySelector('dialog .diff .add')`)
		tb.shot("traffic-draft")
		tb.axe("traffic-draft")
		tb.Press("Escape")
		if now, err := os.ReadFile(w.path("c/cloister/config.yaml")); err != nil || string(now) != string(before) {
			t.Fatalf("a draft that nobody saved was written: %v", err)
		}
		tb.Click(`aside [aria-label="Draft: deny it"]`)
		tb.Click(`dialog button.main`)
		tb.Says("Saved and in force.")
		if now, err := os.ReadFile(w.path("c/cloister/config.yaml")); err != nil || !strings.Contains(string(now), "- {domain: up.example") || !strings.Contains(string(now), "# the server of the test") {
			t.Fatalf("config.yaml is %s, %v", now, err)
		}
		if out := w.begin("run", "--", "curl", "-s", "http://up.example/")(); strings.Contains(out, "hello") {
			t.Errorf("the rule is not in force: %s", out)
		}
		// By host, with what was refused.
		tb.Click(`.hosts summary`)
		tb.Click(`.hosts summary`)
		tb.Wait(`[...document.querySelectorAll('.hosts tbody tr')].some((r) => r.textContent.includes('no.example') && r.querySelector('.deny'))`)
		eval[bool](tb, `[...document.querySelectorAll('.hosts button')].find((b) => b.textContent === 'up.example').click(), true`)
		tb.Wait(`document.querySelector('input[type=search]').value === 'up.example' && document.querySelectorAll('.row').length > 0 && [...document.querySelectorAll('.row')].every((r) => r.textContent.includes('up.example'))`)
		// Filters, search, keys.
		tb.Put(`input[type=search]`, "no.example")
		tb.Wait(`document.querySelectorAll('.row').length > 0 && [...document.querySelectorAll('.row')].every((r) => r.textContent.includes('no.example'))`)
		tb.Put(`input[type=search]`, "nothing has this")
		tb.Says("Nothing fits.")
		tb.Put(`input[type=search]`, "")
		tb.Wait(`document.querySelectorAll('.row').length > 3`)
		eval[bool](tb, `(() => { const s = document.querySelector('select[aria-label="Verdict"]'); s.value = 'deny'; s.dispatchEvent(new Event('change')); return true; })()`)
		tb.Wait(`document.querySelectorAll('.row').length > 0 && [...document.querySelectorAll('.row')].every((r) => r.querySelector('.deny'))`)
		eval[bool](tb, `document.querySelector('.virtual').focus(), true`)
		tb.Press("ArrowDown", "ArrowDown", "ArrowUp")
		tb.Wait(`document.querySelectorAll('.row.chosen').length === 1`)
	})
	t.Run("policy", func(t *testing.T) { policyPage(t, w, tb.in(t)) })
	t.Run("files", func(t *testing.T) {
		tb := tb.in(t)
		tb.goTo("f", "files")
		tb.Says(".envrc")
		tb.Click(`.card`)
		tb.Wait(`document.querySelector('.diff .add')`)
		tb.Says("export PATH=./evil:$PATH")
		tb.shot("files")
		tb.axe("files")
	})
	t.Run("audit", func(t *testing.T) {
		tb := tb.in(t)
		tb.goTo("r", "audit")
		tb.Says("guardian.start")
		tb.Click(`.head button`)
		tb.Says("unbroken")
		tb.Click(`.row`)
		tb.shot("audit")
		tb.axe("audit")
		size := eval[int](tb, `ours('./api.js').then((m) => m.request('GET', '/v1/audit/export?kind=session.stop')).then((r) => r.text()).then((x) => x.trim().split('\n').filter((l) => JSON.parse(l).hash).length)`)
		if size < 1 {
			t.Errorf("the export has %d records", size)
		}
	})
	t.Run("secrets", func(t *testing.T) {
		tb := tb.in(t)
		tb.goTo("s", "secrets")
		tb.Says("Values are never shown here.")
		tb.shot("secrets")
		tb.axe("secrets")
	})
	t.Run("tools", func(t *testing.T) {
		tb := tb.in(t)
		tb.goTo("m", "tools")
		tb.Wait(`document.querySelector('h1').textContent === 'Tools'`)
		tb.shot("tools-none")
		tb.axe("tools-none")
		tb.Click(`.empty a`)
		tb.Wait(`location.pathname === '/policy' && document.querySelector('textarea')`)
		tb.Press("Escape")
	})
	t.Run("doctor", func(t *testing.T) {
		tb := tb.in(t)
		tb.goTo("d", "doctor")
		tb.Says("Isolation native")
		tb.shot("doctor")
		tb.axe("doctor")
		tb.Click(`.head button`)
		tb.Says("Isolation native")
	})
	t.Run("terminal", func(t *testing.T) {
		tb := tb.in(t)
		tb.goTo("n", "now")
		tb.Click(`[aria-label="Terminal term"]`)
		tb.Says("Terminal of term")
		tb.Wait(`window.cloisterTerminal`)
		tb.Wait(`document.querySelector('.terminal textarea') === document.activeElement`)
		tb.Press(strings.Split("echo $((6*7))-answer", "")...)
		tb.Press("Enter")
		tb.Wait(`(() => { const b = cloisterTerminal.buffer.active; for (let i = 0; i < b.length; i++) if (b.getLine(i).translateToString().startsWith('42-answer')) return true; })()`)
		tb.shot("terminal")
		tb.axe("terminal")
		// The guardian goes away under it: the session lives, and is attached again.
		tb.Expect("net::ERR", "responded with a status of 401", "WebSocket connection")
		w.do("guardian", "stop")
		tb.Says("The connection broke.")
		w.do("guardian", "start")
		tb.Wait(`document.getElementById('banner').hidden`)
		eventually(t, "the session is there again", func() bool { return strings.Contains(w.do("list"), "term") })
		tb.Click(`main .head button`)
		tb.Wait(`document.querySelector('.terminal textarea') === document.activeElement`)
		tb.Press(strings.Split("echo $((6*7))-again", "")...)
		tb.Press("Enter")
		tb.Wait(`(() => { const b = cloisterTerminal.buffer.active; for (let i = 0; i < b.length; i++) if (b.getLine(i).translateToString().startsWith('42-again')) return true; })()`)
		tb.Press(strings.Split("exit", "")...)
		tb.Press("Enter")
		if above := eval[int](tb, `cloisterTerminal.buffer.active.baseY`); above != 0 {
			t.Errorf("%d lines of nothing are above the screen", above)
		}
		tb.Says("It has ended.")
		tb.Click(`a[href="/now"].button`)
		tb.Wait(`[...document.querySelectorAll('button')].some((b) => b.textContent === 'Start again')`)
		tb.Click(`[aria-label="Start again term"]`)
		tb.Wait(`document.querySelector('[aria-label^="Terminal"]:not([hidden])')`)
	})
	t.Run("the rest", func(t *testing.T) { theRest(tb.in(t)) })
	t.Run("asks", func(t *testing.T) { answerAll(w, tb.in(t)) })
	var scripts map[string]string
	t.Run("settings", func(t *testing.T) {
		tb := tb.in(t)
		tb.Press("?")
		tb.Says("Keys")
		tb.shot("keys")
		tb.axe("keys")
		tb.Press("Escape")
		tb.Click(`#tools button`)
		tb.Says("A sound for each ask")
		tb.axe("settings")
		eval[bool](tb, `[...document.querySelectorAll('dialog .group button')].find((b) => b.textContent === 'dark').click(), true`)
		tb.Wait(`document.documentElement.dataset.theme === 'dark'`)
		eval[bool](tb, `[...document.querySelectorAll('dialog .group button')].find((b) => b.textContent === 'as the desktop').click(), true`)
		tb.Click(`dialog input[type=checkbox]`)
		tb.Click(`dialog input[type=checkbox]`)
		tb.Press("Escape")
		// Phone width: nothing is wider than the screen.
		tb.Size(390, 780)
		for _, page := range []string{"now", "asks", "traffic", "commands", "files", "tools", "secrets", "policy", "audit", "doctor"} {
			tb.visit("/" + page)
			tb.Wait(`document.title.includes('Cloister')`)
			if wide := eval[int](tb, `document.documentElement.scrollWidth`); wide > 390 {
				t.Errorf("%s is %d wide on a phone", page, wide)
			}
			tb.shot(page + "-phone")
		}
		tb.Size(1180, 760)
		scripts = tb.scripts("/main.js", "/above.js", "/events.js", "/list.js", "/draft.js", "/editor.js", "/pages/now.js", "/pages/asks.js", "/pages/traffic.js", "/pages/commands.js",
			"/pages/files.js", "/pages/policy.js", "/pages/audit.js", "/pages/doctor.js", "/pages/terminal.js")
		tb.Click(`#tools button`)
		tb.Expect("responded with a status of 401")
		tb.Click(`dialog button.deny`)
		tb.Says("This browser is not known here.")
		tb.shot("login")
		tb.axe("login")
	})
	// Time, Tools and Secrets have a test of their own, with something on them.
	c.everyMaker(t, scripts)
	c.onPages(t, "frame", "now", "asks", "traffic", "host commands", "files", "policy", "audit", "doctor", "terminal")
}

// policyPage writes, breaks, mends and saves policy.
func policyPage(t *testing.T, w *world, tb *tab) {
	tb.Expect("status of 409") // of a file that somebody else wrote
	tb.visit("/policy?file=config.yaml")
	tb.Wait(`document.querySelector('textarea') && document.querySelector('textarea').value.includes('up.example')`)
	good := eval[string](tb, `document.querySelector('textarea').value`)
	file := w.path("c/cloister/config.yaml")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// What does not parse: line and column, and nothing saved.
	tb.Put(`textarea`, good+"hostexcc: {}\n")
	tb.Says("1 problem. Nothing is saved.")
	tb.Says("hostexec")
	tb.Wait(`document.querySelector('.gutter .bad')`)
	tb.shot("policy-problem")
	tb.axe("policy-problem")
	tb.Click(`button.main`)
	tb.Click(`.problems button`)
	tb.Wait(`document.activeElement === document.querySelector('textarea')`)
	line := eval[int](tb, `document.querySelector('textarea').value.slice(0, document.querySelector('textarea').selectionStart).split('\n').length`)
	if want := strings.Count(good, "\n") + 1; line != want {
		t.Errorf("the problem leads to line %d, want %d", line, want)
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != string(before) {
		t.Fatalf("what does not parse was saved: %v", err)
	}
	// Completion from the schema and from what was seen.
	tb.Put(`textarea`, good+"defaults:\n")
	eval[bool](tb, `(() => { const a = document.querySelector('textarea'); a.setSelectionRange(a.value.length, a.value.length); return true; })()`)
	tb.Do("Input.insertText", map[string]any{"text": "  mo"})
	tb.Wait(`!document.querySelector('.choices').hidden`)
	tb.Press("Enter")
	tb.Do("Input.insertText", map[string]any{"text": "sh"})
	tb.Wait(`!document.querySelector('.choices').hidden`)
	tb.Wait(`!document.body.innerText.includes('hostexcc')`)
	tb.shot("policy-completion")
	tb.Press("Tab")
	if got := eval[string](tb, `document.querySelector('textarea').value`); !strings.HasSuffix(got, "defaults:\n  mode: shadow") {
		t.Errorf("completed: %q", got[len(good):])
	}
	tb.Says("Good. Changed, not saved.")
	tb.Click(`button.main`)
	tb.Wait(`document.querySelector('dialog .diff .add')`)
	tb.shot("policy-diff")
	tb.axe("policy-diff")
	tb.Click(`dialog button.main`)
	tb.Says("Saved and in force.")
	// Somebody else wrote meanwhile: nothing is written over.
	tb.Wait(`document.querySelector('textarea').value.includes('mode: shadow')`)
	if err := os.WriteFile(file, before, 0o600); err != nil {
		t.Fatal(err)
	}
	tb.Put(`textarea`, good+"# mine\n")
	tb.Says("Good. Changed, not saved.")
	tb.Click(`button.main`)
	tb.Click(`dialog button.main`)
	tb.Says("it has changed meanwhile")
	if now, err := os.ReadFile(file); err != nil || string(now) != string(before) {
		t.Fatalf("it was written over: %v", err)
	}
	// A new Cedar file with a mistake, then without.
	eval[bool](tb, `[...document.querySelectorAll('.head button')].find((b) => b.textContent === 'New Cedar file…').click(), true`)
	tb.Click(`dialog button.deny`)
	tb.Put(`dialog input`, "extra")
	tb.Click(`dialog button.main`)
	tb.Wait(`document.querySelector('textarea').value === ''`)
	tb.Put(`textarea`, "forbid(principal, action == Action::\"NetworkConnect\", resource == Host::\"evil.example\")")
	tb.Wait(`document.querySelector('.problems li')`)
	tb.Put(`textarea`, "forbid(principal, action == Action::\"NetworkConnect\", resource == Host::\"evil.example\");\n")
	tb.Says("Good. Changed, not saved.")
	tb.Click(`button.main`)
	tb.Click(`dialog button.main`)
	tb.Wait(`[...document.querySelectorAll('main [role=status]')].some((e) => e.textContent === 'Good.')`)
	eventually(t, "the file is there", func() bool { _, err := os.Stat(w.path("c/cloister/policy/extra.cedar")); return err == nil })
	tb.Wait(`[...document.querySelectorAll('.head .group button')].some((b) => b.textContent === 'policy/extra.cedar')`)
	// What is in force, and the last good one.
	eval[bool](tb, `[...document.querySelectorAll('.head .group button')][0].click(), true`)
	tb.Says("evil.example")
	tb.shot("policy")
	tb.axe("policy")
	w.write("c/cloister/policy/extra.cedar", "forbid(")
	cmd := w.command("guardian", "reload")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("a broken file loads: %s", out)
	}
	tb.visit("/policy")
	tb.Says("the last good")
	tb.shot("policy-last-good")
	if err := os.Remove(w.path("c/cloister/policy/extra.cedar")); err != nil {
		t.Fatal(err)
	}
	w.do("guardian", "reload")
	tb.visit("/policy")
	tb.Wait(`document.getElementById('banner').hidden`)
}

// theRest uses the controls that the walk went by.
func theRest(tb *tab) {
	tb.t.Helper()
	tb.Do("Page.setDownloadBehavior", map[string]any{"behavior": "deny"})
	cancel := func() {
		tb.t.Helper()
		tb.Click(`dialog .acts button`)
		tb.Wait(`!document.querySelector('dialog')`)
	}
	to := func(page string) {
		tb.t.Helper()
		// The page before may have the same name, and other filters.
		eval[bool](tb, `document.querySelector('h1').dataset.before = '', true`)
		tb.Click(`#nav a[href="/` + page + `"]`)
		tb.Wait(`location.pathname === '/` + page + `' && !document.querySelector('h1[data-before]') && document.querySelector('#nav a[href="/` + page + `"][aria-current]') && document.querySelector('h1')`)
	}
	for _, page := range []string{"files", "time", "tools", "secrets", "doctor"} {
		to(page)
	}
	tb.Click(`.brand`)
	tb.Wait(`document.querySelector('h1').textContent === 'Now'`)
	eval[bool](tb, `document.querySelector('.skip').focus(), true`)
	tb.Press("Enter")
	tb.Wait(`location.hash === '#main'`)
	to("now")
	tb.Click(`.head button`)
	tb.choose(`dialog select`, 0)
	tb.Put(`dialog input[aria-label^="Branch"]`, "b")
	cancel()
	tb.Click(`#tools button + button`)
	cancel()
	tb.Click(`#tools button`)
	tb.Click(`dialog .group button:nth-child(2)`)
	tb.Wait(`document.documentElement.dataset.theme === 'light'`)
	tb.Click(`dialog .group button:nth-child(1)`)
	tb.Click(`dialog label:last-of-type input`)
	tb.Click(`dialog .acts button.main`)
	tb.Wait(`!document.querySelector('dialog')`)

	to("asks")
	for _, scope := range []string{"session", "project", "global", "once"} {
		tb.Click(`[data-scope=` + scope + `]`)
	}
	tb.Put(`input[type=search]`, "nothing")
	tb.Put(`input[type=search]`, "")

	to("commands")
	tb.Click(`.head a`)
	tb.Wait(`location.pathname === '/audit' && document.querySelectorAll('.row').length > 0 && [...document.querySelectorAll('.row')].every((r) => r.textContent.includes('hostexec.request'))`)
	to("audit")
	useFilters(tb, "guardian.start")
	tb.Click(`.row`)
	tb.Click(`aside summary`)
	tb.Click(`aside .close`)
	tb.Click(`.head button + button`)
	tb.Says("Exported.")

	to("traffic")
	useFilters(tb, "up.example")
	tb.Click(`.row`)
	tb.Click(`aside summary`)
	tb.Click(`aside [aria-label="Draft: ask for it"]`)
	tb.Wait(`document.querySelector('dialog .diff')`)
	cancel()
	tb.Click(`aside .close`)

	to("policy")
	tb.Wait(`document.querySelector('details')`)
	tb.choose(`select`, 1)
	tb.choose(`select`, 0)
	tb.Click(`.head .group button:nth-child(2)`)
	tb.Wait(`document.querySelector('textarea') && document.querySelector('textarea').value.includes('up.example')`)
	tb.Press("Escape")
	tb.Click(`.head .group button:nth-child(1)`)
	tb.Wait(`document.querySelector('details')`)
	tb.Click(`summary`)
	tb.Click(`summary`)
	tb.Click(`.rule a`)
	tb.Wait(`document.querySelector('textarea') && document.querySelector('textarea').value.includes('up.example')`)
	tb.Click(`main > .stack > .head button`) // Check
	tb.Says("Good.")
	eval[bool](tb, `(() => { const a = document.querySelector('textarea'); a.focus(); a.setSelectionRange(a.value.length, a.value.length); return true; })()`)
	tb.Do("Input.insertText", map[string]any{"text": "secr"})
	tb.Click(`.choices li`)
	tb.Wait(`document.querySelector('textarea').value.endsWith('secrets: ')`)
	tb.Click(`.group button`) // another file, with this one changed
	tb.Says("Leave without saving?")
	cancel()
	tb.Click(`main > .stack > .head button:nth-child(2)`) // Back to the file
	tb.Wait(`!document.querySelector('textarea').value.endsWith('secrets: ')`)
	eval[bool](tb, `(() => { const a = document.querySelector('textarea'); a.focus(); a.setSelectionRange(0, 0); return true; })()`)
	tb.Do("Input.insertText", map[string]any{"text": "# x\n"})
	tb.Says("Good. Changed, not saved.")
	tb.Click(`main > .stack > .head button.main`)
	tb.Says("Save and put in force?")
	cancel()
	tb.Click(`main > .stack > .head button:nth-child(2)`)
	tb.Click(`.head > button`) // New Cedar file
	tb.Wait(`document.querySelector('dialog')`)
	cancel()
}
