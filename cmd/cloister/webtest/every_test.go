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
	tb.open(w)
	tb.shot("now-empty")

	// A cloister with a terminal, and one that runs things.
	w.do("start", "--detach", "--name", "term", "--agent", "sh")
	run := w.begin("run", "--name", "box", "--", "sh", "-c", "curl -s http://up.example/a/path?q=1; curl -s http://no.example/; hostexec seq 3; hostexec tail -f Makefile; echo", hostile)
	tb.wait(`document.querySelectorAll('tbody tr [aria-label="Terminal term"]').length === 1`)
	tb.wait(`document.querySelectorAll('.spark rect').length > 0`)
	tb.shot("now")

	t.Run("commands", func(t *testing.T) {
		tb := tb.in(t)
		tb.press("g", "h")
		tb.says("seq 3")
		tb.click(`.card[aria-pressed=false]`)
		tb.wait(`[...document.querySelectorAll('.card')].some((c) => c.textContent.includes('tail -f Makefile'))`)
		eval[bool](tb, `[...document.querySelectorAll('.card')].find((c) => c.textContent.includes('tail -f')).click(), true`)
		tb.wait(`document.querySelector('.output') && document.querySelector('.output').textContent.includes('echo built')`)
		f, err := os.OpenFile(filepath.Join(w.project, "Makefile"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("# " + hostile + " \x1b]0;owned\x07\u202e\n"); err != nil {
			t.Fatal(err)
		}
		f.Close()
		tb.wait(`document.querySelector('.output').textContent.includes('onerror')`)
		tb.says(`\x1b]0;owned\a\u202e`)
		tb.shot("commands")
		tb.axe("commands")
	})
	// It ends by the person's word, and a file that host programs obey changes.
	if err := os.WriteFile(filepath.Join(w.project, ".envrc"), []byte("export A=1\nexport PATH=./evil:$PATH\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("now", func(t *testing.T) {
		tb := tb.in(t)
		tb.press("g", "n")
		tb.click(`[aria-label="Stop box"]`)
		tb.says("Stop box? Its command ends; files stay.")
		tb.shot("now-stop")
		tb.press("Escape")
		tb.wait(`!document.querySelector('dialog')`)
		tb.click(`[aria-label="Stop box"]`)
		tb.click(`dialog button.deny`)
		run()
		tb.says("Ended")
		tb.axe("now")
		tb.click(`.head button`)
		tb.says("Start a cloister")
		tb.put(`dialog input[aria-label="Agent"]`, "sh")
		tb.shot("now-start")
		eval[bool](tb, `[...document.querySelectorAll('dialog button')].pop().click(), true`)
		tb.says("Started project.") // as start does: it is the one that runs already
	})
	t.Run("traffic", func(t *testing.T) {
		tb := tb.in(t)
		tb.press("g", "t")
		tb.says("GET up.example/a/path")
		eval[bool](tb, `[...document.querySelectorAll('.row')].find((r) => r.textContent.includes('no.example')).click(), true`)
		tb.says("Show the rule")
		tb.shot("traffic")
		tb.axe("traffic")
		// From an event to its rule, on the line where it stands.
		eval[bool](tb, `[...document.querySelectorAll('.row')].find((r) => r.textContent.includes('no.example')).click(), true`)
		tb.click(`aside a`)
		tb.wait(`location.pathname === '/policy' && document.querySelector('textarea') && document.querySelector('textarea').value.includes('no.example')`)
		tb.wait(`(() => { const a = document.querySelector('textarea'); return a.value.slice(a.selectionStart, a.selectionEnd).includes('no.example'); })()`)
		tb.press("Escape", "g", "t")
		tb.wait(`[...document.querySelectorAll('.row')].some((r) => r.textContent.includes('no.example'))`)
		eval[bool](tb, `[...document.querySelectorAll('.row')].find((r) => r.textContent.includes('no.example')).click(), true`)
		tb.wait(`document.querySelector('aside a')`)
		// A draft rule, as a difference, checked, and saved.
		eval[bool](tb, `[...document.querySelectorAll('aside button')].find((b) => b.textContent === 'Draft: allow it').click(), true`)
		tb.says("another rule weighs more")
		tb.press("Escape")
		eval[bool](tb, `[...document.querySelectorAll('.row')].find((r) => r.textContent.includes('up.example')).click(), true`)
		tb.wait(`document.querySelector('aside').textContent.includes('up.example')`)
		before, err := os.ReadFile(w.path("c/cloister/config.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		eval[bool](tb, `[...document.querySelectorAll('aside button')].find((b) => b.textContent === 'Draft: deny it').click(), true`)
		tb.wait(`document.querySelector('dialog .diff .add')`)
		tb.shot("traffic-draft")
		tb.axe("traffic-draft")
		tb.press("Escape")
		if now, err := os.ReadFile(w.path("c/cloister/config.yaml")); err != nil || string(now) != string(before) {
			t.Fatalf("a draft that nobody saved was written: %v", err)
		}
		eval[bool](tb, `[...document.querySelectorAll('aside button')].find((b) => b.textContent === 'Draft: deny it').click(), true`)
		tb.click(`dialog button.main`)
		tb.says("Saved and in force.")
		if now, err := os.ReadFile(w.path("c/cloister/config.yaml")); err != nil || !strings.Contains(string(now), "- {domain: up.example") || !strings.Contains(string(now), "# the server of the test") {
			t.Fatalf("config.yaml is %s, %v", now, err)
		}
		if out := w.begin("run", "--", "curl", "-s", "http://up.example/")(); strings.Contains(out, "hello") {
			t.Errorf("the rule is not in force: %s", out)
		}
		// Filters, search, keys.
		tb.put(`input[type=search]`, "no.example")
		tb.wait(`document.querySelectorAll('.row').length > 0 && [...document.querySelectorAll('.row')].every((r) => r.textContent.includes('no.example'))`)
		tb.put(`input[type=search]`, "nothing has this")
		tb.says("Nothing fits.")
		tb.put(`input[type=search]`, "")
		tb.wait(`document.querySelectorAll('.row').length > 3`)
		eval[bool](tb, `(() => { const s = document.querySelector('select[aria-label="Verdict"]'); s.value = 'deny'; s.dispatchEvent(new Event('change')); return true; })()`)
		tb.wait(`document.querySelectorAll('.row').length > 0 && [...document.querySelectorAll('.row')].every((r) => r.querySelector('.deny'))`)
		eval[bool](tb, `document.querySelector('.virtual').focus(), true`)
		tb.press("ArrowDown", "ArrowDown", "ArrowUp")
		tb.wait(`document.querySelectorAll('.row.chosen').length === 1`)
	})
	t.Run("policy", func(t *testing.T) { policyPage(t, w, tb.in(t)) })
	t.Run("files", func(t *testing.T) {
		tb := tb.in(t)
		tb.press("g", "f")
		tb.says(".envrc")
		tb.click(`.card`)
		tb.wait(`document.querySelector('.diff .add')`)
		tb.says("export PATH=./evil:$PATH")
		tb.shot("files")
		tb.axe("files")
	})
	t.Run("audit", func(t *testing.T) {
		tb := tb.in(t)
		tb.press("g", "r")
		tb.says("guardian.start")
		tb.click(`.head button`)
		tb.says("unbroken")
		tb.click(`.row`)
		tb.shot("audit")
		tb.axe("audit")
		size := eval[int](tb, `import('/api.js').then((m) => m.request('GET', '/v1/audit/export?kind=session.stop')).then((r) => r.text()).then((x) => x.trim().split('\n').filter((l) => JSON.parse(l).hash).length)`)
		if size < 1 {
			t.Errorf("the export has %d records", size)
		}
	})
	t.Run("secrets", func(t *testing.T) {
		tb := tb.in(t)
		tb.press("g", "s")
		tb.says("Values are never shown here.")
		tb.shot("secrets")
		tb.axe("secrets")
	})
	t.Run("tools", func(t *testing.T) {
		tb := tb.in(t)
		tb.press("g", "m")
		tb.wait(`document.querySelector('h1').textContent === 'Tools'`)
		tb.shot("tools")
		tb.axe("tools")
	})
	t.Run("doctor", func(t *testing.T) {
		tb := tb.in(t)
		tb.press("g", "d")
		tb.says("Isolation native")
		tb.shot("doctor")
		tb.axe("doctor")
		tb.click(`.head button`)
		tb.says("Isolation native")
	})
	t.Run("terminal", func(t *testing.T) {
		tb := tb.in(t)
		tb.press("g", "n")
		tb.click(`[aria-label="Terminal term"]`)
		tb.says("Terminal of term")
		tb.wait(`window.cloisterTerminal`)
		tb.wait(`document.querySelector('.terminal textarea') === document.activeElement`)
		tb.press(strings.Split("echo $((6*7))-answer", "")...)
		tb.press("Enter")
		tb.wait(`(() => { const b = cloisterTerminal.buffer.active; for (let i = 0; i < b.length; i++) if (b.getLine(i).translateToString().startsWith('42-answer')) return true; })()`)
		tb.shot("terminal")
		tb.axe("terminal")
		tb.press(strings.Split("exit", "")...)
		tb.press("Enter")
		tb.says("It has ended.")
		tb.click(`a[href="/now"].button`)
		tb.wait(`[...document.querySelectorAll('button')].some((b) => b.textContent === 'Start again')`)
		tb.click(`[aria-label="Start again term"]`)
		tb.wait(`document.querySelector('[aria-label^="Terminal"]:not([hidden])')`)
	})
	t.Run("settings", func(t *testing.T) {
		tb := tb.in(t)
		tb.press("?")
		tb.says("Keys")
		tb.shot("keys")
		tb.axe("keys")
		tb.press("Escape")
		tb.click(`#tools button`)
		tb.says("A sound for each ask")
		tb.axe("settings")
		eval[bool](tb, `[...document.querySelectorAll('dialog .group button')].find((b) => b.textContent === 'dark').click(), true`)
		tb.wait(`document.documentElement.dataset.theme === 'dark'`)
		eval[bool](tb, `[...document.querySelectorAll('dialog .group button')].find((b) => b.textContent === 'as the desktop').click(), true`)
		tb.click(`dialog input[type=checkbox]`)
		tb.click(`dialog input[type=checkbox]`)
		tb.press("Escape")
		// Phone width: nothing is wider than the screen.
		tb.size(390, 780)
		for _, page := range []string{"now", "asks", "traffic", "commands", "files", "tools", "secrets", "policy", "audit", "doctor"} {
			tb.visit("/" + page)
			tb.wait(`document.title.includes('Cloister')`)
			if wide := eval[int](tb, `document.documentElement.scrollWidth`); wide > 390 {
				t.Errorf("%s is %d wide on a phone", page, wide)
			}
			if page == "asks" || page == "traffic" {
				tb.shot(page + "-phone")
			}
		}
		tb.size(1180, 760)
		tb.click(`#tools button`)
		tb.expect("responded with a status of 401")
		tb.click(`dialog button.deny`)
		tb.says("This browser is not known here.")
		tb.shot("login")
		tb.axe("login")
	})
}

// policyPage writes, breaks, mends and saves policy.
func policyPage(t *testing.T, w *world, tb *tab) {
	tb.expect("status of 409") // of a file that somebody else wrote
	tb.visit("/policy?file=config.yaml")
	tb.wait(`document.querySelector('textarea') && document.querySelector('textarea').value.includes('up.example')`)
	good := eval[string](tb, `document.querySelector('textarea').value`)
	file := w.path("c/cloister/config.yaml")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// What does not parse: line and column, and nothing saved.
	tb.put(`textarea`, good+"hostexcc: {}\n")
	tb.says("1 problem. Nothing is saved.")
	tb.says("hostexec")
	tb.wait(`document.querySelector('.gutter .bad')`)
	tb.shot("policy-problem")
	tb.axe("policy-problem")
	tb.click(`button.main`)
	tb.click(`.problems button`)
	tb.wait(`document.activeElement === document.querySelector('textarea')`)
	line := eval[int](tb, `document.querySelector('textarea').value.slice(0, document.querySelector('textarea').selectionStart).split('\n').length`)
	if want := strings.Count(good, "\n") + 1; line != want {
		t.Errorf("the problem leads to line %d, want %d", line, want)
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != string(before) {
		t.Fatalf("what does not parse was saved: %v", err)
	}
	// Completion from the schema and from what was seen.
	tb.put(`textarea`, good+"defaults:\n")
	eval[bool](tb, `(() => { const a = document.querySelector('textarea'); a.setSelectionRange(a.value.length, a.value.length); return true; })()`)
	tb.do("Input.insertText", map[string]any{"text": "  mo"})
	tb.wait(`!document.querySelector('.choices').hidden`)
	tb.press("Enter")
	tb.do("Input.insertText", map[string]any{"text": "sh"})
	tb.wait(`!document.querySelector('.choices').hidden`)
	tb.shot("policy-completion")
	tb.press("Tab")
	if got := eval[string](tb, `document.querySelector('textarea').value`); !strings.HasSuffix(got, "defaults:\n  mode: shadow") {
		t.Errorf("completed: %q", got[len(good):])
	}
	tb.says("Good. Changed, not saved.")
	tb.click(`button.main`)
	tb.wait(`document.querySelector('dialog .diff .add')`)
	tb.shot("policy-diff")
	tb.axe("policy-diff")
	tb.click(`dialog button.main`)
	tb.says("Saved and in force.")
	// Somebody else wrote meanwhile: nothing is written over.
	tb.wait(`document.querySelector('textarea').value.includes('mode: shadow')`)
	if err := os.WriteFile(file, before, 0o600); err != nil {
		t.Fatal(err)
	}
	tb.put(`textarea`, good+"# mine\n")
	tb.says("Good. Changed, not saved.")
	tb.click(`button.main`)
	tb.click(`dialog button.main`)
	tb.says("it has changed meanwhile")
	if now, err := os.ReadFile(file); err != nil || string(now) != string(before) {
		t.Fatalf("it was written over: %v", err)
	}
	// A new Cedar file with a mistake, then without.
	eval[bool](tb, `[...document.querySelectorAll('.head button')].find((b) => b.textContent === 'New Cedar file…').click(), true`)
	tb.click(`dialog button.deny`)
	tb.put(`dialog input`, "extra")
	tb.click(`dialog button.main`)
	tb.wait(`document.querySelector('textarea').value === ''`)
	tb.put(`textarea`, "forbid(principal, action == Action::\"NetworkConnect\", resource == Host::\"evil.example\")")
	tb.wait(`document.querySelector('.problems li')`)
	tb.put(`textarea`, "forbid(principal, action == Action::\"NetworkConnect\", resource == Host::\"evil.example\");\n")
	tb.says("Good. Changed, not saved.")
	tb.click(`button.main`)
	tb.click(`dialog button.main`)
	tb.wait(`[...document.querySelectorAll('main [role=status]')].some((e) => e.textContent === 'Good.')`)
	eventually(t, "the file is there", func() bool { _, err := os.Stat(w.path("c/cloister/policy/extra.cedar")); return err == nil })
	tb.wait(`[...document.querySelectorAll('.head .group button')].some((b) => b.textContent === 'policy/extra.cedar')`)
	// What is in force, and the last good one.
	eval[bool](tb, `[...document.querySelectorAll('.head .group button')][0].click(), true`)
	tb.says("evil.example")
	tb.shot("policy")
	tb.axe("policy")
	w.write("c/cloister/policy/extra.cedar", "forbid(")
	cmd := w.command("guardian", "reload")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("a broken file loads: %s", out)
	}
	tb.visit("/policy")
	tb.says("the last good")
	tb.shot("policy-last-good")
	if err := os.Remove(w.path("c/cloister/policy/extra.cedar")); err != nil {
		t.Fatal(err)
	}
	w.do("guardian", "reload")
	tb.visit("/policy")
	tb.wait(`document.getElementById('banner').hidden`)
}
