// Traffic: names, connections and requests, live and past, with the rule behind
// each.
import { h, fill } from '../dom.js';
import { t } from '../words.js';
import { events, facts, whatOf } from '../events.js';
import { draft, toRule } from '../draft.js';

const w = t.traffic;

export default (root, { words }) => {
  const side = h('aside.panel', { 'aria-label': w.rule }, h('p.soft', w.pick));
  const pick = (e) => {
    const rule = toRule(e.rule);
    const acts = e.host ? h('p.group-row',
      h('button.small', { onclick: () => draft('allow', e) }, w.draftAllow), ' ', h('button.small', { onclick: () => draft('ask', e) }, w.draftAsk), ' ',
      h('button.small', { onclick: () => draft('deny', e) }, w.draftDeny)) : '';
    fill(side, h('h2.first', whatOf(e)),
      h('p', e.reason), h('p', h('span.soft', `${w.rule}: `), h('span.mono', e.rule || 'unlisted'), rule ? [' ', h('a', { href: rule }, w.showRule)] : ''),
      acts, facts(e));
  };
  const list = events({ words, kinds: ['net.dns', 'net.connect', 'http.request'], kindWords: w.kinds, name: t.pages.traffic, onpick: pick });
  root.append(h('div.head', h('h1', t.pages.traffic), list.bar), h('div.split', h('div.stack', list.list.el, h('p', list.count, ' ', list.older)), side));
  return { leave: list.leave };
};
