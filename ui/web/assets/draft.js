// A rule for what was seen: drafted by the guardian, checked, shown, then saved.
import { h, verdict } from './dom.js';
import { t } from './words.js';
import { post } from './api.js';
import { dialog, toast } from './above.js';
import { diff } from './diff.js';

const w = t.traffic;

export const draft = async (effect, e) => {
  let d;
  try {
    d = await post('/v1/policy/draft', { effect, host: e.host, port: e.port || 0, ...(e.kind === 'http.request' && e.method && e.path ? { method: e.method, path: e.path.split('?')[0] } : {}) });
  } catch (x) { toast(t.failed([x.message, ...(x.hints || [])].join(' · '))); return; }
  const good = d.check.ok;
  dialog(w.draftTitle(effect, e.host), (close) => [
    h('dl', h('dt', w.draftNow), h('dd', verdict(d.now.effect), ' ', d.now.reason), h('dt', w.draftThen), h('dd', verdict(d.then.effect), ' ', d.then.reason || '')),
    good && d.now.effect === d.then.effect && d.now.rule === d.then.rule ? h('p.beware', w.draftSame) : '',
    good ? '' : h('ul.problems', d.check.problems.map((p) => h('li', `${t.policy.line(p.line || 0, p.column || 0)}: ${p.message}`))),
    h('h2', d.name), diff(d.before, d.after, d.name),
    h('div.acts', h('button', { onclick: close }, t.cancel), h('button.main', { disabled: !good, onclick: async () => {
      try {
        await post('/v1/policy/files', { name: d.name, text: d.after, base: d.base });
        toast(w.saved);
        close();
      } catch (x) { toast(t.failed(x.message)); }
    } }, w.save)),
  ]);
};

// place is the file and the line that a rule's name ends with.
export const place = (rule) => {
  const m = /\((.+?):(\d+)(?::\d+)?\)$/.exec(rule || '');
  return m ? { file: m[1], line: Number(m[2]) } : null;
};

// toPlace is the address in the editor of FILE:LINE.
export const toPlace = (at) => toRule(`(${at})`);

// toRule is the address of the rule in the editor.
export const toRule = (rule) => {
  const p = place(rule);
  if (!p) return rule ? '/policy' : null;
  const base = p.file.split('/').pop();
  const name = base.endsWith('.cedar') ? `policy/${base}` : base === 'config.yaml' ? base : '';
  return name ? `/policy?file=${encodeURIComponent(name)}&line=${p.line}` : '/policy';
};
