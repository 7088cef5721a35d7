// Wiring: one request in five notations, sent with Run, answered beside it.

import { cards, costs } from "./answers.js";
import { byId, h, tabs } from "./dom.js";
import { Form } from "./form.js";
import { parse, stringify } from "./json.js";
import { FormError, emptyModel, toModel, toRequest } from "./request.js";
import { send } from "./send.js";
import { NOTES, snippet } from "./snippets.js";
import { startHealth } from "./health.js";
import { startTheme } from "./theme.js";

const origin = location.origin;
const el = Object.fromEntries([...document.querySelectorAll("[id]")].map((each) => [each.id, each]));
const kept = (name, value) => {
  try {
    if (value === undefined) return sessionStorage.getItem(name);
    sessionStorage.setItem(name, value);
  } catch {
    // Storage may be switched off; the page works without.
  }
  return null;
};

let model;
let source = "form"; // what holds the request: the form's model, or the raw JSON
let notation = "form"; // the tab that is shown
let running = null;
let examples = [];

const form = new Form(el["panel-form"], changed);

function changed() {
  form.clearMarks();
  el["raw-problem"].textContent = "";
  el.bars.classList.add("stale");
  kept("request", source === "form" ? draft() : el.raw.value);
  try {
    const request = current();
    if (source === "json") el.orders.value = request.get("permutations")?.raw ?? "";
    if (notation in NOTES) el.code.textContent = snippet(notation, request, origin);
  } catch {
    // Half-written; Run will say what is wrong.
  }
}

const draft = () => {
  try {
    return stringify(toRequest(model));
  } catch {
    return kept("request") ?? "";
  }
};

// -- notations -------------------------------------------------------------------------------------

// The request as a Map. Raises FormError or JsonError.
function current() {
  if (source === "form") return toRequest(model);
  const request = parse(el.raw.value);
  if (!(request instanceof Map)) throw new Error("The request must be a JSON object.");
  return request;
}

const select = tabs(byId("notations"), (name) => {
  try {
    if (name === "form") {
      if (source === "json") show(toModel(current()));
    } else if (name === "json") {
      if (source === "form") {
        el.raw.value = stringify(current());
        source = "json";
      }
    } else {
      el.code.textContent = snippet(name, current(), origin);
      el["code-note"].textContent = NOTES[name];
    }
    note("");
    notation = name;
    return true;
  } catch (error) {
    wrong(error);
    return false;
  }
});

function show(next) {
  model = next;
  source = "form";
  form.show(model);
  el.orders.value = model.permutations ?? "";
}

el.raw.addEventListener("input", changed);

el.copy.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(el.code.textContent);
    el.copy.textContent = "Copied";
  } catch {
    // Without https only the selection can be copied.
    getSelection().selectAllChildren(el.code);
    el.copy.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
  }
  setTimeout(() => (el.copy.textContent = "Copy"), 1500);
});

el.orders.append(
  h("option", { value: "" }, "as served"),
  ...[1, 2, 3, 4, 5, 6, 7, 8].map((n) => h("option", { value: n }, n)),
);
el.orders.addEventListener("change", () => {
  const permutations = el.orders.value === "" ? null : Number(el.orders.value);
  if (source === "form") {
    model.permutations = permutations;
  } else {
    try {
      const request = current();
      request.delete("permutations");
      const next = toModel(request);
      next.permutations = permutations;
      el.raw.value = stringify(toRequest(next));
    } catch (error) {
      wrong(error);
    }
  }
  changed();
});

// -- running ---------------------------------------------------------------------------------------

const view = tabs(byId("views"), () => true);
const note = (text) => (el["run-note"].textContent = text);

el.run.addEventListener("click", () => (running ? running.abort() : run()));
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !running) {
    event.preventDefault();
    run();
  }
});

