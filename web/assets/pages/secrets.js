// Secrets: names, where they come from, what they are bound to, when they were
// used. Values are not known here.
import { fill, h, time } from '../dom.js';
import { t } from '../words.js';
import { get, query } from '../api.js';
import { on } from '../live.js';

const w = t.secrets;

export default (root) => {
  const body = h('div');
  root.append(h('div.head', h('h1', t.pages.secrets)), h('p.soft', w.never), body);
  const load = async () => {
    const [s, used] = await Promise.all([get('/v1/secrets'), get(query('/v1/audit', { kind: 'secret.use', limit: 500 }))]);
    const uses = (name) => used.records.filter((e) => e.resource === name).slice(0, 3);
    fill(body, h('p.soft', s.protection), s.secrets.length ? h('div.panel.scroll', h('table',
      h('thead', h('tr', [w.name, w.source, w.set, w.bindings, w.uses].map((n) => h('th', { scope: 'col' }, n)))),
      h('tbody', s.secrets.map((x) => h('tr', h('td', h('strong', x.name), x.problem ? h('div.beware', x.problem) : ''),
        h('td.wrap', x.source, x.command ? h('div', h('code', x.command.join(' '))) : ''), h('td', x.set_at ? time(x.set_at) : ''),
        h('td.wrap', (x.bindings || []).map((b) => h('div', h('code', typeof b === 'string' ? b : [(b.hosts || []).join(' '), b.header].filter(Boolean).join(' · '))))),
        h('td.wrap', uses(x.name).length ? uses(x.name).map((e) => h('div', time(e.time), ` ${e.session} → ${e.host || ''}`)) : h('span.soft', w.noUse))))))) : h('div.panel', h('p.empty', w.empty)));
  };
  const off = [on('audit', (l) => { if (l.some((e) => e.kind === 'secret.use')) load(); }), on('reset', load)];
  load();
  return { leave: () => off.forEach((f) => f()) };
};
