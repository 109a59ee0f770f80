// The colours of YAML and Cedar: a line in pieces, each with the class of what it is. It
// only looks: whether a text is right is said by the guardian.

const yaml = {
  comment: /#.*/y, string: /"(?:\\.|[^"\\])*"?|'(?:''|[^'])*'?/y, space: /\s+/y, mark: /[{}[\],:]|-(?=\s|$)/y,
  word: /(?:(?!:(?:\s|$))[^\s,{}[\]])+/y, key: /\s*:(?:\s|$)/y,
};
const value = /^(?:true|false|null|~|-?\d[\d._]*)$/;
const block = /(?:^|[:\s-])[|>][-+\d]*\s*(?:#.*)?$/;

const cedar = {
  comment: /\/\/.*/y, string: /"(?:\\.|[^"\\])*"?/y, space: /\s+/y, name: /@?[A-Za-z_]\w*/y, number: /\d+/y, mark: /./y, type: /::/y,
};
const words = new Set(['when', 'unless', 'if', 'then', 'else', 'in', 'has', 'like', 'is', 'principal', 'action', 'resource', 'context', 'true', 'false']);

const at = (pattern, text, i) => { pattern.lastIndex = i; const m = pattern.exec(text); return m && m[0]; };

const yamlLine = (line, deep) => {
  const indent = /^ */.exec(line)[0].length;
  if (deep >= 0 && (indent > deep || !line.trim())) return { parts: [['string', line]], deep };
  const parts = [];
  for (let i = 0; i < line.length;) {
    let text, kind = '';
    if ((text = at(yaml.space, line, i))) kind = '';
    else if (line[i] === '#' && (i === 0 || /\s/.test(line[i - 1]))) { text = at(yaml.comment, line, i); kind = 'comment'; }
    else if ((text = at(yaml.string, line, i))) kind = at(yaml.key, line, i + text.length) ? 'key' : 'string';
    else if ((text = at(yaml.mark, line, i))) kind = '';
    else if ((text = at(yaml.word, line, i))) kind = at(yaml.key, line, i + text.length) ? 'key' : value.test(text) ? 'value' : '';
    else text = line[i];
    parts.push([kind, text]);
    i += text.length;
  }
  return { parts, deep: block.test(line) ? indent : -1 };
};

const cedarLine = (line) => {
  const parts = [];
  for (let i = 0; i < line.length;) {
    let text, kind = '';
    if ((text = at(cedar.space, line, i))) kind = '';
    else if ((text = at(cedar.comment, line, i))) kind = 'comment';
    else if ((text = at(cedar.string, line, i))) kind = 'string';
    else if ((text = at(cedar.name, line, i))) kind = { permit: 'permit', forbid: 'forbid' }[text] || (text[0] === '@' || at(cedar.type, line, i + text.length) ? 'key' : words.has(text) ? 'value' : '');
    else if ((text = at(cedar.number, line, i))) kind = 'value';
    else text = at(cedar.mark, line, i);
    parts.push([kind, text]);
    i += text.length;
  }
  return { parts, deep: -1 };
};

// colours is a line's pieces, and what the next line has to know: how deep the text of many
// lines stands in which it is, -1 for none.
export const colours = (kind, line, deep) => kind === 'cedar' ? cedarLine(line) : yamlLine(line, deep);
