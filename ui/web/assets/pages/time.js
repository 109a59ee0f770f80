// Time: what a kept workspace was at each moment; back to one, on from one, into the project.
import { bytes, fill, h, keyed, labelled, select, time, verdict } from '../dom.js';
import { t } from '../words.js';
import { get, post, query } from '../api.js';
import { on, state } from '../live.js';
import { dialog, sure, toast } from '../above.js';

const w = t.time;
const told = ['session.start', 'session.stop', 'approval.request', 'approval.decision', 'file.autorun_changed', 'file.review', 'state.restore', 'state.fork', 'state.apply', 'state.undo'];

// shown writes a name with what an eye cannot see escaped.
const shown = (s) => s.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

// moments are what happened to a workspace, the newest first: now, its checkpoints, and what
// was recorded. Refusals of the same, one after the other, are one.
const momentsOf = (space, records) => {
  const all = space.checkpoints.map((c) => ({ key: c.id, at: c.time, checkpoint: c }));
  for (const e of records) {
    if (told.includes(e.kind) || e.verdict === 'deny') all.push({ key: `e${e.seq}`, at: e.time, event: e, times: 1 });
  }
  all.sort((a, b) => Date.parse(b.at) - Date.parse(a.at) || (a.key < b.key ? 1 : -1));
  const out = [{ key: 'now', now: true }];
  for (const m of all) {
    const last = out[out.length - 1];
    if (m.event && last.event && m.event.verdict === 'deny' && last.event.verdict === 'deny' && m.event.kind === last.event.kind && m.event.resource === last.event.resource) last.times++;
    else out.push(m);
  }
  return out;
};

