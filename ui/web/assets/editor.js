// A text editor for YAML and Cedar: line numbers, marks of problems, completion, colours.
// It is a textarea, so that keyboard, screen reader and undo are the browser's. What is
// seen of its text is drawn below it, in colours; a very long one is its own.
import { h } from './dom.js';
import { colours } from './colours.js';
import { t } from './words.js';

const lineHeight = 20, pad = 6, mostColoured = 5000;

// editor makes one; complete(text, at) gives {from, list} of what could stand there.
export const editor = ({ name, oninput, onsave, complete }) => {
  const gutter = h('div.gutter', { 'aria-hidden': 'true' });
  const choices = h('ul.choices', { role: 'listbox', id: 'choices', 'aria-label': name, hidden: true });
  const area = h('textarea', { 'aria-label': name, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', wrap: 'off', role: 'combobox', 'aria-autocomplete': 'list', 'aria-controls': 'choices', 'aria-expanded': 'false' });
  const drawn = h('div'), below = h('pre.colours', { 'aria-hidden': 'true' }, drawn);
  const el = h('div.editor', gutter, below, area, choices);
  let bad = new Set(), lines = 0, offer = null, at = 0, kind = 'yaml', known = [];

  // A line that is as it was, after one that ends as it did, stays the same element.
  const paint = () => {
    const text = area.value.split('\n');
    el.classList.toggle('uncoloured', text.length > mostColoured);
    if (text.length > mostColoured) { known = []; drawn.replaceChildren(); return; }
    let deep = -1;
    const now = text.map((line, i) => {
      const was = known[i];
      if (was && was.line === line && was.from === deep && was.kind === kind) { deep = was.deep; return was; }
      const c = colours(kind, line, deep);
      const next = { line, from: deep, kind, deep: c.deep, el: h('div', c.parts.map(([k, piece]) => k ? h(`span.${k}`, piece) : piece)) };
      if (was) was.el.replaceWith(next.el); else drawn.append(next.el);
      deep = c.deep;
      return next;
    });
    known.slice(now.length).forEach((was) => was.el.remove());
    known = now;
  };
  const scrolled = () => { gutter.scrollTop = area.scrollTop; drawn.style.transform = `translate(${-area.scrollLeft}px, ${-area.scrollTop}px)`; };

  const number = () => {
    const n = area.value.split('\n').length;
    if (n !== lines || bad.drawn !== bad) {
      lines = n;
      gutter.replaceChildren(...Array.from({ length: n }, (_, i) => h(bad.has(i + 1) ? 'div.bad' : 'div', i + 1)));
      bad.drawn = bad;
    }
    paint();
    scrolled();
  };
  const close = () => { offer = null; choices.hidden = true; area.setAttribute('aria-expanded', 'false'); area.removeAttribute('aria-activedescendant'); };
  const draw = () => {
    choices.replaceChildren(...offer.list.map((word, i) => h('li', { role: 'option', id: `choice-${i}`, 'aria-selected': String(i === at), onmousedown: (e) => { e.preventDefault(); take(word); } }, word)));
    area.setAttribute('aria-activedescendant', `choice-${at}`);
    choices.children[at].scrollIntoView({ block: 'nearest' });
  };
  const open = (asked) => {
    const o = complete(area.value, area.selectionStart);
    if (!o || !o.list.length || (!asked && area.selectionStart === o.from)) { close(); return; }
    offer = { from: o.from, list: o.list.slice(0, 50) };
    at = 0;
    const before = area.value.slice(0, area.selectionStart).split('\n');
    choices.hidden = false;
    area.setAttribute('aria-expanded', 'true');
    const top = before.length * lineHeight + pad - area.scrollTop;
    choices.style.top = `${Math.max(0, Math.min(top, area.clientHeight - 60))}px`;
    choices.style.left = `${gutter.offsetWidth + pad + Math.max(0, Math.min(before.pop().length * 7.8 - area.scrollLeft, area.clientWidth - 220))}px`;
    draw();
  };
  const take = (word) => {
    area.focus();
    area.setSelectionRange(offer.from, area.selectionStart);
    close();
    // It keeps the browser's own undo; nothing else does.
    document.execCommand('insertText', false, word);
  };
  area.addEventListener('input', () => { number(); oninput(area.value); if (offer || /[\w."*-]$/.test(area.value.slice(0, area.selectionStart))) open(false); });
  area.addEventListener('scroll', () => { scrolled(); close(); }, { passive: true });
  area.addEventListener('blur', close);
  area.addEventListener('click', close);
  area.addEventListener('keydown', (e) => {
    if ((e.ctrlKey || e.metaKey) && e.key === 's') { e.preventDefault(); onsave(); return; }
    if (e.ctrlKey && e.key === ' ') { e.preventDefault(); open(true); return; }
    if (offer && ['ArrowDown', 'ArrowUp', 'Enter', 'Tab', 'Escape'].includes(e.key)) {
      e.preventDefault();
      e.stopPropagation();
      if (e.key === 'Escape') close();
      else if (e.key.startsWith('Arrow')) { at = (at + (e.key === 'ArrowDown' ? 1 : -1) + offer.list.length) % offer.list.length; draw(); }
      else take(offer.list[at]);
      return;
    }
    if (e.key === 'Enter' && !e.ctrlKey && !e.metaKey) {
      // A new line stands in as far as the last one, and further under a key.
      const line = area.value.slice(0, area.selectionStart).split('\n').pop();
      const indent = /^ */.exec(line)[0] + (/:\s*$/.test(line) ? '  ' : '');
      if (indent) { e.preventDefault(); document.execCommand('insertText', false, '\n' + indent); }
    }
  });
  const goTo = (line, column) => {
    const all = area.value.split('\n');
    const n = Math.max(1, Math.min(line || 1, all.length));
    const from = all.slice(0, n - 1).join('\n').length + (n > 1 ? 1 : 0);
    const col = from + Math.min(Math.max(0, (column || 1) - 1), all[n - 1].length);
    area.focus();
    area.setSelectionRange(column ? col : from, column ? Math.min(col + 1, from + all[n - 1].length) : from + all[n - 1].length);
    area.scrollTop = Math.max(0, (n - 6) * lineHeight);
    number();
  };
  return {
    el, goTo,
    get value() { return area.value; },
    set kind(k) { kind = k; },
    set value(text) { area.value = text; bad = new Set(); number(); },
    mark: (list) => { bad = new Set(list); number(); },
  };
};

// yamlPath is where a key would stand, and what is typed of it.
export const yamlAt = (text, at) => {
  const before = text.slice(0, at).split('\n');
  const line = before.pop();
  const m = /^( *)((?:- +)*)([\w.*"-]*)$/.exec(line);
  const value = /^( *)((?:- +)*)([\w]+): +(.*?)([\w.*"-]*)$/.exec(line);
  const flow = /[{,] *([\w]*)$/.exec(line);
  let indent = (m || value || [0, /^ */.exec(line)[0], ''])[1].length;
  const own = (m || value || [0, '', ''])[2];
  const path = [];
  if (own) path.unshift('[]');
  for (let i = before.length - 1, limit = indent; i >= 0; i--) {
    const p = /^( *)((?:- +)*)([\w-]+):/.exec(before[i]);
    if (!p) continue;
    const stands = p[1].length + p[2].length;
    if (p[2] && p[1].length < limit && stands <= limit && !path.includes('[]')) { path.unshift('[]'); limit = p[1].length; }
    if (p[1].length < limit && !p[2] || (path[0] === '[]' && p[1].length <= limit && !p[2])) { path.unshift(p[3]); limit = p[1].length; }
    if (limit === 0) break;
  }
  const under = path.join('.').replaceAll('.[]', '[]');
  if (flow && /[[{]/.test(line)) {
    const key = /^ *(?:- +)?([\w-]+): *[[{]/.exec(line);
    return { kind: 'key', under: (key ? (under ? under + '.' : '') + key[1] : under) + (line.includes('[') ? '[]' : ''), typed: flow[1] };
  }
  if (value) return { kind: 'value', under: (under ? under + '.' : '') + value[3], typed: value[5], key: value[3] };
  return m ? { kind: 'key', under, typed: m[3] } : null;
};
