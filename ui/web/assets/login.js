// The login page: it trades the link for a key of this browser's own, or signs in
// by the key that is there, and goes on to the window.
import { byKey, byLink } from './sign.js';
import { t } from './words.js';

const say = (text, todo) => {
  document.getElementById('say').textContent = text;
  document.getElementById('do').textContent = todo || '';
};

// goal is a page of ours, never an address that somebody put there; in the folder of
// this run, for no other port can take the cookie of that one away.
const goal = ({ run }) => {
  const to = new URLSearchParams(location.search).get('to') || '';
  return /^[a-z]{0,16}$/.test(to) ? `${run}/${to}` : `${run}/`;
};

const enter = async () => {
  const link = location.hash.slice(1);
  // The secret goes out of the address line and the history before anything else.
  if (link) history.replaceState(null, '', location.pathname + location.search);
  say(t.login.busy);
  let why = '';
  if (link) {
    try {
      location.replace(goal(await byLink(link)));
      return;
    } catch (e) { why = e.message; }
  }
  try {
    const s = await byKey();
    if (s) {
      location.replace(goal(s));
      return;
    }
  } catch (e) { why = why || e.message; }
  say(why ? t.login.refused(why) : t.login.unknown, 'cloister guardian open');
};

enter();
// A link that is opened where this page is open already changes the fragment only.
addEventListener('hashchange', enter);
