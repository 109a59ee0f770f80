// What differs between two texts, line by line.
import { h } from './dom.js';

const most = 4000; // lines of one side that are compared line by line

// compare gives [kind, line]: '=' in both, '-' only before, '+' only after.
export const compare = (before, after) => {
  const a = before === '' ? [] : before.replace(/\n$/, '').split('\n');
  const b = after === '' ? [] : after.replace(/\n$/, '').split('\n');
  let from = 0, end = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  while (end < a.length - from && end < b.length - from && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const x = a.slice(from, a.length - end), y = b.slice(from, b.length - end);
  const out = a.slice(0, from).map((l) => ['=', l]);
  if (x.length * y.length > most * 250) {
    out.push(...x.map((l) => ['-', l]), ...y.map((l) => ['+', l]));
  } else {
    // The longest common part, by its lengths from the end.
    const w = y.length + 1;
    const n = new Uint16Array((x.length + 1) * w);
    for (let i = x.length - 1; i >= 0; i--) {
      for (let j = y.length - 1; j >= 0; j--) n[i * w + j] = x[i] === y[j] ? n[(i + 1) * w + j + 1] + 1 : Math.max(n[(i + 1) * w + j], n[i * w + j + 1]);
    }
    let i = 0, j = 0;
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) { out.push(['=', x[i]]); i++; j++; }
      else if (j < y.length && (i >= x.length || n[i * w + j + 1] > n[(i + 1) * w + j])) out.push(['+', y[j++]]);
      else out.push(['-', x[i++]]);
    }
  }
  return out.concat(a.slice(a.length - end).map((l) => ['=', l]));
};

// diff draws it, with three equal lines around each change.
export const diff = (before, after, name) => {
  const lines = compare(before, after);
  const near = new Array(lines.length).fill(false);
  lines.forEach(([k], i) => { if (k !== '=') for (let d = -3; d <= 3; d++) if (i + d >= 0 && i + d < lines.length) near[i + d] = true; });
  const box = h('div.diff', { role: 'group', tabindex: 0, 'aria-label': name });
  let gap = false;
  lines.forEach(([k, text], i) => {
    if (!near[i]) { if (!gap) box.append(h('div.gap', '⋯')); gap = true; return; }
    gap = false;
    box.append(h(k === '+' ? 'div.add' : k === '-' ? 'div.cut-line' : 'div', `${k === '=' ? ' ' : k} ${text}`));
  });
  return box;
};
