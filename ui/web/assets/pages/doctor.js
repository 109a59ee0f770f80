// Doctor: what this machine can guarantee, in the words of cloister doctor.
import { fill, h, verdict } from '../dom.js';
import { t } from '../words.js';
import { get } from '../api.js';

const w = t.doctor;

export default (root) => {
  const body = h('div');
  const button = h('button', { onclick: () => look() }, t.refresh);
  root.append(h('div.head', h('h1', t.pages.doctor), button), body);
  const look = async () => {
    button.disabled = true;
    fill(body, h('p.soft', { role: 'status' }, w.looking));
    try {
      const d = await get('/v1/doctor');
      fill(body, h('p', { role: 'status' }, d.ok ? h('span.verdict.ok', w.good) : h('span.verdict.fail', w.bad)),
        h('h2', w.checks), h('div.panel.scroll', h('table', h('tbody', d.checks.map((c) => h('tr', h('td', verdict(c.status)), h('td', c.title),
          h('td.wrap', c.detail, c.fix && c.status !== 'ok' ? h('div.soft', `${w.fix}: `, h('code', c.fix)) : '')))))),
        d.isolation.map((i) => [h('h2', `${w.isolation} ${i.name}: ${i.available ? w.available : w.missing}`), i.reason ? h('p', i.reason) : '',
          h('div.panel.scroll', h('table', h('tbody', i.guarantees.map((g) => h('tr', h('td', verdict(g.level)), h('td', g.name), h('td.wrap', g.by, g.evidence ? h('div.soft', g.evidence) : ''))))))]));
    } catch (e) { fill(body, h('p.beware', t.failed(e.message))); } finally { button.disabled = false; }
  };
  look();
};
