// Now: every cloister, what it does, what waits for an answer.
import { ago, fill, h, keyed, verdict } from '../dom.js';
import { t } from '../words.js';
import { get, post, query, Refused } from '../api.js';
import { on, pending, state } from '../live.js';
import { dialog, sure, toast } from '../above.js';

const w = t.now;
const span = 600e3, bars = 30, page = 20;
const busy = new Set(['net.connect', 'http.request', 'net.dns', 'hostexec.request', 'mcp.call', 'secret.use']);

export default (root) => {
  const seen = new Map(); // by session ID: events of the last ten minutes
  const last = new Map();

  const note = (e) => {
    if (!e.session_id) return;
    if (busy.has(e.kind)) {
      let list = seen.get(e.session_id);
      if (!list) seen.set(e.session_id, list = []);
      list.push({ at: +new Date(e.time), bad: e.verdict === 'deny' || e.verdict === 'ask' });
      if (list.length > 5000) list.splice(0, 1000);
    }
    if ((busy.has(e.kind) && e.kind !== 'net.dns') || e.kind === 'exec') {
      const was = last.get(e.session_id);
      if (!was || was.seq < e.seq) last.set(e.session_id, e);
    }
  };

  const spark = (id) => {
    const now = Date.now();
    const list = (seen.get(id) || []).filter((e) => now - e.at < span);
    if (list.length) seen.set(id, list); else seen.delete(id);
    const good = new Array(bars).fill(0), bad = new Array(bars).fill(0);
    for (const e of list) {
      const i = Math.max(0, Math.min(bars - 1, bars - 1 - Math.floor((now - e.at) / (span / bars))));
      (e.bad ? bad : good)[i]++;
    }
    const top = Math.max(4, ...good.map((n, i) => n + bad[i]));
    const rect = (i, n, y, cls) => n ? h(cls ? `rect.${cls}` : 'rect', { x: i * 4, width: 3, y: 22 - y - n * 22 / top, height: Math.max(1, n * 22 / top) }) : '';
    return h('svg.spark', { viewBox: '0 0 120 22', role: 'img', 'aria-label': w.sparkName(list.length) }, h('line', { x1: 0, x2: 120, y1: 21.5, y2: 21.5 }),
      good.map((n, i) => rect(i, n, 0, '')), bad.map((n, i) => rect(i, n, good[i] * 22 / top, 'bad')));
  };

  const doing = (s) => {
    const e = last.get(s.id);
    if (!e) return (s.command || []).join(' ') || w.idle;
    const what = e.kind === 'exec' ? e.resource : e.method ? `${e.method} ${e.host}${e.path || ''}` : e.resource || e.host || '';
    return `${e.verdict && e.verdict !== 'allow' ? e.verdict + ' ' : ''}${what}`;
  };

  const stop = async (s) => {
    if (!await sure(w.stop, w.stopAsk(s.name), w.stop, 'deny')) return;
    try {
      await post(`/v1/sessions/${s.id}/stop`, { reason: 'stopped in the window' });
      toast(w.stopped(s.name));
    } catch (e) { toast(t.failed(e.message)); }
  };

  const begin = async (project, agent) => {
    const busy = toast(w.starting, null, 60e3);
    try {
      await post('/v1/projects/start', { project, ...agent });
      toast(w.started(project.split('/').pop()));
    } catch (e) { toast(t.failed([e.message, ...(e.hints || [])].join(' · ')), null, 12e3); } finally { busy.remove(); }
  };
  const start = async () => {
    const projects = await get('/v1/projects');
    dialog(w.startTitle, (close) => {
      const project = h('select', { 'aria-label': w.project }, projects.map((p) => h('option', { value: p }, p)));
      const agent = h('input', { 'aria-label': w.agent, value: 'claude', maxlength: 64 }), branch = h('input', { 'aria-label': w.branch, maxlength: 200 });
      return [projects.length ? '' : h('p', w.noProjects), h('div.field', h('span', w.project), project), h('div.field', h('span', w.agent), agent), h('div.field', h('span', w.branch), branch),
        h('div.acts', h('button', { onclick: close }, t.cancel), h('button.main', { disabled: !projects.length, onclick: () => { close(); begin(project.value, { agent: agent.value.trim(), branch: branch.value.trim() }); } }, w.startDo))];
    });
  };

  let shown = page; // of those that have ended
  const older = h('button', { hidden: true, onclick: () => { shown += 50; draw(); } });
  const live = h('tbody'), over = h('tbody');
  const column = (name, cls) => h(cls ? `th.${cls}` : 'th', { scope: 'col' }, name);
  const none = h('div.panel.empty', h('p', w.empty), h('p', w.emptyHint), h('p', h('button.main', { onclick: start }, w.start)));
  const running = h('div.panel.scroll', h('table', h('thead', h('tr', column(w.name), column(w.project, 'wide'), column(w.agent, 'wide'), column(w.state, 'wide'), column(w.doing), column(w.spark, 'wide'),
    column(w.asks), column(w.age, 'wide'), column(h('span.hidden-text', w.actions)))), live));
  const ended = h('section', h('h2', w.ended), h('div.panel.scroll', h('table', h('thead', h('tr', column(w.name), column(w.project, 'wide'), column(w.agent, 'wide'), column(w.state), column(w.age, 'wide'),
    column(h('span.hidden-text', w.actions)))), over)), h('p', older));
  root.append(h('div.head', h('h1', t.pages.now), h('button', { onclick: start }, w.start)), none, running, ended);

  // nameOf is a project, or its worktree, in few letters.
  const nameOf = (s) => s.project.split('/').pop() + (s.branch && s.path && s.path !== s.project ? ` · ${s.branch}` : '');
  const row = () => h('tr');
  const cells = (tr, list) => {
    while (tr.children.length < list.length) tr.append(h('td'));
    list.forEach((c, i) => fill(tr.children[i], c));
  };
  const draw = () => {
    const all = [...state.sessions.values()];
    const alive = all.filter((s) => s.state === 'running' || s.state === 'starting').sort((a, b) => a.created_at < b.created_at ? -1 : 1);
    const gone = all.filter((s) => !alive.includes(s)).sort((a, b) => a.created_at > b.created_at ? -1 : 1);
    const past = gone.slice(0, shown);
    const asks = pending();
    none.hidden = alive.length > 0 || !state.loaded;
    running.hidden = !alive.length;
    ended.hidden = !gone.length;
    keyed(live, alive, (s) => s.id, (s) => {
      const tr = row();
      tr.append(...Array.from({ length: 8 }, () => h('td')), h('td.acts',
        h('a.button.small', { href: `/terminal?session=${s.id}`, hidden: !s.terminal, 'aria-label': `${w.terminal} ${s.name}` }, w.terminal), ' ',
        h('button.small', { onclick: () => stop(s), 'aria-label': `${w.stop} ${s.name}` }, w.stop)));
      for (const i of [1, 2, 3, 5, 7]) tr.children[i].className = 'wide';
      tr.children[4].className = 'cut mono';
      return tr;
    }, (tr, s) => {
      const n = asks.filter((a) => a.session === s.name).length;
      cells(tr, [h('strong', s.name), h('span', { title: s.path || s.project }, nameOf(s)), s.agent || '', verdict(s.state), doing(s), spark(s.id),
        n ? h('a.count', { href: '/asks', 'aria-label': t.asksWaiting(n) }, n) : '', ago(s.created_at)]);
      tr.children[4].title = doing(s);
    });
    older.hidden = gone.length <= shown;
    fill(older, w.moreEnded(gone.length - shown));
    keyed(over, past, (s) => s.id, (s) => {
      const tr = row();
      tr.append(...Array.from({ length: 5 }, () => h('td')), h('td.acts', h('button.small', { onclick: () => begin(s.project, { agent: s.agent, branch: s.path && s.path !== s.project ? s.branch : '' }), 'aria-label': `${w.startSame} ${s.name}`, hidden: !s.terminal }, w.startSame)));
      for (const i of [1, 2, 4]) tr.children[i].className = 'wide';
      tr.children[3].className = 'cut';
      return tr;
    }, (tr, s) => cells(tr, [h('strong', s.name), h('span', { title: s.path || s.project }, nameOf(s)), s.agent || '',
      [verdict(s.state), ' ', h('span.soft', s.reason || (s.exit_status !== undefined ? w.exit(s.exit_status) : ''))], ago(s.stopped_at || s.created_at)]));
  };

  const load = async () => {
    const r = await get(query('/v1/audit', { since: new Date(Date.now() - span).toISOString(), limit: 2000 }));
    seen.clear();
    for (const e of r.records.reverse()) note(e);
    draw();
  };
  const off = [on('change', draw), on('audit', (list) => { list.forEach(note); soon(); }), on('reset', load)];
  let due = 0;
  const soon = () => { due = due || setTimeout(() => { due = 0; draw(); }, 250); };
  const tick = setInterval(draw, 5000);
  draw();
  load().catch((e) => { if (e instanceof Refused) toast(t.failed(e.message)); });
  return { leave: () => { off.forEach((f) => f()); clearInterval(tick); clearTimeout(due); } };
};
