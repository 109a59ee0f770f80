// Files: what sessions changed of what programs of the host obey.
import { fill, h, keyed, time } from '../dom.js';
import { t } from '../words.js';
import { get, query } from '../api.js';
import { on } from '../live.js';
import { diff } from '../diff.js';

const w = t.files;

export default (root) => {
  let all = [];
  let chosen = 0;
  const list = h('div.cards', { role: 'list', 'aria-label': w.list });
  const none = h('p.empty', { hidden: true }, w.empty);
  const side = h('section.panel', { 'aria-label': t.pages.files }, h('p.soft', w.pick));
  root.append(h('div.head', h('h1', t.pages.files)), h('p.soft', w.lead), h('div.split.even', h('div.panel', none, list), side));
  const draw = () => {
    none.hidden = all.length > 0;
    keyed(list, all, (e) => String(e.seq), (e) => h('div', { role: 'listitem' }, h('button.card', { onclick: () => pick(e), disabled: !e.resource },
      h('code', e.resource || e.reason), h('span.soft', `${e.session} · `, time(e.time)))), (el, e) => el.firstChild.setAttribute('aria-pressed', String(e.seq === chosen)));
  };
  const pick = async (e) => {
    chosen = e.seq;
    draw();
    const f = await get(`/v1/files/${e.seq}`);
    if (chosen !== e.seq) return;
    fill(side, h('h2.first', h('code', e.resource)), h('p.soft', `${e.project} · ${e.session}`), f.from ? h('p.soft', `${w.before} ${f.from}`) : '', f.note ? h('p.beware', f.note) : '',
      f.before === f.after && f.before ? h('p', w.same) : diff(f.before, f.after, e.resource));
  };
  const load = async () => { all = (await get(query('/v1/audit', { kind: 'file.autorun_changed', limit: 200 }))).records; draw(); };
  const off = [on('audit', (l) => { if (l.some((e) => e.kind === 'file.autorun_changed')) load(); }), on('reset', load)];
  load();
  return { leave: () => off.forEach((f) => f()) };
};
