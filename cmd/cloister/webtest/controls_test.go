//go:build linux

package webtest

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// controls notes what a person could have pressed, chosen or typed into, and what
// was, so that no button is left out of the test by being forgotten.
type controls struct {
	mu   sync.Mutex
	seen map[string]bool
	used map[string]bool
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
	const use = (event) => { const e = event.target.closest && event.target.closest(what); if (e && !e.closest('.terminal')) { tell('seen ' + name(e)); tell('used ' + name(e)); } };
	for (const kind of ['click', 'change', 'input', 'mousedown']) addEventListener(kind, use, true);
	addEventListener('DOMContentLoaded', () => new MutationObserver(look).observe(document.documentElement, { childList: true, subtree: true, attributes: true, attributeFilter: ['hidden', 'disabled', 'open'] }));
})()`

// note watches every control of a tab from its next page on.
func (tb *tab) note() *controls {
	tb.t.Helper()
	c := &controls{seen: map[string]bool{}, used: map[string]bool{}}
	tb.Bind("noted", func(text string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		how, name, _ := strings.Cut(text, " ")
		map[string]map[string]bool{"seen": c.seen, "used": c.used}[how][name] = true
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
