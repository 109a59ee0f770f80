// Asks: what waits for a person, answered with one key.
import { ago, fill, h, keyed, time, verdict } from '../dom.js';
import { t } from '../words.js';
import { post, Refused } from '../api.js';
import { on, state } from '../live.js';
import { sure, toast } from '../above.js';

const w = t.asks;
const all = ['once', 'session', 'project', 'global'];
// guard is how long answers are dead after something moved by itself under the
// finger (HARDENING 5.8).
const guard = 500;
const undoFor = 10e3;

export default (root) => {
  let chosen = null; // ID
  let scope = 'once'; // never kept: what was meant for one ask is not meant for the next day's
  let moved = 0;
  let filter = '';
  let order = [];
  let undo = null;
  const wide = new Set(); // IDs answered for the wildcard
  const read = new Set(); // IDs whose end was on the screen
  const sent = new Set();

  const list = h('div', { role: 'list', 'aria-label': w.list });
  const none = h('div.panel.empty', h('p', w.none), h('p', w.noneHint));
  const history = h('tbody'), kept = h('tbody');
  const scopes = h('div.group', { role: 'group', 'aria-label': w.scope }, all.map((s, i) => h('button', {
    'aria-pressed': String(s === scope), onclick: () => setScope(s), 'data-scope': s }, w.scopes[s], h('kbd', { 'aria-hidden': 'true' }, i + 1))));
  const search = h('input', { type: 'search', 'aria-label': w.filter, placeholder: w.filter, oninput: (e) => { filter = e.target.value.toLowerCase(); draw(); } });
  root.append(
    h('div.head', h('h1', t.pages.asks), h('span.soft.wide', w.holds), scopes, search),
    none, list, h('p.soft.wide', w.keys),
    h('section', h('h2', w.remembered), h('div.panel.scroll', h('table', kept), h('p.empty', { hidden: true }, w.noRemembered))),
    h('section', h('h2', w.history), h('div.panel.scroll', h('table', history), h('p.empty', { hidden: true }, w.noHistory))));

  const setScope = (s) => {
    scope = s;
    for (const b of scopes.children) b.setAttribute('aria-pressed', String(b.dataset.scope === s));
    draw();
  };
  // The scope that an answer to a will have.
  const scopeOf = (a) => a.scopes.includes(scope) ? scope : a.scopes[0] || 'once';

  const answer = async (a, allow) => {
    if (sent.has(a.id)) return;
    if (performance.now() - moved < guard) { toast(w.moved); return; }
    if (allow && !read.has(a.id)) { toast(w.unseen); return; }
    const s = scopeOf(a);
    const wider = wide.has(a.id);
    if (wider && s === 'once') { toast(w.wideOnce(a.wildcard)); return; }
    const reply = { scope: s, nonce: a.nonce };
    if (wider) reply.pattern = a.wildcard;
    const why = [allow && a.marks ? w.sureMarks(a.marks) : '', allow && wider ? w.sureWide(a.wildcard, w.long[s]) : ''].filter(Boolean);
    if (why.length) {
      if (!await sure(w.sureTitle, [h('p.mono', wider ? a.wildcard : a.title), ...why], w.sureDo, 'allow')) return;
      reply.confirm = true;
    }
    sent.add(a.id);
    try {
      await post(`/v1/approvals/${a.id}/${allow ? 'approve' : 'deny'}`, reply);
      if (s === 'once') {
        toast(w.said(allow ? 'allow' : 'deny', a.title, w.scopes[s]));
      } else {
        // What is remembered can be taken back; what went out once cannot.
        const act = { word: w.undo, do: () => takeBack(a.id) };
        undo = act;
        setTimeout(() => { if (undo === act) undo = null; }, undoFor);
        toast(w.said(allow ? 'allow' : 'deny', wider ? a.wildcard : a.title, w.scopes[s]), act, undoFor);
      }
    } catch (e) {
      sent.delete(a.id);
      toast(t.failed(e.message));
      if (!(e instanceof Refused)) throw e;
    }
  };

  const takeBack = async (id) => {
    undo = null;
    try {
      await post(`/v1/decisions/${id}/undo`, {});
      toast(w.undone);
    } catch (e) { toast(t.failed(e.message)); }
  };

  const make = (a) => {
    const details = h('div.details', { tabindex: 0, role: 'group', 'aria-label': a.title }, h('dl',
      a.details.map((d) => [h('dt', d.label), h('dd', h('code', d.text))]),
      h('dt', w.because), h('dd', a.reason), a.rule ? [h('dt', w.rule), h('dd', a.rule)] : ''));
    const allow = h('button.allow', { disabled: true, onclick: () => answer(state.approvals.get(a.id), true) }, w.allow, h('kbd', { 'aria-hidden': 'true' }, 'a'));
    const el = h('div.panel.ask', { role: 'listitem', onfocusin: () => choose1(a.id), onclick: () => choose1(a.id) },
      h('div.top', h('div', h('span.soft', `${a.session} · ${a.kind}`), h('h2', a.title)), h('span.left')),
      a.marks ? h('p.beware', w.beware(a.marks)) : '', details,
      h('p.soft.covers'),
      h('div.answer',
        a.wildcard ? h('label.check', h('input', { type: 'checkbox', onchange: (e) => { if (e.target.checked) wide.add(a.id); else wide.delete(a.id); draw(); } }), w.wide(a.wildcard)) : '',
        h('div.acts', h('span.soft.for'), h('button.deny', { onclick: () => answer(state.approvals.get(a.id), false) }, w.deny, h('kbd', { 'aria-hidden': 'true' }, 'd')), allow)));
    // Its end has to have been on the screen before it can be allowed (HX-17).
    const look = () => {
      if (details.scrollTop + details.clientHeight >= details.scrollHeight - 4) read.add(a.id);
      allow.disabled = !read.has(a.id);
      allow.title = allow.disabled ? w.readOn : '';
    };
    details.addEventListener('scroll', look, { passive: true });
    requestAnimationFrame(look);
    return el;
  };

  const choose1 = (id) => { if (chosen !== id) { chosen = id; draw(); } };

  const draw = () => {
    const waiting = [...state.approvals.values()].filter((a) => a.state === 'pending')
      .filter((a) => !filter || `${a.session} ${a.kind} ${a.title}`.toLowerCase().includes(filter))
      .sort((a, b) => a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : a.id < b.id ? -1 : 1);
    const ids = waiting.map((a) => a.id);
    // Something that stood above went away, or what was chosen did: what is below
    // moved up under the finger.
    const now = new Set(ids);
    if (order.some((id, i) => !now.has(id) && i < order.length - 1)) moved = performance.now();
    if (!now.has(chosen)) {
      if (chosen && ids.length) moved = performance.now();
      if (!chosen && ids.length) moved = performance.now();
      chosen = ids[0] || null;
    }
    order = ids;
    none.hidden = ids.length > 0 || !state.loaded;
    // More than a person looks at need not be drawn; they come up as others go.
    keyed(list, waiting.slice(0, 50), (a) => a.id, make, (el, a) => {
      el.classList.toggle('chosen', a.id === chosen);
      const left = Math.max(0, Math.round((new Date(a.expires_at) - Date.now()) / 1000));
      fill(el.querySelector('.left'), w.left(left) + (a.waiting > 1 ? `, ${w.waiting(a.waiting)}` : ''));
      fill(el.querySelector('.for'), w.forScope(w.scopes[scopeOf(a)]));
      // What an answer of the chosen scope covers, and to what it is bound.
      const covers = (a.covers || []).find((c) => c.scope === scopeOf(a) && !c.pattern === !wide.has(a.id));
      fill(el.querySelector('.covers'), covers ? covers.text : '', covers && covers.digest ? [`; ${w.bound} `, h('code', covers.digest)] : '');
    });
    const past = [...state.approvals.values()].filter((a) => a.state !== 'pending').sort((a, b) => a.settled_at > b.settled_at ? -1 : 1).slice(0, 100);
    history.parentNode.nextSibling.hidden = past.length > 0;
    keyed(history, past, (a) => a.id, (a) => h('tr', h('td', time(a.settled_at)), h('td', verdict(a.state), h('span.hidden-text', w.states[a.state] || '')),
      h('td.wide', a.session), h('td.cut.mono', { title: a.title }, a.pattern || a.title),
      h('td.wide', a.scope ? w.scopes[a.scope] : ''), h('td.wide.soft', a.by ? w.by(a.by) : w.states[a.state] || '')), () => {});
    kept.parentNode.nextSibling.hidden = state.decisions.length > 0;
    keyed(kept, state.decisions.slice(0, 200), (d) => d.id + d.scope, (d) => h('tr', h('td', verdict(d.answer)), h('td.cut.mono', { title: d.shown || d.subject }, d.kind === 'hostexec' && d.shown ? d.shown : d.subject),
      h('td', w.scopes[d.scope] || d.scope), h('td.wide', d.session || d.project || ''), h('td.wide', ago(d.at)),
      h('td.acts', h('button.small', { onclick: () => takeBack(d.id), 'aria-label': `${w.takeBack}: ${d.subject}` }, w.takeBack))), () => {});
  };

  const off = [on('change', draw)];
  const tick = setInterval(draw, 1000);
  draw();
  return {
    leave: () => { off.forEach((f) => f()); clearInterval(tick); },
    keys: (key) => {
      const at = order.indexOf(chosen);
      const a = state.approvals.get(chosen);
      const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[key];
      if (step && order.length) {
        chosen = order[Math.max(0, Math.min(order.length - 1, at + step))];
        draw();
        const el = [...list.children].find((c) => c.dataset.key === chosen);
        if (el) el.scrollIntoView({ block: 'nearest' });
        return true;
      }
      if (key === ' ' && a) {
        const d = list.querySelector('.chosen .details');
        if (d) d.scrollBy({ top: d.clientHeight });
        return true;
      }
      if (all[Number(key) - 1]) { setScope(all[Number(key) - 1]); return true; }
      if (key === 'u' && undo) { document.querySelector('.toast button')?.parentNode.remove(); undo.do(); return true; }
      if (!a) return false;
      if (key === 'a' || key === 'd') { answer(a, key === 'a'); return true; }
      if (key === 'w' && a.wildcard) {
        const box = list.querySelector('.chosen .check input');
        if (box) box.click();
        return true;
      }
      return false;
    },
  };
};
