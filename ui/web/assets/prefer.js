// What a person prefers, kept in this browser; and how an ask makes itself heard.
import { t } from './words.js';
import { pending } from './live.js';

const key = (name) => `cloister.${name}`;
export const preferred = (name, otherwise = '') => { try { return localStorage.getItem(key(name)) || otherwise; } catch { return otherwise; } };
export const choose = (name, value) => {
  try { if (value) localStorage.setItem(key(name), value); else localStorage.removeItem(key(name)); } catch { /* a browser that keeps nothing */ }
  prefer();
};
export const prefer = () => {
  const theme = preferred('theme', 'auto');
  if (theme === 'auto') document.documentElement.removeAttribute('data-theme');
  else document.documentElement.setAttribute('data-theme', theme);
};
addEventListener('storage', prefer);

let sound = null;
const beep = () => {
  sound = sound || new AudioContext();
  const o = sound.createOscillator(), g = sound.createGain();
  o.frequency.value = 660;
  g.gain.setValueAtTime(0.08, sound.currentTime);
  g.gain.exponentialRampToValueAtTime(0.0001, sound.currentTime + 0.35);
  o.connect(g).connect(sound.destination);
  o.start();
  o.stop(sound.currentTime + 0.35);
};

const ring = (a, go) => {
  if (preferred('sound') === 'on') beep();
  if (preferred('notify') !== 'on' || !document.hidden || !('Notification' in window) || Notification.permission !== 'granted') return;
  // One notification for all of them, whatever asks how often; all tabs share it.
  const n = new Notification(t.asksWaiting(pending().length), { body: `${a.session}: ${a.title}`.slice(0, 200), tag: 'cloister', icon: '/favicon.svg' });
  n.onclick = () => { window.focus(); go('/asks'); n.close(); };
};

export const alarm = { beep, ring };
