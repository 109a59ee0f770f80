// A list of any length that draws only what is seen. Rows have one height, so
// where one is needs no measuring, and a fast scroll finds every row drawn.
import { h } from './dom.js';

// virtual makes a list: row(item) draws one, and at most `most` items are kept.
// head stands above the rows and stays there.
export const virtual = ({ name, height, head, row, most = 10000, onpick, empty }) => {
  let items = [];
  let from = -1, to = -1;
  let chosen = null;
  const drawn = new Map(); // by item: its element
  const inner = h('div.rows', { role: 'list' });
  const none = h('p.empty', { hidden: true }, empty);
  if (head) head.classList.add('heading');
  const box = h('div.virtual', { tabindex: 0, role: 'group', 'aria-label': name }, head, none, inner);

  const draw = () => {
    // Two screens more on both sides: a wheel's jump shows no blank.
    const view = box.clientHeight || 600;
    const a = Math.max(0, Math.floor((box.scrollTop - 2 * view) / height));
    const b = Math.min(items.length, Math.ceil((box.scrollTop + 3 * view) / height));
    const keep = new Set();
    for (let i = a; i < b; i++) {
      const item = items[i];
      keep.add(item);
      let el = drawn.get(item);
      if (!el) {
        el = row(item);
        el.classList.add('row');
        el.setAttribute('role', 'listitem');
        el.addEventListener('click', () => { if (!String(getSelection())) pick(item); });
        drawn.set(item, el);
        inner.append(el);
      }
      el.style.transform = `translateY(${i * height}px)`;
      el.setAttribute('aria-posinset', i + 1);
      el.setAttribute('aria-setsize', items.length);
      el.classList.toggle('chosen', item === chosen);
    }
    for (const [item, el] of drawn) if (!keep.has(item)) { el.remove(); drawn.delete(item); }
    [from, to] = [a, b];
  };
  // With the next frame, and without one soon after: a browser under load was seen to give
  // a page that had slept none for half a minute.
  let frame = 0, late = 0;
  const due = () => { cancelAnimationFrame(frame); clearTimeout(late); frame = 0; draw(); };
  const soon = () => { if (!frame) { frame = requestAnimationFrame(due); late = setTimeout(due, 500); } };
  const size = () => { inner.style.height = `${items.length * height}px`; none.hidden = items.length > 0; };
  const below = () => box.clientHeight - (head ? head.offsetHeight : 0); // what rows have of the box
  const pick = (item) => { chosen = item; draw(); if (item && onpick) onpick(item); };

  box.addEventListener('scroll', draw, { passive: true });
  new ResizeObserver(soon).observe(box);
  box.addEventListener('keydown', (e) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 }[e.key];
    if (!step || !items.length || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    const at = Math.max(0, Math.min(items.length - 1, items.indexOf(chosen) + step));
    pick(items[at]);
    const top = at * height;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + height > box.scrollTop + below()) box.scrollTop = top + height - below();
  });

  return {
    el: box,
    // set shows other items, from the top.
    set: (list) => { items = list.slice(0, most); box.scrollTop = 0; size(); draw(); },
    // put adds newer items on top; what is read stays where it is.
    put: (list) => {
      if (!list.length) return;
      items = list.concat(items);
      if (items.length > most) items.length = most;
      size();
      if (box.scrollTop > 0) box.scrollTop += list.length * height;
      soon();
    },
    // more adds older items below.
    more: (list) => { items = items.concat(list).slice(0, most); size(); soon(); },
    pick,
    // say is what stands where nothing is.
    say: (text) => { none.textContent = text; },
    get items() { return items; },
    get drawn() { return drawn.size; },
    get range() { return [from, to]; },
  };
};
