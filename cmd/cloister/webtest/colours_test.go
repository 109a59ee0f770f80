//go:build linux

package webtest

import (
	"strings"
	"testing"
)

// inColours is each piece of the editor's text that is drawn in a colour: CLASS TEXT, a
// line each.
const inColours = `[...document.querySelectorAll('.editor .colours span')].map((e) => e.className + ' ' + e.textContent).join('\n')`

// TestColours is the editor's text as it is seen: every letter of it where the textarea has
// it, in the colours of YAML and of Cedar, in both themes, and drawn anew where it changes.
func TestColours(t *testing.T) {
	w := newWorld(t)
	// A text of an attacker's is text.
	w.write("c/cloister/policy/mine.cedar", "// no <b>way</b> out\n@id(\"shut\")\nforbid(principal, action == Action::\"NetworkConnect\", "+
		"resource == Host::\"evil.example\") when { context.port == 80 };\npermit (principal, action == Action::\"FileOpen\", resource);\n")
	tb := newTab(t, nil)
	tb.Navigate(w.link())
	tb.Wait(`location.pathname === '/now'`)
	same := func(what string) {
		t.Helper()
		tb.Wait(`[...document.querySelectorAll('.editor .colours div div')].map((e) => e.textContent).join('\n') === document.querySelector('textarea').value`)
		// The two lie on each other, and are moved together.
		for _, to := range []int{0, 60} {
			js := `(() => { const a = document.querySelector('textarea'), d = document.querySelector('.colours div');
				a.scrollTop = ` + []string{"0", "1e6"}[min(to, 1)] + `; a.dispatchEvent(new Event('scroll'));
				const style = getComputedStyle(a), r = a.getBoundingClientRect(), b = d.getBoundingClientRect();
				return Math.abs(r.top + parseFloat(style.paddingTop) + parseFloat(style.borderTopWidth) - a.scrollTop - b.top)
					+ Math.abs(r.left + parseFloat(style.paddingLeft) + parseFloat(style.borderLeftWidth) - a.scrollLeft - b.left); })()`
			if off := eval[float64](tb, js); off > 1 {
				t.Errorf("%s: colours and text lie %v points apart", what, off)
			}
		}
	}
	holds := func(what string, pieces ...string) {
		t.Helper()
		got := "\n" + eval[string](tb, inColours) + "\n"
		for _, p := range pieces {
			if !strings.Contains(got, "\n"+p+"\n") {
				t.Errorf("%s: no %q in %s", what, p, got)
			}
		}
	}
	tb.visit("/policy?file=policy/mine.cedar")
	tb.Wait(`document.querySelector('textarea') && document.querySelector('textarea').value.includes('evil.example')`)
	same("Cedar")
	holds("Cedar", "comment // no <b>way</b> out", "key @id", `string "shut"`, "forbid forbid", "permit permit", "value principal",
		"key Action", `string "evil.example"`, "value when", "value context", "value 80")
	if eval[bool](tb, `Boolean(document.querySelector('.colours b'))`) {
		t.Error("a text became markup")
	}
	tb.axe("policy-cedar")
	tb.shot("policy-cedar")
	tb.visit("/policy?file=config.yaml")
	tb.Wait(`document.querySelector('textarea') && document.querySelector('textarea').value.includes('up.example')`)
	same("YAML")
	holds("YAML", "key version", "value 1", "key unlisted_domain_behavior", "comment # the server of the test", "key pattern", `string "^seq [0-9]+$"`)
	if got := eval[string](tb, inColours); strings.Contains(got, "50s") || strings.Contains(got, "string #") {
		t.Errorf("a plain word has a colour: %s", got)
	}
	first := `document.querySelector('.colours div div')`
	eval[bool](tb, `(window.first = `+first+`, true)`)
	tb.Put(`textarea`, eval[string](tb, `document.querySelector('textarea').value`)+"refs: |\n  # no comment\n  'tis\n\nmode: true # one\n"+strings.Repeat("# more\n", 60))
	same("what was typed")
	holds("what was typed", "string   # no comment", "string   'tis", "key mode", "value true", "comment # one")
	if !eval[bool](tb, first+` === window.first`) {
		t.Error("a line that did not change was drawn anew")
	}
	tb.axe("policy-yaml")
	tb.shot("policy-yaml")
	seen := map[string]bool{}
	for _, theme := range []string{"light", "dark"} {
		tb.Do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}}})
		for _, kind := range []string{"key", "comment", "string", "value"} {
			seen[eval[string](tb, `getComputedStyle(document.querySelector('.colours .`+kind+`')).color`)] = true
		}
	}
	if len(seen) != 8 {
		t.Errorf("four kinds in two themes have %d colours: %v", len(seen), seen)
	}
	tb.Put(`textarea`, "")
	same("nothing")
}
