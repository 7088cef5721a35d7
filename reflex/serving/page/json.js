// JSON that keeps what JavaScript's own parser loses: the order of keys such as "10" and "2", and digits
// of long numbers. Objects become Maps, numbers become Num.

export class Num {
  constructor(raw) {
    this.raw = raw;
  }

  toString() {
    return this.raw;
  }
}

export class JsonError extends Error {
  constructor(message, text, at) {
    const before = text.slice(0, at).split("\n");
    super(`${message} (line ${before.length}, column ${before.at(-1).length + 1})`);
    this.at = at;
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORDS = { true: true, false: false, null: null };

export function parse(text) {
  let at = 0;
  const fail = (message, where = at) => {
    throw new JsonError(message, text, where);
  };
  const space = () => {
    while (at < text.length && " \t\r\n".includes(text[at])) at++;
  };
  const match = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found && found[0];
  };
  const string = () => {
    const start = at;
    const raw = match(STRING);
    if (raw === null) fail("this text is not closed, or holds a line break or a bad escape", start);
    return JSON.parse(raw);
  };
  const members = (close, one) => {
    at++;
    space();
    if (text[at] === close) return void at++;
    for (;;) {
      space();
      one();
      space();
      if (text[at] === close) return void at++;
      if (text[at] !== ",") fail(`expected "," or "${close}"`);
      const comma = at++;
      space();
      if (text[at] === close) fail('nothing follows this ","', comma);
    }
  };
  const value = () => {
    space();
    const char = text[at];
    if (char === undefined) fail("the JSON ends too early");
    if (char === '"') return string();
    if (char === "{") {
      const map = new Map();
      members("}", () => {
        if (text[at] !== '"') fail("expected a name in double quotes");
        const start = at;
        const key = string();
        if (map.has(key)) fail(`"${key}" is there twice`, start);
        space();
        if (text[at] !== ":") fail('expected ":"');
        at++;
        map.set(key, value());
      });
      return map;
    }
    if (char === "[") {
      const list = [];
      members("]", () => list.push(value()));
      return list;
    }
    for (const [word, meaning] of Object.entries(WORDS)) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return meaning;
      }
    }
    const raw = match(NUMBER);
    if (!raw) fail(`"${char}" cannot stand here`);
    return new Num(raw);
  };
  const result = value();
  space();
  if (at < text.length) fail("something follows the end of the JSON");
  return result;
}

const compact = (value) => {
  if (value instanceof Num) return value.raw;
  if (value instanceof Map) {
    return `{${[...value].map(([key, v]) => `${JSON.stringify(key)}: ${compact(v)}`).join(", ")}}`;
  }
  if (Array.isArray(value)) return `[${value.map(compact).join(", ")}]`;
  return JSON.stringify(value);
};

// Indented by two; what fits on a line stays on one.
export function stringify(value, width = 72, indent = "") {
  const line = compact(value);
  const nested = (value instanceof Map && value.size) || (Array.isArray(value) && value.length);
  if (!nested || (indent && indent.length + line.length <= width)) return line;
  const inner = `${indent}  `;
  if (value instanceof Map) {
    const parts = [...value].map(
      ([key, v]) => `${inner}${JSON.stringify(key)}: ${stringify(v, width, inner)}`,
    );
    return `{\n${parts.join(",\n")}\n${indent}}`;
  }
  return `[\n${value.map((v) => inner + stringify(v, width, inner)).join(",\n")}\n${indent}]`;
}

// Plain numbers for what is only shown.
export const number = (value) => (value instanceof Num ? Number(value.raw) : value);
