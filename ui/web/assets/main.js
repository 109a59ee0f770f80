// The frame of the window: pages, their keys, what is above them.
import { h } from './dom.js';
import { t } from './words.js';
import { begin, on, pending, state } from './live.js';
import { post } from './api.js';
import { again } from './again.js';
import { forget } from './sign.js';
import { alarm, choose, prefer, preferred } from './prefer.js';
import { dialog, toast } from './above.js';

const names = ['now', 'asks', 'traffic', 'commands', 'files', 'time', 'tools', 'secrets', 'policy', 'audit', 'doctor'];
const made = names; // terminal has no place in the bar
const main = document.getElementById('main');
const nav = document.getElementById('nav');
const icon = document.getElementById('icon');
const banner = document.getElementById('banner');

// Who signed in comes by the folder of this run of the guardian: the address a person
// sees is the same in each.
const below = /^\/run\/[\w-]+(\/.*)$/.exec(location.pathname);
if (below) history.replaceState(null, '', below[1] + location.search + location.hash);

let page = null; // what is shown: {keys, leave}
let shown = '';

const nameOf = () => {
  const name = location.pathname.slice(1);
  return made.includes(name) || name === 'terminal' ? name : 'now';
};

// go shows a page of this window without loading it anew.
export const go = (path) => { history.pushState(null, '', path); show(); };

let turn = 0, at = '';
const show = async () => {
  const name = nameOf();
  at = location.pathname + location.search;
  const mine = ++turn;
  const make = (await import(`./pages/${name}.js`).catch(again)).default;
  if (mine !== turn) return; // another page was asked for meanwhile
  if (page && page.leave) page.leave();
  page = null;
  main.replaceChildren();
  shown = name;
  head();
  page = make(main, { go, words: new URLSearchParams(location.search) }) || {};
  main.focus({ preventScroll: true });
  performance.mark('page');
};

// The links stay the same elements: one that is made anew between a press and its release
// is not clicked.
const count = h('span.count', { hidden: true });
const links = made.map((name) => h('a', { href: '/' + name }, h('span', t.pages[name]), name === 'asks' ? count : ''));
nav.replaceChildren(...links);

const head = () => {
  const asks = pending().length;
  links.forEach((a, i) => { if (made[i] === shown) a.setAttribute('aria-current', 'page'); else a.removeAttribute('aria-current'); });
  if (count.textContent !== String(asks)) count.textContent = asks;
  count.setAttribute('aria-label', t.asksWaiting(asks));
  count.hidden = !asks;
  const here = nav.querySelector('[aria-current]');
  if (here && nav.scrollWidth > nav.clientWidth) nav.scrollLeft = here.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2; // a phone's bar
  document.title = t.title(t.pages[shown] || '', asks);
  const href = asks ? new URL(`favicon/${asks > 9 ? 'm' : asks}.svg`, import.meta.url).href : '/favicon.svg';
  if (icon.getAttribute('href') !== href) icon.setAttribute('href', href);
  const s = state.status;
  document.documentElement.dataset.live = state.online ? 'yes' : 'no';
  const text = state.online === false ? t.offline : s.audit_error ? t.auditError(s.audit_error) : s.policy_error ? t.policyError(s.policy_error) : '';
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = !text;
};

// A link of ours is a page of ours.
document.addEventListener('click', (e) => {
  const a = e.target.closest('a[href^="/"]');
  if (!a || e.defaultPrevented || e.button || e.ctrlKey || e.metaKey || e.shiftKey || a.hasAttribute('download')) return;
  e.preventDefault();
  go(a.getAttribute('href'));
});
// A place within a page (#main) is no other page: what was typed there stays.
addEventListener('popstate', () => { if (location.pathname + location.search !== at) show(); });

let prefix = 0; // g was typed: the timer by which it is forgotten
document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
  if (e.target.closest('input, textarea, select, [contenteditable], .terminal')) {
    if (e.key === 'Escape' && !e.target.closest('.terminal')) e.target.blur();
    return;
  }
  if (prefix) {
    clearTimeout(prefix);
    prefix = 0;
    const name = made.find((n) => keyOf(n) === e.key);
    if (name) { e.preventDefault(); go('/' + name); }
    return;
  }
  if (e.key === 'g') { prefix = setTimeout(() => { prefix = 0; }, 1500); return; }
  if (e.key === '?') { e.preventDefault(); keys(); return; }
  if (e.key === '/') {
    const box = main.querySelector('input[type=search]');
    if (box) { e.preventDefault(); box.focus(); }
    return;
  }
  if (page && page.keys && page.keys(e.key, e)) e.preventDefault();
});

const letters = { now: 'n', asks: 'a', traffic: 't', commands: 'h', files: 'f', time: 'i', tools: 'm', secrets: 's', policy: 'p', audit: 'r', doctor: 'd' };
const keyOf = (name) => letters[name];

const keys = () => dialog(t.help, (close) => [
  h('dl', made.map((n) => [h('dt', h('kbd', 'g'), ' ', h('kbd', keyOf(n))), h('dd', t.pages[n])]),
    h('dt', h('kbd', '/')), h('dd', t.asks.filter), h('dt', h('kbd', '?')), h('dd', t.help)),
  h('p.soft', `${t.pages.asks}: ${t.asks.keys}`),
  h('div.acts', h('button.main', { onclick: close }, t.close)),
]);

const settings = () => dialog(t.settings, (close) => [
  h('div.field', h('span', t.theme), h('div.group', { role: 'group', 'aria-label': t.theme }, Object.entries(t.themes).map(([k, text]) =>
    h('button', { 'aria-pressed': String(preferred('theme', 'auto') === k), onclick: (e) => {
      choose('theme', k);
      for (const b of e.currentTarget.parentNode.children) b.setAttribute('aria-pressed', String(b === e.currentTarget));
    } }, text)))),
  h('label.check', h('input', { type: 'checkbox', checked: preferred('sound') === 'on', onchange: (e) => { choose('sound', e.target.checked ? 'on' : ''); if (e.target.checked) alarm.beep(); } }), t.sound),
  h('label.check', h('input', { type: 'checkbox', checked: preferred('notify') === 'on', onchange: async (e) => {
    const box = e.target;
    if (box.checked && (!('Notification' in window) || await Notification.requestPermission() !== 'granted')) {
      box.checked = false;
      toast(t.notifyRefused);
    }
    choose('notify', box.checked ? 'on' : '');
  } }), t.notify),
  h('div.acts', h('button.deny', { onclick: async () => {
    await post('/login/out', {});
    await forget();
    location.replace('/login');
  } }, t.signOut), h('button.main', { onclick: close }, t.close)),
]);

document.getElementById('tools').append(
  h('button.small.plain', { onclick: settings }, t.settings), h('button.small.plain', { onclick: keys, title: '?' }, t.help));

prefer();
on('change', head);
on('online', head);
on('ask', (a) => alarm.ring(a, go));
on('problem', (e) => toast(t.failed(e.message)));
addEventListener('unhandledrejection', (e) => { e.preventDefault(); toast(t.failed(e.reason && e.reason.message)); });
if (!made.includes(location.pathname.slice(1)) && nameOf() === 'now') history.replaceState(null, '', '/now');
head();
show();
begin();
