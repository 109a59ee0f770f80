// What stands above a page: questions to the person, and short notices.
import { h } from './dom.js';
import { t } from './words.js';

// dialog asks something; make gives its parts, and is told how to close it.
export const dialog = (title, make) => {
  const before = document.activeElement;
  const el = h('dialog', { 'aria-label': title }, h('h2', title));
  const close = () => el.close();
  el.append(...[make(close)].flat(Infinity).filter(Boolean));
  el.addEventListener('close', () => { el.remove(); if (before && before.isConnected) before.focus(); });
  document.body.append(el);
  el.showModal();
  return el;
};

// sure asks once more; it answers whether the person meant it.
export const sure = (title, text, word, kind = 'main') => new Promise((done) => {
  let said = false;
  const el = dialog(title, (close) => [
    [text].flat().map((line) => line instanceof Node ? line : h('p', line)),
    h('div.acts', h('button', { onclick: close, autofocus: true }, t.cancel), h(`button.${kind}`, { onclick: () => { said = true; close(); } }, word)),
  ]);
  el.addEventListener('close', () => done(said));
});

// toast tells something for a while; act is a button on it.
export const toast = (text, act, ms = 4000) => {
  const box = document.getElementById('toasts');
  const el = h('div.toast', h('span', text), act ? h('button.small', { onclick: () => { el.remove(); act.do(); } }, act.word) : '');
  box.append(el);
  while (box.children.length > 3) box.firstChild.remove();
  setTimeout(() => el.remove(), ms);
  return el;
};
