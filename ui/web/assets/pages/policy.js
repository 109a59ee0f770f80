// Policy: what is in force and where it comes from, and an editor for its files.
import { fill, h, select, verdict } from '../dom.js';
import { t } from '../words.js';
import { get, post, query } from '../api.js';
import { on, state } from '../live.js';
import { dialog, sure, toast } from '../above.js';
import { diff } from '../diff.js';
import { editor, yamlAt } from '../editor.js';
import { toRule } from '../draft.js';
import { secretsAt, toTraffic } from '../hosts.js';

const w = t.policy;

// toPlace is where a source can be edited here, null for what is no file of ours.
const toPlace = (at) => { const to = toRule(`(${at})`); return to && to.includes('file=') ? to : null; };

export default (root, { words, go }) => {
  let files = [], file = null, vocabulary = { keys: {}, words: {}, hosts: [], cedar: [] };
  let turn = 0;
  const tabs = h('div.group', { role: 'group', 'aria-label': w.files });
  const body = h('div.stack');
  root.append(h('div.head', h('h1', t.pages.policy), tabs, h('button', { onclick: () => fresh() }, w.newCedar)), body);

  const dirty = () => file && edit.value !== file.text;
  const leave = async () => !dirty() || sure(w.leave, file.name, w.leaveDo, 'deny');

  // What is in force.
  const showForce = async (session = '') => {
    file = null;
    drawTabs();
    const mine = ++turn;
    const p = await get(query('/v1/policy', { session }));
    const c = await post('/v1/policy/check', {});
    const secrets = await secretsAt();
    if (mine !== turn) return;
    const sessions = [...state.sessions.values()].filter((s) => s.state === 'running').map((s) => [s.name, s.name]);
    fill(body, h('div.head', h('span', w.session, ' ', select([['', w.common], ...sessions], session, showForce, w.session)), h('span.soft', `${w.mode} ${p.mode} · ${w.digest} `, h('code', p.digest))),
      c.ok ? '' : [h('p.beware', w.lastGood), problems(c.problems || [])],
      (p.notices || []).length ? [h('h2', w.notices), h('ul', p.notices.map((n) => h('li', n)))] : '',
      h('h2', w.sources), bySource(p.cedar).map(([source, rules]) => h('details.panel', { open: !source.startsWith('preset ') },
        h('summary', h('strong', source), ' ', h('span.soft', w.rules(rules.length))),
        rules.map((r) => ruleOf(r, secrets)))));
  };

  // ruleOf is one rule: what it says of which destination, with what is recorded of it and
  // the secrets that may go there; the Cedar text is folded where the title says it all.
  const ruleOf = (r, secrets) => {
    const [, effect, name] = /^(allow|deny|ask|forbid|permit) ([\w.*:-]+)$/.exec(r.title) || [];
    const place = toPlace(r.at);
    return h('div.rule', h('div', effect ? [verdict(effect), ' ', h('strong.mono', name)] : h('strong', r.title),
      place ? [' ', h('a', { href: place }, r.line ? w.lineOf(r.line) : w.edit)] : '',
      effect ? [' ', h('a', { href: toTraffic(name) }, t.pages.traffic), secrets(name).map((s) => [' ', h('a', { href: '/secrets' }, s)])] : ''),
    effect ? h('details', h('summary', 'Cedar'), h('pre', r.text)) : h('pre', r.text));
  };

  // bySource parts what the guardian prints of a policy: a rule begins with its name
  // and its place, a Cedar file with its path.
  const bySource = (cedar) => {
    const sources = new Map();
    for (const part of cedar.split(/\n\n(?=\/\/ )/).slice(1)) {
      const [head, ...text] = part.split('\n');
      const [, title, at] = /^\/\/ (.*?)(?: — (.*))?$/.exec(head);
      const file = /^file (.*)$/.exec(title);
      const place = file ? file[1] : at || title;
      const preset = /^(preset .*?) \(.*:(\d+):\d+\)$/.exec(place); // all lines of one are one source
      const line = preset ? null : /:(\d+)(?::\d+)?$/.exec(place);
      const source = preset ? preset[1] : line ? place.slice(0, line.index) : place;
      const rule = { title: file ? file[1].split('/').pop() : title, at: line ? place : `${place}:1`, line: line ? Number(line[1]) : 0, text: text.join('\n').trim() };
      sources.set(source, [...(sources.get(source) || []), rule]);
    }
    return [...sources];
  };

  // A problem's place is a button that leads there.
  const problems = (list) => h('ul.problems', list.map((p) => {
    const name = (files.find((f) => f.path === p.file) || {}).name;
    return h('li', p.line ? h('button.small', { onclick: async () => {
      if (name && (!file || file.name !== name)) { if (!await leave()) return; open(name); }
      edit.goTo(p.line, p.column);
    } }, `${name || p.file}: ${w.line(p.line, p.column || 1)}`) : '', p.message, p.hint ? h('span.soft', ` ${p.hint}`) : '');
  }));

  const say = h('div', { role: 'status' });
  let checked = 0, said = '';
  const check = async () => {
    if (!file) return null;
    const mine = ++checked, name = file.name;
    const c = await post('/v1/policy/files/check', { name, text: edit.value });
    if (mine !== checked || !file || file.name !== name) return null;
    const here = (c.problems || []).filter((p) => p.file === file.path).map((p) => p.line);
    edit.mark(here);
    // The same problems stay the same buttons: one that is made anew under the finger is not pressed.
    const shown = JSON.stringify([c.ok, c.problems, c.notices, dirty()]);
    if (shown === said) return c;
    said = shown;
    fill(say, c.ok ? [h('span.verdict.ok', dirty() ? `${w.good} ${w.changed}` : w.good), (c.notices || []).map((n) => h('p.soft', n))]
      : [h('span.verdict.fail', w.problems(c.problems.length)), problems(c.problems)]);
    return c;
  };
  let due = 0;
  const save = async () => {
    if (!file) return;
    clearTimeout(due); // a check that begins meanwhile would take the place of this one
    const c = await check();
    if (!c || !c.ok) return;
    if (!dirty()) { toast(w.unchanged); return; }
    if (!await sure(w.saveTitle, [h('p', file.path), diff(file.text, edit.value, file.name)], w.saveDo)) return;
    try {
      await post('/v1/policy/files', { name: file.name, text: edit.value, base: file.digest });
      toast(w.saved);
      // The person may have gone on to another file meanwhile.
      const saved = Object.assign(file, { text: edit.value, digest: 'not known yet' });
      files = await get('/v1/policy/files');
      // What stands there by now may be somebody else's: then the next save is refused.
      if (file === saved) file = files.find((f) => f.name === saved.name && f.text === saved.text) || saved;
      drawTabs();
      if (file) check();
    } catch (e) { toast(t.failed([e.message, ...(e.hints || [])].join(' · '))); }
  };
  const complete = (text, at) => {
    if (file.name.endsWith('.cedar')) {
      const typed = /[\w:"]*$/.exec(text.slice(0, at))[0];
      const quoted = /Host::"([\w.*-]*)$/.exec(text.slice(0, at));
      if (quoted) return { from: at - quoted[1].length, list: vocabulary.hosts.filter((x) => x.startsWith(quoted[1])) };
      return { from: at - typed.length, list: vocabulary.cedar.filter((x) => x.toLowerCase().startsWith(typed.toLowerCase()) && x !== typed) };
    }
    const y = yamlAt(text, at);
    if (!y) return null;
    const list = y.kind === 'value' ? vocabulary.words[y.under] || (y.key === 'domain' ? vocabulary.hosts : []) : (vocabulary.keys[y.under] || []).map((k) => `${k}: `);
    const typed = y.typed.replaceAll('"', '');
    return { from: at - y.typed.length, list: list.filter((x) => x.startsWith(typed) && x !== typed) };
  };
  const edit = editor({ name: w.editor, complete, onsave: save, oninput: () => { clearTimeout(due); due = setTimeout(check, 300); } });

  const open = (name, line) => {
    file = files.find((f) => f.name === name) || { name, path: name, text: '', digest: '' };
    drawTabs();
    turn++;
    fill(say, said = '');
    body.replaceChildren(h('p.soft', h('code', file.path), ` · ${w.keys}`), edit.el, say, h('div.head', h('button', { onclick: check }, w.check),
      h('button', { onclick: () => { edit.value = file.text; check(); } }, w.undo), h('button.main', { onclick: save }, w.save)));
    edit.kind = name.endsWith('.cedar') ? 'cedar' : 'yaml';
    edit.value = file.text;
    if (line) edit.goTo(line);
    check();
  };
  const fresh = async () => {
    if (!await leave()) return;
    dialog(w.newCedar, (close) => {
      const name = h('input', { value: 'mine', pattern: '[A-Za-z0-9_][A-Za-z0-9_.\\-]*', maxlength: 60, autofocus: true });
      return [h('label.field', h('span', w.newName), name), h('div.acts', h('button', { onclick: close }, t.cancel), h('button.main', { onclick: () => {
        if (!name.value || !name.checkValidity()) { name.focus(); return; }
        close();
        open(`policy/${name.value.replace(/\.cedar$/, '')}.cedar`);
      } }, w.newDo))];
    });
  };
  const drawTabs = () => fill(tabs, h('button', { 'aria-pressed': String(!file), onclick: async () => { if (await leave()) showForce(); } }, w.effective),
    files.concat(file && !files.some((f) => f.name === file.name) ? [file] : []).map((f) => h('button', { 'aria-pressed': String(Boolean(file) && file.name === f.name), onclick: async () => { if (await leave()) open(f.name); } }, f.name)));

  const load = async (name, line) => {
    files = await get('/v1/policy/files');
    if (name) open(name, line); else showForce();
  };
  load(words.get('file'), Number(words.get('line')) || 0).catch((e) => toast(t.failed(e.message)));
  get('/v1/policy/words').then((v) => { vocabulary = v; }).catch(() => {});
  const off = [on('reset', () => { if (!file) showForce(); })];
  const warn = (e) => { if (dirty()) e.preventDefault(); };
  addEventListener('beforeunload', warn);
  return { leave: () => { off.forEach((f) => f()); clearTimeout(due); removeEventListener('beforeunload', warn); } };
};
