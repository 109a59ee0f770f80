// A session's terminal, attached as cloister attach does, beside others.
import { fill, h } from '../dom.js';
import { t } from '../words.js';
import { socket } from '../api.js';
import { on, state } from '../live.js';
import { Terminal } from '../xterm/xterm.mjs';

const w = t.terminal;

// styles lets the terminal write its styles as it does, into style elements that
// feed sheets of the page's: the page's policy lets no script write any into the
// markup. It gives back how to end that.
const styles = () => {
  const make = document.createElement;
  const sheets = [];
  document.createElement = (name, o) => {
    if (String(name).toLowerCase() !== 'style') return make.call(document, name, o);
    const sheet = new CSSStyleSheet();
    sheets.push(sheet);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    const el = make.call(document, 'span');
    el.hidden = true;
    Object.defineProperty(el, 'textContent', { set: (text) => sheet.replaceSync(text), get: () => '' });
    return el;
  };
  return () => {
    delete document.createElement;
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => !sheets.includes(s));
  };
};

export default (root, { words }) => {
  const id = words.get('session') || '';
  if (!document.getElementById('xterm-css')) document.head.append(h('link', { id: 'xterm-css', rel: 'stylesheet', href: new URL('../xterm/xterm.css', import.meta.url).href }));
  const title = h('h1', t.pages.terminal);
  const say = h('span.soft', { role: 'status' });
  const again = h('button', { hidden: true, onclick: () => join() }, w.again);
  const box = h('div.screen');
  root.append(h('div.head', title, say, again, h('span.soft.wide', w.leave), h('a.button.small', { href: '/now' }, w.all)), box);

  const end = styles();
  const term = new Terminal({ cursorBlink: false, fontSize: 13, fontFamily: '"DejaVu Sans Mono", Menlo, Consolas, monospace', scrollback: 5000, screenReaderMode: true, theme: { background: '#101210', foreground: '#e8eae6' } });
  term.open(box);
  let ws = null;
  const enc = new TextEncoder();
  const send = (kind, bytes) => {
    if (!ws || ws.readyState !== WebSocket.OPEN) return;
    const m = new Uint8Array(bytes.length + 1);
    m[0] = kind.charCodeAt(0);
    m.set(bytes, 1);
    ws.send(m);
  };
  const size = () => {
    // The size of a cell is asked of the rows that stand there.
    const screen = box.querySelector('.xterm-screen');
    if (!screen || !screen.clientWidth) return;
    const cw = screen.clientWidth / term.cols, ch = screen.clientHeight / term.rows;
    const cols = Math.max(20, Math.floor((box.clientWidth - 28) / cw)), rows = Math.max(5, Math.floor((box.clientHeight - 12) / ch));
    if (cols !== term.cols || rows !== term.rows) term.resize(cols, rows);
    send('s', enc.encode(JSON.stringify({ cols: term.cols, rows: term.rows })));
  };
  term.onData((text) => send('i', enc.encode(text)));
  term.onBinary((text) => send('i', Uint8Array.from(text, (c) => c.charCodeAt(0))));
  term.attachCustomKeyEventHandler((e) => {
    if (e.key === 'Escape' && e.ctrlKey && e.shiftKey) { title.setAttribute('tabindex', '-1'); title.focus(); return false; }
    return true;
  });
  const name = () => {
    const s = state.sessions.get(id) || [...state.sessions.values()].find((x) => x.name === id);
    fill(title, s ? w.of(s.name) : t.pages.terminal);
  };
  let gone = false;
  const join = async () => {
    again.hidden = true;
    fill(say, '');
    const opened = await socket(`/v1/sessions/${encodeURIComponent(id)}/terminal`);
    if (gone) { opened.close(); return; }
    ws = opened;
    ws.binaryType = 'arraybuffer';
    let over = false, painted = false;
    // What comes first paints the screen, and moves away what stood there: nothing that
    // is worth scrolling back to.
    ws.onopen = () => { term.reset(); term.options.scrollback = 0; size(); term.focus(); };
    ws.onmessage = ({ data }) => {
      const m = new Uint8Array(data);
      if (m[0] === 111) { // 'o'
        term.write(m.subarray(1), painted ? undefined : () => { term.options.scrollback = 5000; });
        painted = true;
      }
      if (m[0] === 101) over = true; // 'e'
    };
    ws.onclose = () => { if (gone) return; fill(say, over ? w.ended : w.lost); again.hidden = over; };
  };
  const watch = new ResizeObserver(size);
  watch.observe(box);
  const off = [on('change', name)];
  name();
  join();
  window.cloisterTerminal = term; // for tests: what stands on the screen
  return { leave: () => { gone = true; off.forEach((f) => f()); watch.disconnect(); if (ws) ws.close(); term.dispose(); end(); delete window.cloisterTerminal; } };
};
