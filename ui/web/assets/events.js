// The list of recorded events with its filters, which Traffic and Audit share.
import { bytes, fill, h, select, time, verdict } from './dom.js';
import { t } from './words.js';
import { get, query } from './api.js';
import { on, state } from './live.js';
import { virtual } from './list.js';
import { toast } from './above.js';
import { onceAsked, typesOf } from './hosts.js';

const w = t.traffic;
const spans = { '10m': 600e3, '1h': 3600e3, '24h': 86400e3, '7d': 7 * 86400e3 };

// whatOf is an event in a few words; where its kind says little, with what was done.
const acts = new Set(['mcp.call', 'policy.load', 'secret.use']);
export const whatOf = (e) => e.kind === 'secret.use' && e.host ? `${e.resource} → ${at(e)}` : acts.has(e.kind) && e.action ? `${e.action} ${e.resource || ''}`.trim() : at(e);
const at = (e) => e.method ? `${e.method} ${e.host}${e.port && e.port !== 80 && e.port !== 443 ? ':' + e.port : ''}${e.path || ''}` : e.resource || e.host || e.action || '';

// aside is what one event has to say, beside the list; until one is chosen the list
// has the whole width.
export const aside = (name) => {
  const body = h('div');
  const el = h('aside.panel', { 'aria-label': name, hidden: true, onkeydown: (e) => { if (e.key === 'Escape') { e.stopPropagation(); el.hidden = true; } } },
    h('button.small.plain.close', { 'aria-label': t.close, onclick: () => { el.hidden = true; } }, '✕'), body);
  return { el, show: (...parts) => { el.hidden = false; fill(body, ...parts); el.scrollTop = 0; } };
};

// ends are records of what was allowed before, when it is over.
const ends = new Set(['close', 'response', 'end']);

// decided is the record with the rule of one that ends what was allowed before.
export const decided = async (e, list) => {
  const same = (x) => x.seq < e.seq && x.kind === e.kind && x.session_id === e.session_id && x.rule && x.host === e.host && x.port === e.port && x.method === e.method && x.path === e.path;
  if (e.rule || !ends.has(e.action)) return e;
  return list.find(same) || (await get(query('/v1/audit', { kind: e.kind, session: e.session, text: e.host, before: e.seq, limit: 500 })).catch(() => ({ records: [] }))).records.find(same) || e;
};

// folded is a text that may break after a slash.
const folded = (text) => text.split(/(?<=[^\s/]\/)/).flatMap((part) => [part, h('wbr')]);

// ruled is why, and by which rule, with its file by its name alone.
export const ruled = (e, ...more) => [e.reason ? h('p', folded(e.reason)) : '',
  e.rule ? h('p', h('span.soft', `${w.rule}: `), h('span.mono', { title: e.rule }, e.rule.replace(/\(\/.*\/([^/]+:\d+(?::\d+)?)\)$/, '($1)')), ...more) : ''];

