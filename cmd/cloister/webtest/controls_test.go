//go:build linux

package webtest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// controls notes what a person could have pressed, chosen or typed into, and what
// was, so that no button is left out of the test by being forgotten.
type controls struct {
	mu   sync.Mutex
	seen map[string]bool
	used map[string]bool
	made map[string]bool // where in the scripts what was used is made
}

// noteControls names each control by its page and its words, without numbers and
// without what is an instance's.
const noteControls = `(() => {
	const what = 'button, a[href], select, input, textarea, summary, .row, .choices li';
	const told = new Set();
	const tell = (text) => { if (!told.has(text)) { told.add(text); noted(text); } };
	const name = (e) => {
		const page = document.title.replace(/^\(\d+\) /, '').split(' ·')[0].toLowerCase(); // the address is ahead of the page
		if (e.closest('#nav, .bar, .skip')) return 'frame: ' + (e.closest('#nav') ? e.getAttribute('href') : e.textContent.trim());
		if (e.closest('.toasts')) return 'notice: ' + e.textContent;
		for (const c of ['card', 'row', 'count']) if (e.classList.contains(c)) return page + ': ' + c;
		if (e.closest('.problems')) return page + ': problem';
		if (e.closest('.choices')) return page + ': completion';
		if (page === 'policy' && e.closest('.head .group')) return page + ': a file';
		if (e.closest('.hosts')) return page + (e.matches('summary') ? ': by host' : ': of a host');
		if (page === 'secrets' && e.closest('.bound')) return page + ': to a place';
		if (page === 'policy' && e.closest('.rule')) return page + ': a rule\'s line';
		if (page === 'policy' && e.closest('summary')) return page + ': a source' + (e.matches('a') ? ', edit' : '');
		if (/config.yaml|\.cedar/.test(e.textContent) && e.matches('a')) return page + ': to a file';
		const copy = e.cloneNode(true);
		for (const k of copy.querySelectorAll('kbd')) k.remove();
		const label = e.matches('button, a, summary') ? copy.textContent.trim() : e.getAttribute('aria-label') || (e.labels && e.labels[0] || {}).textContent || e.type;
		const box = e.closest('dialog');
		if (box && /^(Settings|Keys)$/.test(box.getAttribute('aria-label'))) return 'frame: ' + (label || e.type);
		return page + ': ' + (box ? box.getAttribute('aria-label').replace(/(Stop|Rule:|now of|pinned of|Take|Forget) .*/, '$1') + ': ' : '') + (label || e.getAttribute('aria-label') || e.tagName).replace(/^all of .*/, 'all of').trim();
	};
	const look = () => {
		for (const e of document.querySelectorAll(what)) if (!e.closest('.terminal') && !e.disabled && e.getClientRects().length) tell('seen ' + name(e));
	};
	// Where in the pages' scripts each control is made: the first caller that is not
	// what makes all of them.
	const made = new WeakMap();
	const make = Document.prototype.createElement;
	Document.prototype.createElement = function (kind, ...more) {
		const el = make.call(this, kind, ...more);
		for (const line of /^(button|a|select|input|textarea|summary)$/.test(kind) ? new Error().stack.split('\n') : []) {
			const [, file, at, column] = /\/run\/[\w-]+(\/[\w/]+\.js):(\d+):(\d+)/.exec(line) || [];
			if (!file || file === '/dom.js') continue;
			made.set(el, file + ':' + at + ':' + column);
			break;
		}
		return el;
	};
	const use = (event) => {
		const e = event.target.closest && event.target.closest(what);
		if (!e || e.closest('.terminal')) return;
		tell('seen ' + name(e));
		tell('used ' + name(e));
		if (made.has(e)) tell('made ' + made.get(e));
	};
	for (const kind of ['click', 'change', 'input', 'mousedown']) addEventListener(kind, use, true);
	addEventListener('DOMContentLoaded', () => new MutationObserver(look).observe(document.documentElement, { childList: true, subtree: true, attributes: true, attributeFilter: ['hidden', 'disabled', 'open'] }));
})()`

// note watches every control of a tab from its next page on.
func (tb *tab) note() *controls {
	tb.t.Helper()
	c := &controls{seen: map[string]bool{}, used: map[string]bool{}, made: map[string]bool{}}
	tb.Bind("noted", func(text string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		how, name, _ := strings.Cut(text, " ")
		map[string]map[string]bool{"seen": c.seen, "used": c.used, "made": c.made}[how][name] = true
	})
	tb.OnEachPage(noteControls)
	return c
}

// onPages fails for each control of these pages, none is all, that nobody used.
func (c *controls) onPages(t *testing.T, pages ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, name := range slices.Sorted(maps.Keys(c.seen)) {
		page, _, _ := strings.Cut(name, ":")
		if len(pages) > 0 && !slices.Contains(pages, page) {
			continue
		}
		if n++; !c.used[name] {
			t.Errorf("nobody used %q", name)
		}
	}
	t.Logf("%d controls of %q were used", n, pages)
	if n < 10 {
		t.Errorf("only %d controls were noted", n)
	}
}

// makers are the places of a script where it makes a control.
var makers = regexp.MustCompile("(?:^|[^.\\w])(h\\(['`](?:button|a|select|input|textarea|summary)[.'`]|select\\()")

// pressedElsewhere are controls that need more than these tests have, with the test
// that presses them.
var pressedElsewhere = map[string]string{
	"/events.js older":        "TestTenThousandEvents",
	"/pages/now.js older":     "TestMany",
	"/pages/policy.js effect": "TestMany",
	"/pages/tools.js none":    "TestEveryPage, where no server is declared",
}

// scripts are the texts of scripts of the window, by their addresses.
func (tb *tab) scripts(files ...string) map[string]string {
	tb.t.Helper()
	all := map[string]string{}
	for _, file := range files {
		all[file] = eval[string](tb, `fetch('`+file+`').then((r) => r.text())`)
	}
	return all
}

// everyMaker fails for each place of these scripts that makes a control which no
// test used: one that was never on the screen is found here.
func (c *controls) everyMaker(t *testing.T, scripts map[string]string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, file := range slices.Sorted(maps.Keys(scripts)) {
		for i, line := range strings.Split(scripts[file], "\n") {
			if strings.HasPrefix(line, "import ") {
				continue
			}
			for _, at := range makers.FindAllStringSubmatchIndex(line, -1) {
				n++
				place := fmt.Sprintf("%s:%d:%d", file, i+1, utf8.RuneCountInString(line[:at[2]])+1)
				name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "const "), " ")
				if !c.made[place] && pressedElsewhere[file+" "+name] == "" {
					t.Errorf("nobody used what %s makes: %.90s", place, line[at[2]:])
				}
			}
		}
	}
	t.Logf("%d places of %d scripts make controls", n, len(scripts))
	if n < 2*len(scripts) {
		t.Errorf("only %d places that make controls were found", n)
	}
}
