// Tools: the MCP servers, what they said of their tools when these were pinned,
// and what cloisters called.
import { h, time, verdict } from '../dom.js';
import { t } from '../words.js';
import { get, post, query } from '../api.js';
import { on } from '../live.js';
import { aside, events, facts, ruled, whatOf } from '../events.js';
import { sure, toast } from '../above.js';
import { diff } from '../diff.js';
import { toPlace } from '../draft.js';

const w = t.tools;

// pretty is a schema for people; what is no JSON stays as it is.
const pretty = (text) => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };
const told = (d) => `${d.description}\n\n${pretty(d.schema)}\n`;

// calls is the list of what was called.
const calls = (root, words) => {
  const side = aside(t.pages.tools);
  const list = events({ words, kinds: ['mcp.call'], kindWords: [], name: w.calls, onpick: (e) => side.show(h('h2.first', whatOf(e)), ruled(e), facts(e)) });
  root.append(h('div.head', list.bar), h('div.split', h('div.stack', list.list.el, h('p', list.count, ' ', list.older)), side.el));
  return list.leave;
};

// servers is what is declared, with a tool or a server beside it.
const servers = (root) => {
  let all = [], chosen = '', turn = 0;
  const list = h('div.panel', { 'aria-label': w.servers, role: 'group' });
  const side = h('section.panel', { 'aria-label': t.pages.tools });
  const none = h('div.panel.empty', { hidden: true }, h('p', w.empty), h('p', w.emptyHint, ' ', h('a', { href: '/policy?file=config.yaml' }, 'config.yaml')));
  const split = h('div.split.even', { hidden: true }, list, side);
  root.append(none, split);

  const keyOf = (s, tool) => tool ? `${s.name}/${tool.name}` : s.name;
  const card = (s, tool) => h('button.card', { onclick: () => pick(keyOf(s, tool)), 'aria-pressed': String(chosen === keyOf(s, tool)), 'data-tool': keyOf(s, tool) },
    h('span.line', h('code', tool ? tool.name : s.name), tool ? verdict(tool.verdict) : ''),
    tool ? h('span.soft.oneline', tool.description.split('\n')[0]) : h('span.soft', s.at),
    tool && tool.changed ? h('span.verdict.warn', w.changed) : '');

  const pin = async (s, tool, forget) => {
    const parts = forget ? [h('p', w.forgetText)] : [h('p', w.takeText), diff(told(tool), told(tool.changed), tool.name)];
    if (!await sure(forget ? w.forgetTitle(tool.name) : w.takeTitle(tool.name), parts, forget ? w.forget : w.take, forget ? 'deny' : 'main')) return;
    try {
      await post(`/v1/mcp/${encodeURIComponent(s.name)}/pin`, forget ? { tools: [tool.name], forget: true } : { tools: [tool.name], digests: { [tool.name]: tool.changed.digest } });
      toast(forget ? w.forgotten(tool.name) : w.taken(tool.name));
      load();
    } catch (e) { toast(t.failed([e.message, ...(e.hints || [])].join(' · '))); }
  };

  const words = (l) => l.length ? l.map((x) => h('code', x + ' ')) : h('span.soft', w.nothing);
  const aboutServer = (s) => [h('h2.first', h('code', s.name)), h('dl',
    h('dt', w.at), h('dd', h('code', s.at)), s.command ? [h('dt', w.command), h('dd', h('code', s.command.join(' ')))] : '',
    s.place ? [h('dt', w.declared), h('dd', h('a', { href: toPlace(s.place) }, s.place.split('/').pop()))] : '',
    h('dt', w.pinned), h('dd', w.tools(s.pinned, s.changed)),
    h('dt', verdict('allow')), h('dd', words(s.allow_tools)), h('dt', verdict('ask')), h('dd', words(s.ask_tools)), h('dt', verdict('deny')), h('dd', words(s.deny_tools)),
    h('dt', w.prompts), h('dd', words(s.prompts)), h('dt', w.resources), h('dd', words(s.resources)),
    ...['sampling', 'elicitation', 'roots'].map((k) => [h('dt', k), h('dd', verdict(s[k]))]))];

  const aboutTool = (s, tool, used) => [
    h('h2.first', h('code', tool.name)),
    h('p', verdict(tool.verdict), ' ', h('span.soft', tool.reason)),
    tool.changed ? h('div.beware', h('p', w.changedText), h('p.acts-row',
      h('button.small', { onclick: () => pin(s, tool, false) }, w.take + '…'))) : '',
    h('p.told', tool.description || h('span.soft', w.undescribed)),
    h('h2', w.schema), h('pre.output', { tabindex: 0, 'aria-label': w.schema }, pretty(tool.schema)),
    tool.changed ? [h('h2', w.now), diff(told(tool), told(tool.changed), w.now)] : '',
    h('dl.after', h('dt', w.pinned), h('dd', time(tool.pinned_at), ' ', h('span.soft', tool.pinned_by)), h('dt', t.policy.digest), h('dd', h('code', tool.digest)),
      h('dt', w.lastCalls), h('dd', used.length ? used.map((e) => h('div', time(e.time), ' ', verdict(e.verdict), ' ', h('span.soft', e.session))) : h('span.soft', w.noCalls))),
    h('p', h('button.small', { onclick: () => pin(s, tool, true) }, w.forget + '…')),
  ];

  // What is the same is not drawn anew: something may be about to be pressed there.
  let drawn = '', beside = '';
  const put = (key, parts) => {
    if (beside === key) return;
    beside = key;
    side.replaceChildren(...parts().flat(Infinity).filter(Boolean));
  };
  const showChosen = async () => {
    const s = all.find((x) => chosen === x.name || chosen.startsWith(x.name + '/'));
    const mine = ++turn;
    if (!s) { put('', () => [h('p.soft', w.pick)]); return; }
    const tool = (s.tools || []).find((x) => keyOf(s, x) === chosen);
    if (!tool) { put(JSON.stringify(s), () => aboutServer(s)); return; }
    const used = await get(query('/v1/audit', { kind: 'mcp.call', text: chosen, limit: 50 })).catch(() => ({ records: [] }));
    if (mine !== turn) return;
    const last = used.records.filter((e) => e.resource === chosen).slice(0, 5);
    put(JSON.stringify([tool, last]), () => aboutTool(s, tool, last));
  };
  const draw = () => {
    none.hidden = all.length > 0;
    split.hidden = !all.length;
    list.replaceChildren(...all.map((s) => h('section.server', card(s), h('div.cards', { role: 'group', 'aria-label': s.name }, (s.tools || []).map((x) => card(s, x))), (s.tools || []).length ? '' : h('p.soft', w.unseen))));
    showChosen();
  };
  const pick = (key) => {
    chosen = key;
    for (const b of list.querySelectorAll('.card')) b.setAttribute('aria-pressed', String(b.dataset.tool === chosen));
    showChosen();
  };
  const load = async () => {
    const names = (await get('/v1/mcp')).map((s) => s.name);
    all = await Promise.all(names.map((n) => get(`/v1/mcp/${encodeURIComponent(n)}`)));
    if (!chosen && all.length) chosen = all[0].name;
    const now = JSON.stringify(all);
    if (now === drawn) { showChosen(); return; }
    drawn = now;
    draw();
  };
  let due = 0;
  const soon = () => { due = due || setTimeout(() => { due = 0; load().catch(() => {}); }, 300); };
  const off = [on('audit', (l) => { if (l.some((e) => e.kind === 'mcp.call' || e.kind === 'policy.load')) soon(); }), on('reset', soon)];
  load().catch((e) => { if (e.body) toast(t.failed(e.message)); });
  return () => { off.forEach((f) => f()); clearTimeout(due); };
};

export default (root, { words }) => {
  const views = { servers: [w.servers, servers], calls: [w.calls, calls] };
  const body = h('div.stack');
  let leave = () => {};
  const tabs = h('div.group', { role: 'group', 'aria-label': t.pages.tools }, Object.entries(views).map(([k, [text]]) => h('button', { 'data-view': k, onclick: () => show(k) }, text)));
  root.append(h('div.head', h('h1', t.pages.tools), tabs), body);
  const show = (name) => {
    leave();
    body.replaceChildren();
    for (const b of tabs.children) b.setAttribute('aria-pressed', String(b.dataset.view === name));
    leave = views[name][1](body, words);
  };
  show(words.get('kind') || words.get('text') ? 'calls' : 'servers');
  return { leave: () => leave() };
};
