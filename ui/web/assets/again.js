// What to do where a part of the page did not come: a server at another port of this
// host may have crowded this browser's cookies out.
import { byKey } from './sign.js';
import { t } from './words.js';

const most = 5, within = 15e3;

// again signs in and loads the page anew, some times; then it fails, and says why.
export const again = async (e) => {
  const past = JSON.parse(sessionStorage.getItem('again') || '[]').filter((at) => Date.now() - at < within);
  if (past.length >= most) throw new Error(t.crowded, { cause: e });
  sessionStorage.setItem('again', JSON.stringify([...past, Date.now()]));
  const s = await byKey();
  const to = location.pathname.split('/').pop();
  location.replace(s ? `${s.run}/${to}${location.search}` : `/login?to=${to}`);
  return new Promise(() => {}); // the page is on its way out
};

// tell says on a page that has nothing else why that is so.
export const tell = (e) => {
  const banner = document.getElementById('banner');
  const button = document.createElement('button');
  button.textContent = t.tryAgain;
  button.addEventListener('click', () => { sessionStorage.removeItem('again'); location.reload(); });
  banner.replaceChildren(e.message, ' ', button);
  banner.hidden = false;
};