// events makes filters and list; kinds are those that are shown without a filter.
export const events = ({ words, kinds, kindWords, name, onpick, columns, onlist = () => {} }) => {
  const f = { kind: words.get('kind') || '', verdict: words.get('verdict') || '', session: words.get('session') || '', text: words.get('text') || '', range: words.get('range') || 'live' };
  let next = 0, more = false, loading = false, turn = 0, newest = 0;

  const row = (e) => {
    const el = h('div.event',
      time(e.time), h('span.wide', e.session || ''), verdict(e.verdict) || h('span.soft', e.action || ''),
      h('span.mono', { title: whatOf(e) }, whatOf(e), ends.has(e.action) ? h('span.soft', ` ${w.ends[e.action]}`) : '', typesOf(e) ? h('span.soft', ` ${typesOf(e)}`) : ''), h('span.soft.wide.kind', e.kind),
      h('span.num.wide', (e.bytes_up || 0) + (e.bytes_down || 0) > 0 ? bytes((e.bytes_up || 0) + (e.bytes_down || 0)) : e.status || ''));
    return el;
  };
  const head = h('div', { 'aria-hidden': 'true' }, h('span', w.time), h('span.wide', w.session), h('span', w.verdict), h('span', w.what), h('span.wide.kind', w.kind), h('span.num.wide', w.bytes));
  const list = virtual({ name, height: 30, head, row, most: 10000, onpick, empty: t.nothing });
  list.el.classList.add(columns || 'events');
  const count = h('span.soft', { role: 'status' });
  const older = h('button', { onclick: () => load(true), hidden: true }, t.more);

  const params = (before) => ({
    kind: f.kind || kinds.join(','), verdict: f.verdict, session: f.session, text: f.text, before, limit: before ? 1000 : 500,
    since: spans[f.range] ? new Date(Date.now() - spans[f.range]).toISOString() : '',
  });
  const tell = () => {
    count.textContent = w.shown(list.items.length, more);
    older.hidden = !more || list.items.length >= 10000;
    onlist(list.items);
  };
  const load = async (further) => {
    if (further && loading) return;
    loading = true;
    const mine = ++turn;
    try {
      const r = await get(query('/v1/audit', params(further ? next : '')));
      if (mine !== turn) return;
      [next, more] = [r.next, r.more];
      if (further) list.more(onceAsked(r.records));
      else { list.set(onceAsked(r.records)); newest = r.records.length ? r.records[0].seq : 0; }
      list.say(f.kind || f.verdict || f.session || f.text || spans[f.range] ? w.empty : t.nothing);
      if (r.bad) toast(w.bad(r.bad));
      tell();
    } catch (e) { if (e.body) toast(t.failed(e.message)); } finally { loading = false; }
  };
  const fits = (e) => (f.kind ? e.kind === f.kind : !kinds.length || kinds.includes(e.kind)) && (!f.verdict || e.verdict === f.verdict) &&
    (!f.session || e.session === f.session || e.session_id === f.session) &&
    (!f.text || [e.session, e.project, e.agent, e.kind, e.action, e.resource, e.rule, e.reason, e.host, e.method, e.path].join('\n').toLowerCase().includes(f.text.toLowerCase()));
  const live = (fresh) => {
    if (f.range !== 'live' && f.range !== 'all') return;
    const good = fresh.filter((e) => e.seq > newest && fits(e));
    if (!good.length) return;
    newest = good[good.length - 1].seq;
    list.put(onceAsked(good.reverse()));
    tell();
  };

  let due = 0;
  const change = (key) => (value) => { f[key] = value; clearTimeout(due); due = setTimeout(() => load(), key === 'text' ? 200 : 0); };
  list.el.addEventListener('scroll', () => { if (more && list.el.scrollTop + list.el.clientHeight > list.el.scrollHeight - 2000) load(true); }, { passive: true });
  const sessions = () => [['', w.sessions], ...[...new Set([...state.sessions.values()].map((s) => s.name).concat(f.session ? [f.session] : []))].sort().map((n) => [n, n])];
  const bySession = select(sessions(), f.session, change('session'), w.session);
  const again = () => { if (document.activeElement !== bySession) bySession.replaceChildren(...sessions().map(([v, text]) => h('option', { value: v, selected: v === f.session }, text))); };
  const search = h('input', { type: 'search', value: f.text, placeholder: w.search, 'aria-label': w.search, oninput: (e) => change('text')(e.target.value) });
  const bar = [
    search, bySession, kindWords.length > 1 ? select(kindWords, f.kind, change('kind'), w.kind) : '', select(w.verdicts, f.verdict, change('verdict'), w.verdict), select(w.ranges, f.range, change('range'), w.range),
  ];
  const off = [on('audit', live), on('reset', () => load()), on('change', again)];
  load();
  return { bar, list, count, older, params, find: (text) => { search.value = text; change('text')(text); }, leave: () => { off.forEach((g) => g()); clearTimeout(due); } };
};

// facts are everything that a record says: first what people ask for, then, folded,
// what the record has besides.
const first = ['time', 'verdict', 'session', 'agent', 'project', 'action', 'status', 'bytes_up', 'bytes_down', 'duration_ms', 'exit_status'];
const above = new Set(['reason', 'rule']); // they stand over the facts
const fact = (k, v) => [h('dt', k.replaceAll('_', ' ')), h('dd', k === 'time' ? time(v) : k === 'verdict' ? verdict(v) : k.startsWith('bytes') ? bytes(v) : h('span.mono', folded(String(v))))];
export const facts = (e) => {
  const zero = (k) => e[k] === 0 && (k.startsWith('bytes') || k === 'duration_ms'); // of what was only judged
  const has = (k) => e[k] !== '' && e[k] !== null && e[k] !== undefined && !zero(k);
  const rest = Object.keys(e).filter((k) => has(k) && !first.includes(k) && !above.has(k));
  return [h('dl', first.filter(has).map((k) => fact(k, e[k]))), h('details', h('summary', w.recorded), h('dl', rest.map((k) => fact(k, e[k]))))];
};
