// Who this browser is: a key pair that no script can read, kept by the browser
// for this address alone. What the guardian keeps is the public half.

const store = 'cloister';

const open = () => new Promise((done, fail) => {
  const r = indexedDB.open(store, 1);
  r.onupgradeneeded = () => r.result.createObjectStore('key');
  r.onsuccess = () => done(r.result);
  r.onerror = () => fail(r.error);
});

const ask = (mode, what) => open().then((db) => new Promise((done, fail) => {
  const r = what(db.transaction('key', mode).objectStore('key'));
  r.onsuccess = () => { db.close(); done(r.result); };
  r.onerror = () => { db.close(); fail(r.error); };
}));

const load = () => ask('readonly', (s) => s.get('own')).catch(() => null);
const save = (pair) => ask('readwrite', (s) => s.put(pair, 'own'));
export const forget = () => ask('readwrite', (s) => s.delete('own')).catch(() => null);

const base64 = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)));
const hex = (bytes) => [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, '0')).join('');

// Offline says that nobody answers.
export class Offline extends Error {}

const post = async (path, body) => {
  const r = await fetch(path, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body), redirect: 'error', cache: 'no-store',
  }).catch((e) => { throw new Offline(String(e)); });
  const answer = await r.json();
  if (!r.ok) throw Object.assign(new Error(answer.error), { status: r.status });
  return answer;
};

const make = () => crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign', 'verify']);

// byLink trades a link for the word of this run of the guardian, and its folder: run.
export const byLink = async (link) => {
  let pair = await load();
  if (!pair) {
    pair = await make();
    await save(pair);
  }
  return post('/login/link', { link, public: base64(await crypto.subtle.exportKey('spki', pair.publicKey)) });
};

// byKey signs a challenge of the guardian; null where this browser has no key, or
// one that the guardian does not know.
export const byKey = async () => {
  const [pair, { challenge }] = await Promise.all([load(), post('/login/challenge', {})]);
  if (!pair) return null;
  const spki = await crypto.subtle.exportKey('spki', pair.publicKey);
  const what = new TextEncoder().encode(`cloister window\n${location.origin}\n${challenge}`);
  const signature = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, pair.privateKey, what);
  try {
    return await post('/login/key', { key: hex(await crypto.subtle.digest('SHA-256', spki)), challenge, signature: base64(signature) });
  } catch (e) {
    if (e.status === 401 || e.status === 429) return null;
    throw e;
  }
};
