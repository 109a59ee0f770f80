// Audit: the record of everything, proved, filtered, exported.
import { h, fill, verdict } from '../dom.js';
import { t } from '../words.js';
import { get, query, request } from '../api.js';
import { aside, events, facts, ruled, whatOf } from '../events.js';
import { toast } from '../above.js';

const w = t.audit;
const kinds = ['session.start', 'session.stop', 'net.dns', 'net.connect', 'http.request', 'mcp.call', 'secret.use', 'hostexec.request', 'hostexec.result', 'approval.request', 'approval.decision',
  'file.denied', 'file.autorun_changed', 'exec', 'policy.load', 'guardian.start', 'guardian.stop', 'residue.accepted'];

export default (root, { words }) => {
  const side = aside(t.pages.audit);
  const list = events({ words, kinds: [], kindWords: [['', w.kinds], ...kinds.map((k) => [k, k])], name: t.pages.audit, onpick: (e) => side.show(h('h2.first', e.kind, ' ', verdict(e.verdict)), h('p.mono', whatOf(e)), ruled(e), facts(e)) });
  const proof = h('p', { role: 'status', hidden: true });
  const verify = async () => {
    proof.hidden = false;
    fill(proof, w.verifying);
    const r = await get('/v1/audit/verify');
    fill(proof, r.ok ? [h('span.verdict.ok', w.ok(r)), ' ', h('span.soft', w.head, ' '), h('code', r.head), (r.proves || []).map((line) => h('div.soft', line))] : h('span.verdict.fail', w.broken(r.problem)));
  };
  const save = async () => {
    const p = list.params('');
    delete p.limit;
    const r = await request('GET', query('/v1/audit/export', p));
    const a = h('a', { href: URL.createObjectURL(await r.blob()), download: 'cloister-audit.jsonl' });
    document.body.append(a);
    a.click();
    a.remove();
    setTimeout(() => URL.revokeObjectURL(a.href), 10e3);
    toast(w.exported);
  };
  root.append(h('div.head', h('h1', t.pages.audit), h('button', { onclick: verify }, w.verify), h('button', { onclick: save }, w.export)), h('div.head', list.bar), proof,
    h('div.split', h('div.stack', list.list.el, h('p', list.count, ' ', list.older)), side.el));
  return { leave: list.leave };
};
