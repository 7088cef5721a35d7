// Answers as bars: one for every option, the caller's order, with a mark for what each order alone said.

import { h } from "./dom.js";
import { number } from "./json.js";

const MANY = 12;
const SHOWN = 10;

export const percent = (p) =>
  p > 0 && p < 0.0005 ? "< 0.1 %" : p < 1 && p > 0.9995 ? "> 99.9 %" : `${(100 * p).toFixed(1)} %`;

// Cards of all answers. `request` gives option order and type; `reply` is the parsed response.
export function cards(request, reply) {
  const answers = reply.get("answers");
  return [...request.get("questions")].map(([id, asked], index) => card(id, asked, answers.get(id), index));
}

function card(id, asked, answer, index) {
  const options = optionsOf(asked, answer);
  const orders = (answer.get("x_orders") ?? []).map((one) => options.map(({ key }) => number(one.get(key))));
  const top = options.reduce((best, each) => (each.p > best.p ? each : best));
  const title = `answer-${index}`;
  return h(
    "article",
    { class: "answer", "aria-labelledby": title, "data-question": id },
    h("header", {}, h("h3", { id: title, class: "code" }, id), asks(asked)),
    h(
      "p",
      { class: "verdict" },
      h("strong", {}, top.name),
      h("span", {}, percent(top.p)),
      score(asked, answer, options),
    ),
    bars(options, orders, top),
    facts(answer, options, orders),
  );
}

function optionsOf(asked, answer) {
  const type = asked.get("type");
  if (type === "noul") {
    const yes = number(answer.get("noul"));
    return [
      { key: "true", name: "Yes", p: yes },
      { key: "false", name: "No", p: 1 - yes },
    ];
  }
  const probabilities = answer.get("probabilities");
  const p = (key) => number(probabilities.get(key));
  if (type === "choice")
    return [...asked.get("criteria").keys()].map((key) => ({ key, name: key, p: p(key) }));
  return asked.get("criteria").map((level, i) => ({
    key: String(i),
    name: typeof level === "string" ? level : `level ${i}`,
    lead: String(i),
    p: p(String(i)),
  }));
}

function asks(asked) {
  const text = asked.get("instructions");
  return typeof text === "string" && text ? h("p", { class: "asked", title: text }, text) : null;
}

function score(asked, answer, options) {
  if (asked.get("type") !== "score") return null;
  return h(
    "span",
    { class: "expected" },
    `mean ${number(answer.get("score")).toFixed(2)} on 0 … ${options.length - 1}`,
  );
}

function bars(options, orders, top) {
  const rows = options.map((each, index) => ({
    each,
    row: bar(
      each,
      orders.map((one) => one[index]),
      each === top,
    ),
  }));
  if (rows.length <= MANY)
    return h(
      "ol",
      { class: "bars" },
      rows.map(({ row }) => row),
    );
  const best = new Set([...options].sort((a, b) => b.p - a.p).slice(0, SHOWN));
  const list = h("ol", { class: "bars" });
  const button = h("button", { type: "button", class: "small" });
  let all = false;
  const draw = () => {
    const ranked = rows.filter(({ each }) => best.has(each)).sort((a, b) => b.each.p - a.each.p);
    list.replaceChildren(...(all ? rows : ranked).map(({ row }) => row));
    button.textContent = all ? `Only the ${SHOWN} most probable` : `All ${rows.length} in the order asked`;
    button.setAttribute("aria-expanded", all);
  };
  button.addEventListener("click", () => {
    all = !all;
    draw();
  });
  draw();
  return h("div", {}, list, button);
}

function bar(each, perOrder, isTop) {
  const fill = h("span", { class: "fill" });
  fill.style.width = `${100 * each.p}%`;
  const marks =
    perOrder.length > 1
      ? perOrder.map((p, order) => {
          const mark = h("span", { class: "mark", title: `order ${order + 1}: ${percent(p)}` });
          mark.style.left = `${100 * p}%`;
          return mark;
        })
      : [];
  const lead = each.lead === undefined ? null : h("span", { class: "lead code" }, each.lead);
  return h(
    "li",
    { class: isTop ? "bar best" : "bar" },
    h("span", { class: "bar-name", title: each.name }, lead, each.name === "" ? "(empty)" : each.name),
    h("span", { class: "track", "aria-hidden": "true" }, fill, marks),
    h("span", { class: "bar-value", title: String(each.p) }, percent(each.p)),
  );
}

function facts(answer, options, orders) {
  const found = [];
  const given = answer.get("confidence");
  // The wire has no confidence for yes/no; this is the formula of a choice between two.
  const confidence = given === undefined ? Math.abs(2 * options[0].p - 1) : number(given);
  const meter = h("span", { class: "meter", "aria-hidden": "true" }, h("span", { class: "fill" }));
  meter.firstChild.style.width = `${100 * confidence}%`;
  found.push(
    fact(
      "Confidence",
      "0: no better than guessing evenly. 1: certain. A function of the probabilities, not a promise.",
      meter,
      confidence.toFixed(2),
    ),
  );
  const disagreement = answer.get("x_disagreement");
  if (disagreement !== undefined) {
    const value = number(disagreement);
    const best = (row) => row.indexOf(Math.max(...row));
    const merged = best(options.map(({ p }) => p));
    const others = orders.filter((row) => best(row) !== merged).length;
    const verdict = others
      ? `${others} of ${orders.length} orders prefer another option`
      : `all ${orders.length} orders prefer the same option`;
    found.push(
      fact(
        "Orders disagree",
        "Mean distance of each order's distribution to their average: 0 none, 1 total. Marks on the bars are the orders.",
        value.toFixed(3),
        h("span", { class: others ? "warn" : "muted" }, orders.length ? verdict : ""),
      ),
    );
  }
  const wordings = answer.get("x_wording_disagreement");
  if (wordings !== undefined)
    found.push(
      fact(
        "Wordings disagree",
        "Mean distance of each wording to their average.",
        number(wordings).toFixed(3),
      ),
    );
  const bucket = answer.get("x_bucket");
  if (bucket !== undefined)
    found.push(fact("Temperature of", "The calibration bucket this question fell into.", bucket));
  return h("dl", { class: "facts" }, found);
}

const fact = (name, title, ...values) => h("div", { title }, h("dt", {}, name), h("dd", {}, values));

// Tokens, time and the request's id.
export function costs(reply, headers, roundTrip) {
  const usage = reply.get("usage");
  const count = (key) => number(usage.get(key));
  const rows = [];
  const add = (name, value, title = "") =>
    rows.push(h("div", { title }, h("dt", {}, name), h("dd", {}, value)));
  const [state, questions] = [count("x_state_tokens"), count("x_question_tokens")];
  const parts = state === undefined ? "" : ` = ${state} state + ${questions} questions`;
  add("Tokens", `${count("input_tokens")}${parts}`, "Read once per state; every order of a question counts.");
  if (usage.get("x_state_cache_hit")) add("State", "from the cache");
  const server = headers.get("x-reflex-latency-ms");
  if (server)
    add("Server", `${Number(server).toFixed(1)} ms`, "From the first byte of the request to the reply.");
  add("Round trip", `${roundTrip.toFixed(1)} ms`, "As this browser saw it.");
  const id = headers.get("x-typesafe-request-id");
  if (id) add("Request", h("code", { title: id }, id.slice(0, 8)), id);
  return rows;
}
