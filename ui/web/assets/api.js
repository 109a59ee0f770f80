// The guardian's API as the pages call it.
import { byKey, Offline } from './sign.js';
import { t } from './words.js';

let word = '', run = ''; // of this run of the guardian: the header's word, and its folder
let signing = null;

// signIn gets word and folder, once for all who wait.
const signIn = () => {
  signing = signing || byKey().finally(() => { signing = null; }).then((s) => {
    if (!s) {
      location.replace('/login?to=' + location.pathname.slice(1));
      return new Promise(() => {}); // the page is on its way out
    }
    ({ word, run } = s);
    return word;
  });
  return signing;
};

export class Refused extends Error {
  constructor(status, body) {
    super(body.error || `status ${status}`);
    Object.assign(this, { status, code: body.code, hints: body.hints || [], body });
  }
}

// tries is how often a request is made that is not known: another run of the guardian
// has other words, and a server at another port may have taken the cookie away.
const tries = 5;

export const request = async (method, path, { body, headers = {}, signal } = {}) => {
  for (let n = 1; ; n++) {
    if (!word) await signIn();
    let r;
    try {
      r = await fetch(run + path, {
        method, signal, cache: 'no-store', redirect: 'error',
        headers: { 'Cloister-Window': word, ...(method === 'POST' ? { 'Content-Type': 'application/json' } : {}), ...headers },
        body: method === 'POST' ? JSON.stringify(body || {}) : undefined,
      });
    } catch (e) {
      if (e.name === 'AbortError') throw e;
      throw new Offline(String(e));
    }
    if (r.ok) return r;
    if (r.status !== 401) throw new Refused(r.status, await r.json().catch(() => ({})));
    if (n === tries) throw new Refused(r.status, { error: t.crowded });
    word = '';
  }
};

export const get = async (path, o) => (await request('GET', path, o)).json();
export const post = async (path, body, o) => (await request('POST', path, { ...o, body })).json();
export const query = (path, words) => {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(words)) if (v !== undefined && v !== null && v !== '') q.set(k, v);
  return q.size ? `${path}?${q}` : path;
};
// socket is a WebSocket to the guardian.
export const socket = async (path) => {
  if (!word) await signIn();
  return new WebSocket(`ws://${location.host}${run}${path}`, ['cloister.terminal', word]);
};
