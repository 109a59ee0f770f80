// The guardian's API as the pages call it.
import { byKey, Offline } from './sign.js';

let word = '';
let signing = null;

// signIn gets the word of this run of the guardian, once for all who wait.
export const signIn = () => {
  signing = signing || byKey().finally(() => { signing = null; }).then((w) => {
    if (!w) {
      location.replace('/login?to=' + location.pathname.slice(1));
      return new Promise(() => {}); // the page is on its way out
    }
    word = w;
    return w;
  });
  return signing;
};

export class Refused extends Error {
  constructor(status, body) {
    super(body.error || `status ${status}`);
    Object.assign(this, { status, code: body.code, hints: body.hints || [], body });
  }
}

export const request = async (method, path, { body, headers = {}, signal, again = true } = {}) => {
  if (!word) await signIn();
  let r;
  try {
    r = await fetch(path, {
      method, signal, cache: 'no-store', redirect: 'error',
      headers: { 'Cloister-Window': word, ...(method === 'POST' ? { 'Content-Type': 'application/json' } : {}), ...headers },
      body: method === 'POST' ? JSON.stringify(body || {}) : undefined,
    });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new Offline(String(e));
  }
  if (r.status === 401 && again) {
    // Another run of the guardian: its words are new.
    word = '';
    await signIn();
    return request(method, path, { body, headers, signal, again: false });
  }
  if (!r.ok) throw new Refused(r.status, await r.json().catch(() => ({})));
  return r;
};

export const get = async (path, o) => (await request('GET', path, o)).json();
export const post = async (path, body, o) => (await request('POST', path, { ...o, body })).json();
export const query = (path, words) => {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(words)) if (v !== undefined && v !== null && v !== '') q.set(k, v);
  return q.size ? `${path}?${q}` : path;
};
export const protocols = async () => { if (!word) await signIn(); return ['cloister.terminal', word]; };
