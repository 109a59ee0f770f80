// Secrets: names, where their values come from, where they may go, when they
// went there. Values are not known here.
import { fill, h, time, verdict } from '../dom.js';
import { t } from '../words.js';
import { get } from '../api.js';
import { on } from '../live.js';
import { aside, events, facts, ruled, whatOf } from '../events.js';
import { toPlace } from '../draft.js';
import { toTraffic } from '../hosts.js';
import { toast } from '../above.js';

const w = t.secrets;

// binding is where a secret may go, in words.
const binding = (b) => h('div.bound', b.hosts.map((name) => [h('a', { href: toTraffic(name) }, h('code', name)), ' ']), b.ports ? h('code', `:${b.ports.join(' :')}`) : '', h('span.soft', ` ${w.in} `), h('code', b.place), ' ', verdict(b.use),
  h('div.soft', [(b.methods || []).join(' '), (b.paths || []).join(' '), b.format, b.env && b.env.length ? w.as(b.env) : ''].filter(Boolean).join(' · '),
    b.where ? [' ', h('a', { href: toPlace(b.where) }, b.where.split('/').pop())] : ''));

export default (root, { words }) => {
  const kept = h('p.soft');
  const body = h('div');
  const side = aside(w.uses);
  const list = events({ words, kinds: ['secret.use'], kindWords: [], name: w.uses, onpick: (e) => side.show(h('h2.first', whatOf(e)), ruled(e), facts(e)) });
  root.append(h('div.head', h('h1', t.pages.secrets)), kept, body, h('div.head', h('h2', w.uses), list.bar), h('div.split', h('div.stack', list.list.el, h('p', list.count, ' ', list.older)), side.el));

  const from = (x) => x.source === 'missing' ? [h('span.verdict.warn', w.missing), h('div.soft', h('code', `cloister secret set ${x.name}`))]
    : [w.sources[x.source] || x.source, x.command ? h('div', h('code', x.command.join(' ')), x.refresh ? h('span.soft', ` ${w.every(x.refresh)}`) : '') : '', x.set_at ? h('div.soft', w.set, ' ', time(x.set_at)) : ''];
  const load = async () => {
    const s = await get('/v1/secrets');
    fill(kept, `${w.never} ${s.protection.charAt(0).toUpperCase()}${s.protection.slice(1)}.`);
    fill(body, s.secrets.length ? h('div.panel.scroll', h('table',
      h('thead', h('tr', [w.name, w.source, w.bindings, w.uses].map((n) => h('th', { scope: 'col' }, n)))),
      h('tbody', s.secrets.map((x) => h('tr', h('td', h('strong', x.name), x.problem ? h('div.beware', x.problem) : ''),
        h('td.wrap', from(x)), h('td.wrap', (x.bindings || []).length ? x.bindings.map(binding) : h('span.soft', w.unbound)),
        h('td', x.uses ? [w.used(x.uses), x.last_used_at ? h('div.soft', w.last, ' ', time(x.last_used_at)) : ''] : h('span.soft', w.noUse), x.refused ? h('div.verdict.deny', w.refused(x.refused)) : '')))))) : h('div.panel.empty', h('p', w.empty), h('p', h('code', 'cloister secret set NAME'))));
  };
  let due = 0;
  const soon = () => { due = due || setTimeout(() => { due = 0; load().catch(() => {}); }, 300); };
  const off = [on('audit', (l) => { if (l.some((e) => e.kind === 'secret.use' || e.kind === 'policy.load')) soon(); }), on('reset', soon)];
  load().catch((e) => { if (e.body) toast(t.failed(e.message)); });
  return { leave: () => { off.forEach((f) => f()); clearTimeout(due); list.leave(); } };
};
