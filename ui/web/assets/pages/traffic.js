// Traffic: names, connections and requests, live and past, with the rule behind
// each.
import { h } from '../dom.js';
import { t } from '../words.js';
import { aside, decided, events, facts, ruled, whatOf } from '../events.js';
import { draft, toRule } from '../draft.js';
import { hosts } from '../hosts.js';

const w = t.traffic;

export default (root, { words }) => {
  const side = aside(w.rule);
  let picked = null;
  const show = (e, by) => {
    const rule = toRule(by.rule);
    side.show(h('h2.first', whatOf(e)), ruled(by, rule ? [' ', h('a', { href: rule }, w.showRule)] : ''),
      e.host ? h('div.draft', h('span.soft', w.draft), h('div.group', { role: 'group', 'aria-label': w.draft },
        ['allow', 'ask', 'deny'].map((v) => h('button.small', { onclick: () => draft(v, e), 'aria-label': w.drafts[v] }, v)))) : '', facts(e));
  };
  const pick = async (e) => {
    picked = e;
    show(e, e);
    const by = await decided(e, list.list.items);
    if (by !== e && picked === e) show(e, by);
  };
  let due = 0;
  const by = hosts((host) => list.find(host));
  const list = events({ words, kinds: ['net.dns', 'net.connect', 'http.request'], kindWords: w.kinds, name: t.pages.traffic, onpick: pick, onlist: () => { due = due || setTimeout(() => { due = 0; by.draw(list.list.items); }, 250); } });
  root.append(h('div.head', h('h1', t.pages.traffic), list.bar), by.el, h('div.split', h('div.stack', list.list.el, h('p', list.count, ' ', list.older)), side.el));
  return { leave: () => { clearTimeout(due); list.leave(); } };
};
