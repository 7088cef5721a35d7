// The form's model and the request it stands for. A field is {text, json}: json marks a structured value,
// whose text is its JSON.

import { Num, parse, stringify } from "./json.js";

export class FormError extends Error {
  // where: "state" or the index of a question.
  constructor(message, where) {
    super(message);
    this.where = where;
  }
}

export const field = (text = "", json = false) => ({ text, json });

let next = 0;
export const question = (type, id) => ({
  key: next++,
  type,
  id,
  instructions: field(),
  yes: field(),
  no: field(),
  options: [option(), option()],
  levels: [field(), field()],
});
export const option = (name = "", text = field()) => ({ name, text });

export const emptyModel = () => ({ state: field(), questions: [], permutations: null, rest: new Map() });

// -- form to request -------------------------------------------------------------------------------

export function toRequest(model) {
  const request = new Map([["model", model.rest.get("model") ?? "jev-latest"]]);
  request.set("state", valueOf(model.state, "The state", "state") ?? "");
  if (!model.questions.length)
    throw new FormError("There is no question yet. Add one below the state.", "state");
  const questions = new Map();
  model.questions.forEach((each, index) => {
    const id = each.id;
    if (!id) throw new FormError("This question has no name.", index);
    if (questions.has(id)) throw new FormError(`Two questions are called "${id}".`, index);
    questions.set(id, questionValue(each, index));
  });
  request.set("questions", questions);
  if (model.permutations !== null) request.set("permutations", new Num(String(model.permutations)));
  for (const [key, value] of model.rest) if (!request.has(key)) request.set(key, value);
  return request;
}

function questionValue(each, index) {
  const value = new Map([["type", each.type]]);
  const asked = valueOf(each.instructions, "The instructions", index);
  if (asked !== null) value.set("instructions", asked);
  if (each.type === "noul") {
    const criteria = new Map();
    for (const [key, side] of [
      ["true", each.yes],
      ["false", each.no],
    ]) {
      const text = valueOf(side, `The meaning of ${key}`, index);
      if (text !== null) criteria.set(key, text);
    }
    if (criteria.size) value.set("criteria", criteria);
    if (asked === null && !criteria.size) throw new FormError("A yes/no question needs a question.", index);
  } else if (each.type === "choice") {
    const criteria = new Map();
    for (const { name, text } of each.options) {
      const described = valueOf(text, `The description of ${name}`, index);
      if (name === "" && described === null) continue;
      if (criteria.has(name)) throw new FormError(`Two options are called "${name}".`, index);
      criteria.set(name, described);
    }
    if (!criteria.size) throw new FormError("A choice needs options.", index);
    value.set("criteria", criteria);
  } else {
    const levels = each.levels.map((level) => valueOf(level, "A level", index)).filter((v) => v !== null);
    if (!levels.length) throw new FormError("A score needs levels, lowest first.", index);
    value.set("criteria", levels);
  }
  return value;
}

function valueOf({ text, json }, what, where) {
  if (!json) return text === "" ? null : text;
  let value;
  try {
    value = parse(text);
  } catch (error) {
    throw new FormError(`${what} is not valid JSON: ${error.message}.`, where);
  }
  if (!(value instanceof Map) && !Array.isArray(value) && typeof value !== "string") {
    throw new FormError(`${what}: JSON must be an object, a list or a text.`, where);
  }
  return value;
}

// -- request to form -------------------------------------------------------------------------------

// Raises Error where the form cannot show the request; the JSON editor can hold anything.
export function toModel(request) {
  const shown = (condition, why) => {
    if (!condition) throw new Error(`The form cannot show this request: ${why}.`);
  };
  shown(request instanceof Map, "it is not an object");
  const model = emptyModel();
  model.state = fieldOf(request.get("state") ?? "", shown, "the state");
  const questions = request.get("questions") ?? new Map();
  shown(questions instanceof Map, "questions is not an object");
  for (const [id, raw] of questions) {
    shown(raw instanceof Map, `question "${id}" is not an object`);
    const type = raw.get("type");
    shown(["noul", "choice", "score"].includes(type), `question "${id}" is neither noul, choice nor score`);
    const known = ["type", "instructions", "criteria"];
    const odd = [...raw.keys()].find((key) => !known.includes(key));
    shown(odd === undefined, `question "${id}" has a field "${odd}"`);
    const each = question(type, id);
    const text = (value) => fieldOf(value ?? "", shown, `question "${id}"`);
    each.instructions = text(raw.get("instructions"));
    const criteria = raw.get("criteria") ?? null;
    if (type === "noul") {
      shown(criteria === null || criteria instanceof Map, `criteria of "${id}" is not an object`);
      const strange = criteria && [...criteria.keys()].find((key) => key !== "true" && key !== "false");
      shown(strange === null || strange === undefined, `criteria of "${id}" has a key "${strange}"`);
      each.yes = text(criteria?.get("true"));
      each.no = text(criteria?.get("false"));
    } else if (type === "choice") {
      shown(criteria instanceof Map, `criteria of "${id}" is not an object`);
      each.options = [...criteria].map(([name, value]) => option(name, text(value)));
    } else {
      shown(Array.isArray(criteria), `criteria of "${id}" is not a list`);
      each.levels = criteria.map((level) => text(level));
    }
    model.questions.push(each);
  }
  const permutations = request.get("permutations") ?? null;
  shown(
    permutations === null || (permutations instanceof Num && /^[1-8]$/.test(permutations.raw)),
    "permutations is not 1 to 8",
  );
  model.permutations = permutations === null ? null : Number(permutations.raw);
  for (const [key, value] of request) {
    if (!["state", "questions", "permutations"].includes(key)) model.rest.set(key, value);
  }
  return model;
}

function fieldOf(value, shown, where) {
  if (typeof value === "string") return field(value);
  shown(
    value instanceof Map || Array.isArray(value),
    `${where} holds a number, true or false where text belongs`,
  );
  return field(stringify(value), true);
}
