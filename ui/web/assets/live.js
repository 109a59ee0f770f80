// What happens, as it happens. One tab of this browser reads the guardian's
// stream and tells the others: a browser opens six connections to a host, and
// every tab would keep one. Which tab it is, a lock of the browser's says, so
// that another one goes on when it is closed.
import { get, query, request } from './api.js';
import { Offline } from './sign.js';

// state is what every page may show. It is fetched anew whenever events may have
// been missed: after a break, a sleep, a restart of the guardian.
export const state = {
  online: null, // nobody knows yet
  approvals: new Map(),
  sessions: new Map(),
  decisions: [],
  policy: '',
  status: {},
  loaded: false,
};

const target = new EventTarget();
// on calls f for 'change' (of state), 'audit' (new events, oldest first), 'ask' (a
// question appeared), 'commands', 'online', 'reset'; it gives back how to stop that.
export const on = (name, f) => {
  const call = (e) => f(e.detail);
  target.addEventListener(name, call);
  return () => target.removeEventListener(name, call);
};
const emit = (name, detail) => target.dispatchEvent(new CustomEvent(name, { detail }));

const channel = new BroadcastChannel('cloister-window');
let leader = false;
const tell = (message) => { if (leader) channel.postMessage(message); };

channel.onmessage = ({ data }) => {
  if (data.kind === 'hello?' && leader && state.online !== null) tell({ kind: 'online', online: state.online });
  if (data.kind === 'events') take(data.events);
  if (data.kind === 'online') setOnline(data.online);
};

export const pending = () => [...state.approvals.values()].filter((a) => a.state === 'pending');

const setOnline = (online) => {
  if (state.online === online) return;
  state.online = online;
  tell({ kind: 'online', online });
  emit('online', online);
  if (online) refresh();
};

let refreshing = null;
let stale = false;
let meanwhile = []; // events that came while lists were under way: these may be older
// refresh fetches what the stream only tells changes of.
export const refresh = () => {
  if (refreshing) { stale = true; return refreshing; }
  stale = false;
  meanwhile = [];
  refreshing = Promise.all([
    get('/v1/approvals?all=1'), get('/v1/sessions?all=1'), get('/v1/decisions'), get('/v1/status'),
  ]).then(([approvals, sessions, decisions, status]) => {
    state.approvals = new Map(approvals.map((a) => [a.id, a]));
    state.sessions = new Map(sessions.map((s) => [s.id, s]));
    Object.assign(state, { decisions, status, policy: status.policy_digest, loaded: true });
    for (const { type, data } of meanwhile) handlers[type](data);
    emit('change');
  }).catch((e) => { if (!(e instanceof Offline)) emit('problem', e); }).finally(() => {
    refreshing = null;
    if (stale) refresh();
  });
  return refreshing;
};

const handlers = {
  approval: (a) => {
    const was = state.approvals.get(a.id);
    state.approvals.set(a.id, a);
    if (state.approvals.size > 600) {
      const over = [...state.approvals.values()].filter((x) => x.state !== 'pending').slice(0, 200);
      for (const x of over) state.approvals.delete(x.id);
    }
    if (!was && a.state === 'pending') emit('ask', a);
    return true;
  },
  session: (s) => { state.sessions.set(s.id, s); return true; },
  policy: (p) => { state.policy = p.digest; get('/v1/status').then((s) => { state.status = s; emit('change'); }).catch(() => {}); return true; },
  decisions: () => { get('/v1/decisions').then((d) => { state.decisions = d; emit('change'); }).catch(() => {}); return false; },
};

// take brings events in, as many as came at once.
const take = (events) => {
  let changed = false;
  const audit = [];
  for (const { type, data } of events) {
    if (type === 'audit') audit.push(data);
    else if (type === 'reset') { refresh(); emit('reset'); }
    else if (type === 'hostexec') emit('commands', data);
    else if (handlers[type]) {
      if (refreshing && (type === 'approval' || type === 'session')) meanwhile.push({ type, data });
      changed = handlers[type](data) || changed;
    }
  }
  if (changed) emit('change');
  if (audit.length) emit('audit', audit);
};

// read follows the stream until it breaks.
const read = async (last, beat) => {
  const stop = new AbortController();
  beat.stop = () => stop.abort();
  const r = await request('GET', query('/v1/events', { audit: 1 }), { headers: last.id ? { 'Last-Event-ID': last.id } : {}, signal: stop.signal });
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  if (!last.id) take([{ type: 'reset', data: {} }]); // what came before this stream nobody told
  setOnline(true);
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    beat.at = Date.now();
    rest += value;
    const blocks = rest.split('\n\n');
    rest = blocks.pop();
    const events = [];
    for (const block of blocks) {
      const e = {};
      for (const line of block.split('\n')) {
        const at = line.indexOf(': ');
        if (at > 0) e[line.slice(0, at)] = line.slice(at + 2);
      }
      if (!e.event) continue;
      last.id = e.id;
      events.push({ type: e.event, data: JSON.parse(e.data) });
    }
    if (events.length) {
      take(events);
      tell({ kind: 'events', events });
    }
  }
};

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// lead reads the stream again and again.
const lead = async () => {
  leader = true;
  const last = {};
  const beat = { at: Date.now(), stop: () => {} };
  // A stream that is silent for longer than its heart beats is dead: a sleep.
  const look = () => { if (Date.now() - beat.at > 40e3) { beat.at = Date.now(); beat.stop(); } };
  setInterval(look, 5e3);
  document.addEventListener('visibilitychange', look);
  // The stream of a page that was frozen may stay silent: another one goes on from there.
  document.addEventListener('resume', () => beat.stop());
  for (let wait = 100; ;) {
    const began = Date.now();
    beat.at = began;
    try { await read(last, beat); } catch (e) { if (e.name !== 'AbortError' && !(e instanceof Offline)) emit('problem', e); }
    setOnline(false);
    wait = Date.now() - began > 5e3 ? 100 : Math.min(wait * 1.5, 3e3);
    await pause(wait);
  }
};

export const begin = () => {
  refresh();
  if (navigator.locks) navigator.locks.request('cloister-stream', lead);
  else lead();
  channel.postMessage({ kind: 'hello?' });
  document.addEventListener('resume', () => { if (!leader) { refresh(); emit('reset'); } }); // it may have missed what the other tab told
};
