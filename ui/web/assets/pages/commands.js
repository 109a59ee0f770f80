// Host commands: what ran on the host for a cloister, with what it writes.
import { fill, h, keyed, time, verdict } from '../dom.js';
import { t } from '../words.js';
import { get } from '../api.js';
import { on } from '../live.js';

const w = t.commands;

export default (root) => {
  const byID = new Map();
  let chosen = null;
  const list = h('div.cards', { role: 'list', 'aria-label': w.list });
  const none = h('p.empty', w.empty);
  const side = h('section.panel', { 'aria-label': t.pages.commands }, h('p.soft', w.pick));
  root.append(h('div.head', h('h1', t.pages.commands), h('a', { href: '/audit?kind=hostexec.request' }, w.past)), h('div.split.even', h('div.panel', none, list), side));

  const stateOf = (c) => c.state === 'running' ? h('span.verdict.running', w.running) : h(`span.verdict.${c.status ? 'fail' : 'ok'}`, w.status(c.status));
  const draw = () => {
    const all = [...byID.values()].sort((a, b) => b.id - a.id);
    none.hidden = all.length > 0;
    keyed(list, all, (c) => c.id, (c) => h('div', { role: 'listitem' }, h('button.card', { onclick: () => pick(c.id) }, h('code', c.line), h('span.state'))),
      (el, c) => {
        fill(el.querySelector('.state'), stateOf(c), ' ', h('span.soft', c.session, ' · ', time(c.started_at)));
        el.firstChild.setAttribute('aria-pressed', String(c.id === chosen));
      });
  };
  let turn = 0, again = false, busy = false;
  const look = async () => {
    if (!chosen) return;
    if (busy) { again = true; return; }
    busy = true;
    const mine = ++turn;
    try {
      const c = await get(`/v1/commands/${chosen}`);
      if (mine !== turn) return;
      const box = side.querySelector('.output');
      const below = !box || box.scrollTop + box.clientHeight >= box.scrollHeight - 30;
      const at = box ? box.scrollTop : 0;
      const out = h('div.output', { tabindex: 0, role: 'log', 'aria-label': c.line }, c.cut ? h('p.soft', w.cut(c.cut)) : '',
        (c.output || []).map((p) => h(p.err ? 'span.err' : 'span', p.text)), c.output ? '' : h('span.soft', w.none));
      side.replaceChildren(h('h2.first', h('code', c.line)), h('p', stateOf(c), ' ', h('span.soft', `${c.session} · ${w.dir} ${c.dir}`), c.why ? h('span.soft', ` · ${c.why}`) : ''), out);
      out.scrollTop = below ? out.scrollHeight : at;
    } finally {
      busy = false;
      if (again) { again = false; look(); }
    }
  };
  const pick = (id) => { chosen = id; turn++; draw(); look(); };
  let meanwhile = []; // what came while the list was under way: the list may be older
  const load = async () => { meanwhile = []; const all = await get('/v1/commands'); byID.clear(); for (const c of all.concat(meanwhile)) byID.set(c.id, c); meanwhile = []; if (chosen && !byID.has(chosen)) chosen = null; draw(); };
  const off = [on('commands', (c) => { byID.set(c.id, c); meanwhile = meanwhile.slice(-200).concat(c); draw(); if (c.id === chosen) look(); }), on('reset', load)];
  load();
  return { leave: () => off.forEach((f) => f()) };
};
