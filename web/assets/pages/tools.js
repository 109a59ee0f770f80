// Tools: what cloisters called of MCP servers.
import { h } from '../dom.js';
import { t } from '../words.js';
import { events, facts, whatOf } from '../events.js';
import { fill } from '../dom.js';

export default (root, { words }) => {
  const side = h('aside.panel', { 'aria-label': t.pages.tools }, h('p.soft', t.traffic.pick));
  const list = events({ words, kinds: ['mcp.call'], kindWords: [['', t.tools.calls]], name: t.tools.calls, onpick: (e) => fill(side, h('h2.first', whatOf(e)), facts(e)) });
  root.append(h('div.head', h('h1', t.pages.tools), list.bar), h('div.split', h('div.stack', list.list.el, h('p', list.count, ' ', list.older)), side));
  return { leave: list.leave };
};
