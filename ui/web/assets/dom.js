// The only way in which these pages make elements. Text is text: there is no
// function here that takes markup, and the pages' policy forbids it besides.

const svgNames = new Set(['svg', 'path', 'polyline', 'rect', 'title', 'circle', 'line']);

// h makes an element: h('button.main', {onclick: f, 'aria-label': '…'}, child…).
export const h = (name, ...rest) => {
  const [tag, ...classes] = name.split('.');
  const el = svgNames.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  if (classes.length) el.setAttribute('class', classes.join(' '));
  const props = rest.length && rest[0] && rest[0].constructor === Object ? rest.shift() : {};
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) el.addEventListener(key.slice(2), value);
    else if (key === 'value' || key === 'checked' || key === 'disabled' || key === 'hidden' || key === 'selected') el[key] = value;
    else el.setAttribute(key, value === true ? '' : String(value));
  }
  add(el, rest);
  return el;
};

const add = (el, children) => {
  for (const c of children.flat(Infinity)) {
    if (c === undefined || c === null || c === false) continue;
    el.append(c instanceof Node ? c : document.createTextNode(String(c)));
  }
};

// plain are nodes without a listener of their own: equal ones are the same. A press on a link is the
// document's (main.js), so a link stays the same element under the finger.
const plain = new Set(['#text', 'SPAN', 'TIME', 'STRONG', 'A']);

// fill gives an element other children, and leaves it alone where they are equal.
export const fill = (el, ...children) => {
  const next = document.createDocumentFragment();
  add(next, children);
  const same = el.childNodes.length === next.childNodes.length &&
    [...el.childNodes].every((n, i) => plain.has(n.nodeName) && n.isEqualNode(next.childNodes[i]));
  if (!same) el.replaceChildren(next);
  return el;
};

// keyed keeps one element for each item, in the items' order: what a person is
// about to press is not made anew under the finger.
export const keyed = (el, items, id, make, update) => {
  const have = new Map([...el.children].map((c) => [c.dataset.key, c]));
  let at = el.firstElementChild;
  for (const item of items) {
    const key = id(item);
    let node = have.get(key);
    if (!node) {
      node = make(item);
      node.dataset.key = key;
    }
    have.delete(key);
    update(node, item);
    if (node === at) at = at.nextElementSibling;
    else el.insertBefore(node, at);
  }
  for (const gone of have.values()) gone.remove();
};

let last = 0;
// label ties a caption to a control.
export const labelled = (text, control) => {
  control.id = control.id || `c${++last}`;
  return h('label.field', { for: control.id }, h('span', text), control);
};

export const select = (options, value, onchange, name) => h('select', { onchange: (e) => onchange(e.target.value), 'aria-label': name },
  options.map(([v, text]) => h('option', { value: v, selected: v === value }, text)));

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hour12: false });
export const time = (iso) => {
  const d = new Date(iso);
  return h('time', { datetime: iso, title: d.toString() }, Date.now() - d < 12 * 3600e3 ? clock.format(d) : day.format(d));
};
export const bytes = (n) => {
  if (n === undefined || n === null) return '';
  if (n < 1000) return `${n} B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let i = -1;
  do { n /= 1000; i++; } while (n >= 1000 && i < units.length - 1);
  return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
};
export const ago = (iso) => {
  const s = Math.max(0, Math.round((Date.now() - new Date(iso)) / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  if (s < 86400) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
};

// verdict is a word with a shape: colour alone tells nobody enough.
export const verdict = (v) => v ? h(`span.verdict.${v.replace(/[^a-z]/g, '')}`, v) : '';