async function run() {
  form.clearMarks();
  el["raw-problem"].textContent = "";
  let request;
  try {
    request = current();
  } catch (error) {
    return wrong(error);
  }
  note("");
  problem(null);
  busy(new AbortController());
  const result = await send(request, el.key.value, running.signal);
  busy(null);
  if (result.stopped) note("Stopped.");
  else if (result.problem) problem(result.problem, result.body);
  else answered(request, result);
}

function busy(controller) {
  running = controller;
  document.body.classList.toggle("running", Boolean(controller));
  el.answers.setAttribute("aria-busy", Boolean(controller));
  el.run.firstChild.textContent = controller ? "Stop " : "Run ";
}

function answered(request, { reply, headers, elapsed }) {
  el.empty.hidden = true;
  el.bars.classList.remove("stale");
  el.bars.replaceChildren(...cards(request, reply));
  el.reply.textContent = stringify(reply);
  el.costs.replaceChildren(...costs(reply, headers, elapsed));
  const count = request.get("questions").size;
  el.done.textContent = `${count} ${count === 1 ? "answer" : "answers"} in ${elapsed.toFixed(0)} ms`;
  toAnswers();
}

// On a small screen the answers lie below the request.
function toAnswers() {
  if (matchMedia("(max-width: 60rem)").matches) el.answers.scrollIntoView({ behavior: "smooth" });
}

// -- what went wrong -------------------------------------------------------------------------------

// Before anything was sent.
function wrong(error) {
  const where = error instanceof FormError && source === "form" && form.mark(error.where, error.message);
  if (source === "json" && error.at !== undefined) {
    el["raw-problem"].textContent = error.message;
    el.raw.focus();
    el.raw.setSelectionRange(error.at, Math.min(error.at + 1, el.raw.value.length));
  } else if (!where) {
    note(error.message);
  } else {
    note("Not sent: see what is marked.");
  }
}

function problem(found, body) {
  if (!found) return el.problem.replaceChildren();
  const where = found.path && found.path.slice(1).map(String).join(" › ");
  el.problem.replaceChildren(
    h(
      "div",
      { class: "problem" },
      h("strong", {}, found.title),
      h("p", {}, found.text),
      where ? h("p", { class: "code" }, where) : null,
      found.retry ? h("button", { type: "button", class: "small", onclick: run }, "Try again") : null,
    ),
  );
  el.bars.classList.add("stale");
  note(found.title);
  if (body) el.reply.textContent = body;
  if (found.key) {
    el.key.setAttribute("aria-invalid", "true");
    el.key.focus();
    return;
  }
  const at =
    found.path?.[1] === "questions"
      ? model.questions.findIndex((each) => each.id === found.path[2])
      : found.path?.[1];
  const marked = source === "form" && at !== undefined && at !== -1 && form.mark(at, found.text);
  if (!marked) toAnswers();
}

// -- start -----------------------------------------------------------------------------------------

el.key.value = kept("key") ?? "";
el.key.addEventListener("input", () => {
  el.key.removeAttribute("aria-invalid");
  kept("key", el.key.value);
});
if (/Mac|iP/.test(navigator.platform)) el["run-keys"].textContent = "⌘ ↵";

async function loadExamples() {
  const reply = await fetch("/playground/examples.json");
  examples = parse(await reply.text());
  el.example.append(...examples.map((each, index) => h("option", { value: index }, each.get("title"))));
}

function loadExample(index) {
  show(toModel(examples[index].get("request")));
  select("form");
  changed();
}

el.example.addEventListener("change", () => {
  if (el.example.value === "") return;
  source = "form";
  loadExample(Number(el.example.value));
  el.example.value = "";
});

function restore(text) {
  try {
    show(toModel(parse(text)));
  } catch {
    el.raw.value = text;
    show(emptyModel());
    source = "json";
    select("json");
  }
}

startTheme(byId("theme"));
startHealth(byId("served"), el.key);
await loadExamples().catch(() => note("The examples could not be loaded."));
const before = kept("request");
if (before) restore(before);
else show(examples.length ? toModel(examples[0].get("request")) : emptyModel());
view("bars");
document.body.dataset.ready = "true";
