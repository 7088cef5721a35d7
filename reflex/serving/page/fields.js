// Pieces of the form: a text field bound to its model, and lists that grow and shrink.

import { h } from "./dom.js";

// A textarea that edits `target` ({text, json}) and is as tall as its text.
export function area(target, attributes, changed) {
  const element = h("textarea", {
    spellcheck: "false",
    ...attributes,
    oninput: (event) => {
      target.text = event.target.value;
      fit(element);
      changed();
    },
  });
  element.value = target.text;
  if (target.json) element.classList.add("code");
  requestAnimationFrame(() => fit(element));
  return element;
}

// Where the browser does not size a textarea to its text by itself.
function fit(element) {
  if (CSS.supports("field-sizing", "content")) return;
  element.style.height = "auto";
  element.style.height = `${element.scrollHeight + 2}px`;
}

// Rows above a button that adds one (none without a word for it).
export function rows(lines, word, add, redraw) {
  const onclick = () => {
    add();
    redraw(inRow(lines.length + 1));
  };
  const more = word && h("button", { type: "button", class: "small add", onclick }, word);
  return h("div", {}, h("div", { class: "rows" }, lines), more);
}

// The button that removes entry `index` of `list`; the last one stays.
export function dropper(list, index, what, redraw) {
  const onclick = () => {
    list.splice(index, 1);
    redraw(inRow(Math.min(index + 1, list.length)));
  };
  const attributes = { type: "button", class: "remove", "aria-label": `Remove ${what}` };
  return h("button", { ...attributes, disabled: list.length < 2, onclick }, "×");
}

const inRow = (n) => `.rows .row:nth-child(${n}) :is(input, textarea)`;
