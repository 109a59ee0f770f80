// A phone: it is paired once, and then shows the questions that wait and takes answers.
// Its key is kept by the browser for this address alone, and no script can read it. Each
// call is signed over what it says and a challenge that counts once.

const store = 'cloister-phone';

const open = () => new Promise((done, fail) => {
  const r = indexedDB.open(store, 1);
  r.onupgradeneeded = () => r.result.createObjectStore('key');
  r.onsuccess = () => done(r.result);
  r.onerror = () => fail(r.error);
});

const stored = (mode, what) => open().then((db) => new Promise((done, fail) => {
  const r = what(db.transaction('key', mode).objectStore('key'));
  r.onsuccess = () => { db.close(); done(r.result); };
  r.onerror = () => { db.close(); fail(r.error); };
}));

const load = () => stored('readonly', (s) => s.get('own'));
const save = (pair) => stored('readwrite', (s) => s.put(pair, 'own'));
const make = () => crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign', 'verify']);

const utf8 = (text) => new TextEncoder().encode(text);
const base64 = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)));
const unbase64 = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
const hex = (bytes) => [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, '0')).join('');
const sha256 = (bytes) => crypto.subtle.digest('SHA-256', bytes);

const element = (id) => document.getElementById(id);

// moved notes when questions came, went or were pushed: what was just below a finger may
// be another.
const moved = () => { element('list').dataset.moved = performance.now(); };
const still = () => performance.now() - Number(element('list').dataset.moved) > 500;

// say pushes the questions where the text takes more lines, or fewer.
const say = (text) => {
  if (element('say').textContent === text) return;
  element('say').textContent = text;
  moved();
};

const post = async (path, body) => {
  const r = await fetch(path, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body), redirect: 'error', cache: 'no-store',
  });
  const answer = await r.json();
  if (r.status !== 200) throw Object.assign(new Error(answer.error), { status: r.status });
  return answer;
};

let pair = null;

const publicKey = () => crypto.subtle.exportKey('spki', pair.publicKey);

// call signs what it says, and sends it.
const call = async (name, fields, ...says) => {
  const { challenge } = await post('/challenge', {});
  const what = [`cloister ${name}`, location.origin, challenge, ...says].join('\n');
  const signature = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, pair.privateKey, utf8(what));
  return post(`/${name}`, { ...fields, key: hex(await sha256(await publicKey())), challenge, signature: base64(signature) });
};

// mac is what shows the code, without sending it.
const mac = async (secret, what, spki) => {
  const key = await crypto.subtle.importKey('raw', secret, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const head = utf8(`${what}\n`);
  const all = new Uint8Array(head.length + spki.byteLength);
  all.set(head);
  all.set(new Uint8Array(spki), head.length);
  return crypto.subtle.sign('HMAC', key, all);
};

// enter uses the code that was scanned.
const enter = async (code) => {
  const secret = unbase64(code);
  const spki = await publicKey();
  await post('/pair', { public: base64(spki), proof: base64(await mac(secret, 'cloister pair', spki)) });
  const n = new DataView(await mac(secret, 'cloister code', spki)).getUint32(0) % 1000000;
  const digits = String(n).padStart(6, '0');
  element('number').textContent = `${digits.slice(0, 3)} ${digits.slice(3)}`;
};

const made = (tag, text, ...inside) => {
  const e = document.createElement(tag);
  if (text) e.textContent = text;
  e.append(...inside);
  return e;
};

// show makes one question of its text, whose digest is what is signed.
const show = async ({ id, text }) => {
  const q = JSON.parse(text);
  const digest = hex(await sha256(utf8(text)));
  const list = made('dl');
  for (const { label, text: value } of [{ label: 'Cloister', text: `${q.session} (${q.project})` }, ...q.details, { label: 'Why', text: q.reason }]) {
    list.append(made('dt', label), made('dd', value));
  }
  const acts = made('div');
  acts.className = 'acts';
  const box = made('section', '', made('h2', q.title), list);
  if (q.marks) box.append(made('p', `It holds ${q.marks}: allow it at the computer.`));
  const dead = (all) => { for (const b of acts.children) b.disabled = all || b.className === 'allow' && Boolean(q.marks); };
  for (const word of ['allow', 'deny']) {
    const button = made('button', word === 'allow' ? 'Allow once' : 'Deny');
    button.className = word;
    button.onclick = async () => {
      if (!still()) return;
      dead(true);
      try {
        await call('answer', { id, digest, answer: word }, id, digest, word);
        say(word === 'allow' ? 'Allowed.' : 'Denied.');
        box.remove();
        moved(); // the next is where this one was, perhaps below the same finger
      } catch (e) {
        say(`Not answered: ${e.message}`);
        dead(false); // to be tried once more
      }
    };
    acts.append(button);
  }
  dead(false);
  box.append(acts);
  box.className = 'ask';
  box.dataset.text = text;
  return box;
};

// draw keeps what is there already: nothing moves below a finger.
const draw = async (questions) => {
  const list = element('list');
  for (const box of [...list.children]) {
    if (!questions.some((q) => q.text === box.dataset.text)) {
      box.remove();
      moved();
    }
  }
  for (const q of questions) {
    if (![...list.children].some((box) => box.dataset.text === q.text)) {
      list.append(await show(q));
      moved();
    }
  }
  document.title = questions.length ? `(${questions.length}) Cloister` : 'Cloister';
};

const wait = (ms) => new Promise((done) => { setTimeout(done, ms); });

const follow = async () => {
  let paired = false;
  for (;;) {
    try {
      const { questions = [] } = await call('questions', {});
      if (!paired) say('Paired. Questions appear here while this page is open.');
      paired = true;
      element('number').textContent = '';
      await draw(questions);
    } catch (e) {
      if (e.status === 202) {
        say('Compare: the computer shows the same number?');
      } else if (e.status === 401) {
        element('number').textContent = '';
        element('list').replaceChildren();
        say(`Not paired: ${e.message}. On the computer: cloister window pair`);
        return;
      } else {
        paired = false; // said again, once there is one
        say(`No answer: ${e.message}`);
      }
    }
    await wait(1500);
  }
};

const begin = async () => {
  const code = location.hash.slice(1);
  if (code) history.replaceState(null, '', '/'); // out of the address line before anything else
  try {
    pair = await load();
    if (!pair) {
      pair = await make();
      await save(pair);
    }
    if (code) await enter(code);
  } catch (e) {
    say(`Not paired: ${e.message}. On the computer: cloister window pair`);
    return;
  }
  await follow();
};

begin();
addEventListener('hashchange', () => location.reload());