export default (root, { words, go }) => {
  let spaces = [], name = words.get('name') || '', moments = [], chosen = 'now', path = '', since = false, diff = null, turn = 0, was = '';
  const pickSpace = h('span');
  const acts = h('div.acts-row', { role: 'group', 'aria-label': w.acts });
  const list = h('div.cards', { role: 'list', 'aria-label': w.list });
  const none = h('p.empty', { hidden: true }, w.empty, ' ', h('code', 'cloister run --workspace overlay -- …'));
  const side = h('section.panel', { 'aria-label': w.changes });
  root.append(h('div.head', h('h1', t.pages.time), pickSpace), h('p.soft', w.lead), h('div.split.even', h('div.panel', none, list), side));

  const space = () => spaces.find((s) => s.name === name);
  const moment = () => moments.find((m) => m.key === chosen) || moments[0];
  // standing is the checkpoint whose files a moment has: its own, or the last before it. Now has none.
  const standing = (m) => {
    if (!m || m.now) return null;
    const at = moments.indexOf(m);
    const found = moments.slice(at).find((x) => x.checkpoint);
    return found ? found.checkpoint : null;
  };
  const before = (m) => {
    const c = standing(m);
    const at = moments.findIndex((x) => c ? x.checkpoint === c : x.now);
    const found = moments.slice(at + 1).find((x) => x.checkpoint);
    return found ? found.checkpoint : null;
  };

  const named = (c) => {
    const turn = 'before a turn: ', text = shown(c.message);
    return c.auto && text.startsWith(turn) ? w.turn(text.slice(turn.length)) : text || (c.auto ? w.auto : w.unnamed);
  };
  const title = (m) => {
    if (m.now) return [h('strong', w.now), space().running ? verdict('running') : ''];
    if (m.checkpoint) return h(m.checkpoint.auto ? 'span' : 'strong', named(m.checkpoint));
    const e = m.event, word = w.events[e.kind];
    if (word && e.kind.startsWith('session.')) return word;
    return [word || e.kind, ' ', e.verdict && (e.verdict !== 'allow' || !word) ? [verdict(e.verdict), ' '] : '', h('code', shown(e.resource || '')), m.times > 1 ? ` ×${m.times}` : ''];
  };
  const under = (m) => {
    if (m.now) return space().project;
    if (m.checkpoint) return [time(m.at), ' · ', h('code', m.checkpoint.id), ` · ${bytes(m.checkpoint.bytes)}`, m.checkpoint.auto && m.checkpoint.message ? ` · ${w.auto}` : '', m.checkpoint.id === space().head ? ` · ${w.head}` : ''];
    return [time(m.at), m.event.reason ? ` · ${m.event.reason}` : ''];
  };
  const draw = () => {
    const s = space();
    fill(pickSpace, spaces.length ? select(spaces.map((x) => [x.name, x.name]), name, (v) => go(query('/time', { name: v })), w.spaces) : '');
    none.hidden = Boolean(s);
    side.hidden = !s;
    if (!s) { list.replaceChildren(); return; }
    keyed(list, moments, (m) => m.key, (m) => h('div', { role: 'listitem' }, h('button.card', { onclick: () => pick(m.key) }, h('span.what'), h('span.soft.when'))), (el, m) => {
      fill(el.querySelector('.what'), title(m));
      fill(el.querySelector('.when'), under(m));
      el.firstChild.setAttribute('aria-pressed', String(m.key === chosen));
    });
  };

  const button = (key, word, act, off, kind = '') => h(`button.small${kind}`, { onclick: act, disabled: off }, word, h('kbd', key));
  const detail = () => {
    const s = space(), m = moment();
    if (!s || !m) return;
    if (s.problem || s.busy) { fill(side, h('p.beware', s.problem || w.busy)); return; }
    const c = standing(m), last = before(m);
    fill(acts, button('c', w.checkpoint, checkpoint, false), button('r', w.restore, restore, !c || s.running), button('f', w.fork, fork, false), button('v', w.sides, sideBySide, false),
      button('a', w.apply, apply, !diff || !diff.changes.length || (!c && s.running), '.main'), button('d', w.discard, discard, !m.now || !diff || s.running), button('u', w.undo, undo, !s.applied.length));
    const parts = [h('h2.first', title(m)), acts];
    if (m.event) parts.push(h('p.soft', c ? w.standing(c.id) : w.before));
    parts.push(h('div.against', h('span.soft', w.against), h('div.group', { role: 'group', 'aria-label': w.against }, h('button.small', { 'aria-pressed': String(!since), onclick: () => compare(false) }, w.project),
      h('button.small', { 'aria-pressed': String(since), disabled: !last, onclick: () => compare(true) }, last ? w.since(last.id) : w.noBefore))));
    if (!c && s.running) parts.push(h('p.soft', w.moving));
    if (!diff) parts.push(h('p.soft', w.looking));
    else if (!diff.changes.length) parts.push(h('p.empty', w.same));
    else {
      const clash = new Map(diff.conflicts.map((x) => [x.path, x.why])), held = new Map(diff.held.map((x) => [x.path, x.why]));
      parts.push(h('div.cards', { role: 'list', 'aria-label': w.changes }, diff.changes.map((x) => h('div', { role: 'listitem' }, h('button.card', { 'aria-pressed': String(x.path === path), onclick: () => open(x.path) },
        h('span', h('span.soft', `${w.ops[x.change] || x.change} `), h('code', shown(x.path)), x.kind === 'file' && x.change !== 'deleted' ? h('span.soft', ` ${bytes(x.size)}`) : '', x.from ? h('span.soft', ` ${w.from} ${shown(x.from)}`) : ''),
        clash.has(x.path) ? h('span.verdict.deny', ` ${w.conflict}: ${clash.get(x.path)}`) : '', held.has(x.path) ? h('span.verdict.ask', ` ${held.get(x.path)}`) : ''),
      x.path === path && diff.patch !== undefined ? text() : ''))));
      if (diff.more) parts.push(h('p.soft', w.more(diff.more)));
    }
    fill(side, parts);
  };
  const text = () => h('div.diff', { role: 'group', tabindex: 0, 'aria-label': shown(path) },
    diff.patch.split('\n').map((line) => h(line[0] === '+' ? 'div.add' : line[0] === '-' ? 'div.cut-line' : line[0] === '@' ? 'div.gap' : 'div', line || ' ')), diff.cut ? h('div.gap', w.cut) : '');

  const asked = () => {
    const m = moment(), c = standing(m), last = since ? before(m) : null;
    return { at: c ? c.id : '', since: last ? last.id : '' };
  };
  const look = async () => {
    const s = space();
    if (!s || s.problem || s.busy) { detail(); return; }
    const mine = ++turn;
    const m = moment();
    if (m.event && !standing(m)) { diff = { changes: [], conflicts: [], held: [], more: 0 }; detail(); return; }
    const d = await get(query(`/v1/workspaces/${name}/diff`, asked())).catch((e) => { if (mine === turn) { fill(side, h('p.beware', e.message)); } throw e; });
    if (mine !== turn) return;
    diff = { ...d, patch: undefined };
    detail();
    if (path && d.changes.some((x) => x.path === path)) open(path);
  };
  const open = async (p) => {
    const mine = turn;
    path = p;
    const d = await get(query(`/v1/workspaces/${name}/diff`, { ...asked(), path: p }));
    if (mine !== turn || path !== p) return;
    diff = { ...diff, patch: d.patch, cut: d.cut };
    detail();
  };
  const pick = (key) => { chosen = key; diff = null; draw(); detail(); look(); };
  const compare = (v) => { since = v; diff = null; detail(); look(); };

  const act = async (verb, body) => {
    const done = await post(`/v1/workspaces/${name}/${verb}`, body);
    await load();
    return done;
  };
  const checkpoint = () => dialog(w.checkpointTitle(name), (close) => {
    const box = h('input', { 'aria-label': w.message, maxlength: 200, placeholder: w.message });
    const send = async () => { close(); const done = await act('checkpoint', { message: box.value }); pick(done.checkpoint.id); toast(w.made(done.said)); };
    box.addEventListener('keydown', (e) => { if (e.key === 'Enter') send(); });
    return [box, h('div.acts', h('button', { onclick: close }, t.cancel), h('button.main', { onclick: send }, w.checkpoint))];
  });
  const restore = async () => {
    const c = standing(moment());
    if (!c || space().running || !await sure(w.restoreTitle(name, c.id), w.restoreText, w.restore)) return;
    const done = await act('restore', { checkpoint: c.id });
    pick('now');
    toast(w.restored(done.said, done.checkpoint.id), undefined, 8000);
  };
  const fork = () => {
    const s = space(), c = standing(moment());
    dialog(w.forkTitle(name), (close) => {
      const count = h('input', { type: 'number', min: 1, max: 20, value: 1 });
      const prompt = h('input', { maxlength: 2000, disabled: !s.agent });
      const send = async () => {
        if (!count.reportValidity()) return;
        close();
        const done = await act('fork', { checkpoint: c ? c.id : '', count: Number(count.value), prompt: prompt.value.trim() });
        toast(w.forked(done.said), { word: w.show, do: () => go(query('/time', { name: done.forks[0].name })) }, 8000);
      };
      for (const box of [count, prompt]) box.addEventListener('keydown', (e) => { if (e.key === 'Enter') send(); });
      return [h('p', c ? w.forkText(c.id) : w.forkNow), labelled(w.count, count), labelled(s.agent ? w.prompt(s.agent) : w.noAgent, prompt),
        h('div.acts', h('button', { onclick: close }, t.cancel), h('button.main', { onclick: send }, w.fork))];
    });
  };
  // family are the forks of a workspace, or where it has none, it and those of the same moment.
  const family = (s) => {
    const forks = spaces.filter((x) => x.parent && x.parent.startsWith(`${s.name}@`));
    return forks.length ? forks : spaces.filter((x) => x === s || s.parent && x.parent === s.parent);
  };
  const sideBySide = () => {
    const s = space(), chosen = new Set(family(s).map((x) => x.name));
    const el = dialog(w.sidesTitle(s.project), (close) => {
      const command = h('input', { maxlength: 2000, placeholder: 'go test ./...' });
      const sides = spaces.filter((x) => x.project === s.project && !x.problem);
      const out = h('div', { 'aria-live': 'polite' });
      const start = h('button.main', { onclick: () => send() }, w.sides);
      const send = async () => {
        const [first, ...others] = sides.map((x) => x.name).filter((n) => chosen.has(n));
        if (!first || start.disabled) return;
        start.disabled = true;
        fill(out, h('p.soft', command.value.trim() ? w.trying : w.looking));
        try {
          fill(out, table((await post(`/v1/workspaces/${first}/compare`, { with: others, run: command.value.trim() })).compared));
        } catch (e) {
          fill(out, h('p.beware', e.message));
        } finally {
          start.disabled = false;
        }
      };
      const show = (n) => { close(); go(query('/time', { name: n })); };
      const table = (c) => [h('table', h('thead', h('tr', h('th', w.path), c.names.map((n, i) => h('th', h('button.small.show', { onclick: () => show(n) }, n, i < 9 ? h('kbd', String(i + 1)) : ''))))),
        h('tbody', c.runs.length ? h('tr.run', h('th', w.run), c.runs.map((r) => h('td', verdict(r.status ? 'failed' : 'ok'), ` exit ${r.status}, ${(r.duration_ms / 1000).toFixed(1)} s`))) : '',
        c.paths.map((p) => h('tr', h('th', h('code', shown(p.path))), p.cells.map((x) => h('td', shown(x))))))),
      c.more ? h('p.soft', w.more(c.more)) : '', h('p.soft', w.sidesNext),
      c.runs.map((r, i) => [h('p.soft', c.names[i]), h('div.diff', { role: 'group', tabindex: 0, 'aria-label': `${w.run} ${c.names[i]}` }, r.last.map((line) => h('div', line.split('\t').map(shown).join('\t') || ' ')))])];
      command.addEventListener('keydown', (e) => { if (e.key === 'Enter') send(); });
      return [h('p', w.sidesText), h('div.sides', sides.map((x) => h('label.check', h('input', { type: 'checkbox', checked: chosen.has(x.name), onchange: (e) => { if (e.target.checked) chosen.add(x.name); else chosen.delete(x.name); } }), x.name))),
        labelled(w.command, command), out, h('div.acts', h('button', { onclick: close }, t.close), start)];
    });
    el.addEventListener('keydown', (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches('input:not([type=checkbox])') || !/^[1-9]$/.test(e.key)) return;
      const to = el.querySelectorAll('button.show')[e.key - 1];
      if (to) { e.preventDefault(); to.click(); }
    });
  };
  const apply = () => {
    const s = space(), c = standing(moment());
    if (!diff || !diff.changes.length || (!c && s.running)) return;
    if (since) { compare(false); toast(w.whole); return; }
    const { digest, held, conflicts, changes, more } = diff;
    if (conflicts.length) { toast(w.conflicts(conflicts.length)); return; }
    dialog(w.applyTitle(s.project), (close) => {
      const yes = h('input', { type: 'checkbox', onchange: () => { send.disabled = !yes.checked; } });
      const send = h('button.main', { disabled: held.length > 0, onclick: async () => {
        close();
        const done = await act('apply', { checkpoint: c ? c.id : '', digest, autorun: held.length > 0 });
        toast(w.applied(done.said), { word: w.undo, do: undo }, 8000);
      } }, w.apply);
      return [h('p', w.applyText(changes.length + more)), held.length ? [h('p.beware', w.held), h('div.cards', held.map((x) => h('div', h('code', shown(x.path)), h('span.soft', ` ${x.why}`)))), h('label.check', yes, w.looked)] : '',
        h('div.acts', h('button', { onclick: close, autofocus: true }, t.cancel), send)];
    });
  };
  // discard gives up the path that is open, or the workspace once its name is typed.
  const discard = () => {
    const s = space();
    if (!diff || !moment().now || s.running) return;
    if (since) { compare(false); toast(w.whole); return; }
    const { digest, changes } = diff, one = changes.some((x) => x.path === path) ? path : '';
    dialog(w.discardTitle(name), (close) => {
      const only = h('input', { type: 'checkbox', checked: true, onchange: () => ready() });
      const typed = h('input', { oninput: () => ready() }), field = labelled(w.discardName(name), typed);
      const alone = () => Boolean(one) && only.checked;
      const send = h('button.main', { onclick: async () => {
        close();
        toast(w.discarded((await act('discard', { digest, paths: alone() ? [one] : [] })).said));
      } }, w.discard);
      const ready = () => { field.hidden = alone(); send.disabled = !alone() && typed.value !== name; };
      ready();
      return [h('p', w.discardText(s.checkpoints.length)), one ? h('label.check', only, w.discardOnly, ' ', h('code', shown(one))) : '', field,
        h('div.acts', h('button', { onclick: close, autofocus: true }, t.cancel), send)];
    });
  };
  const undo = async () => {
    const s = space();
    if (!s || !s.applied.length || !await sure(w.undoTitle, shown(s.applied[0]), w.undo)) return;
    await act('undo', { message: s.applied[0] });
    toast(w.undone);
  };

  const load = async () => {
    spaces = await get('/v1/workspaces');
    if (!space()) name = spaces.length ? spaces[0].name : '';
    const s = space();
    const records = s ? (await get(query('/v1/audit', { session: name, limit: 500 }))).records : [];
    if (!s || s !== space()) { draw(); return; }
    moments = momentsOf(s, records);
    if (!moments.some((m) => m.key === chosen)) chosen = 'now';
    draw();
    const last = moments.find((m) => m.event && /^(session|state)/.test(m.event.kind));
    const is = JSON.stringify([chosen, s.name, last && last.key, s.running, s.busy, s.problem, s.head, s.applied, s.checkpoints.length]);
    if (is !== was) { was = is; look(); } // else what is read there stays as it is
  };
  let late = 0; // many events at once are one look
  const soon = () => { clearTimeout(late); late = setTimeout(load, 300); };
  const tells = (e) => e.kind.startsWith('state.') || e.kind.startsWith('session.') || e.session === name && (told.includes(e.kind) || e.verdict === 'deny');
  const runs = () => [...state.sessions.values()].some((s) => s.name === name && s.state === 'running');
  const off = [on('audit', (all) => { if (all.some(tells)) soon(); }), on('change', () => { if (space() && space().running !== runs()) soon(); }), on('reset', load)];
  load();
  const step = (by) => {
    const at = moments.findIndex((m) => m.key === chosen), to = moments[at + by];
    if (!to) return;
    pick(to.key);
    const el = list.children[at + by];
    if (el) { el.firstChild.focus(); el.scrollIntoView({ block: 'nearest' }); }
  };
  const keys = { j: () => step(1), k: () => step(-1), c: checkpoint, r: restore, f: fork, v: sideBySide, a: apply, d: discard, u: undo };
  return { leave: () => { clearTimeout(late); off.forEach((f) => f()); }, keys: (key) => { if (!space() || !keys[key]) return false; keys[key](); return true; } };
};
