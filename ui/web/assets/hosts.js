// What is shown, by host: how often, how much, what was refused, by which rule.
import { bytes, fill, h, keyed } from './dom.js';
import { t } from './words.js';
import { get, query } from './api.js';
import { toRule } from './draft.js';

const w = t.traffic;
const most = 50; // hosts that are drawn; the others are counted

// asked is the type that a name was asked for.
const asked = (e) => e.kind === 'net.dns' ? (/(?:^|; )([A-Z]+[0-9]*)$/.exec(e.reason || '') || [])[1] : '';

// onceAsked makes one event of a program's questions for one name's addresses of either family.
export const onceAsked = (records) => {
  const out = [];
  const recent = new Map();
  for (const e of records) {
    const type = asked(e);
    const key = type && [e.session_id, e.host, e.verdict, e.rule].join('\n');
    const twin = key && recent.get(key);
    if (twin && Math.abs(new Date(twin.time) - new Date(e.time)) < 1000 && !(twin.types || [asked(twin)]).includes(type)) {
      twin.types = (twin.types || [asked(twin)]).concat(type).sort();
      continue;
    }
    if (key) recent.set(key, e);
    out.push(e);
  }
  return out;
};
export const typesOf = (e) => e.types ? e.types.join(', ') : asked(e);

// byHost sums events, the most refused hosts first and then the busiest.
export const byHost = (items) => {
  const all = new Map();
  for (const e of items) {
    if (!e.host) continue;
    let x = all.get(e.host);
    if (!x) all.set(e.host, x = { host: e.host, connects: 0, requests: 0, refused: 0, up: 0, down: 0, sentUp: 0, sentDown: 0, rule: '' });
    if (e.verdict && e.kind === 'net.connect') x.connects++;
    if (e.verdict && e.kind === 'http.request') x.requests++;
    if (e.verdict === 'deny' || e.verdict === 'ask') x.refused++;
    // What requests moved is a part of what their connections moved.
    if (e.kind === 'net.connect') { x.up += e.bytes_up || 0; x.down += e.bytes_down || 0; }
    if (e.kind === 'http.request') { x.sentUp += e.bytes_up || 0; x.sentDown += e.bytes_down || 0; }
    if (!x.rule && e.rule) x.rule = e.rule;
  }
  for (const x of all.values()) { x.up = Math.max(x.up, x.sentUp); x.down = Math.max(x.down, x.sentDown); }
  const weight = (x) => x.connects + x.requests;
  return [...all.values()].sort((a, b) => b.refused - a.refused || weight(b) - weight(a) || (a.host < b.host ? -1 : 1));
};

// covers reports whether a name of a rule or a binding means a host.
export const covers = (name, host) => {
  const bare = name.replace(/:[0-9]+$/, '');
  return bare === host || (bare.startsWith('*.') && host.endsWith(bare.slice(1)));
};

// toTraffic is the address of all that is recorded of a host.
export const toTraffic = (name) => query('/traffic', { range: 'all', text: name.replace(/^\*\./, '').replace(/:[0-9]+$/, '') });

// secretsAt gives the names of the secrets that may go to a host.
export const secretsAt = async () => {
  const s = await get('/v1/secrets').catch(() => ({ secrets: [] }));
  return (host) => s.secrets.filter((x) => (x.bindings || []).some((b) => b.hosts.some((name) => covers(name, host) || covers(host, name)))).map((x) => x.name);
};

// hosts is the panel; pick is called with a host that a person chose.
export const hosts = (pick) => {
  const body = h('tbody'), name = h('summary'), rest = h('p.soft', { hidden: true });
  const column = (text, cls) => h(cls ? `th.${cls}` : 'th', { scope: 'col' }, text);
  const el = h('details.panel.hosts', { hidden: true, open: innerWidth > 700 }, name, h('div.scroll', h('table',
    h('thead', h('tr', column(w.host), column(w.refused, 'num'), column(w.connects, 'num'), column(w.requests, 'num'), column(w.up, 'num.wide'), column(w.down, 'num.wide'), column(w.rule, 'wide'), column(w.secrets, 'wide'))), body)), rest);
  let secrets = () => [];
  secretsAt().then((f) => { secrets = f; draw(last); });
  let last = [];
  const draw = (items) => {
    last = items;
    const all = byHost(items);
    el.hidden = !all.length;
    fill(name, w.hosts(all.length));
    fill(rest, w.moreHosts(all.length - most));
    rest.hidden = all.length <= most;
    keyed(body, all.slice(0, most), (x) => x.host, (x) => h('tr', h('td', h('button.small.plain.mono', { onclick: () => pick(x.host) }, x.host)), Array.from({ length: 7 }, (_, i) => h(i < 3 ? 'td.num' : i < 5 ? 'td.num.wide' : 'td.wide'))),
      (tr, x) => {
        const to = toRule(x.rule);
        const cells = [x.refused ? h('span.verdict.deny', x.refused) : '', x.connects || '', x.requests || '', bytes(x.up), bytes(x.down),
          to ? h('a.mono', { href: to, title: x.rule }, x.rule.replace(/ \(.*\)$/, '')) : h('span.soft', x.rule.replace(/ \(.*\)$/, '')), secrets(x.host).map((s) => [h('a', { href: '/secrets' }, s), ' '])];
        cells.forEach((c, i) => fill(tr.children[i + 1], c));
      });
  };
  return { el, draw };
};
