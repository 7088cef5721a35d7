// The form: it edits a model in place and says when it changed. Adding and removing redraws one question.

import { h } from "./dom.js";
import { area, dropper, rows } from "./fields.js";
import { field, option, question } from "./request.js";

export const TYPES = { noul: "Yes / no", choice: "Choice", score: "Score" };

export class Form {
  constructor(root, changed) {
    this.root = root;
    this.changed = changed;
  }

  show(model) {
    this.model = model;
    this.state = h("div", { class: "field", id: "field-state" });
    this.list = h("div", { class: "questions" });
    this.root.replaceChildren(
      this.state,
      h("h3", { class: "label", id: "questions-title" }, "Questions"),
      this.list,
      this.adders(),
    );
    this.drawState();
    this.list.replaceChildren(...model.questions.map((each) => this.card(each)));
  }

  // Show a problem at the state or at a question; returns whether there is such a place.
  mark(where, message) {
    const place = where === "state" ? this.state : this.list.children[where];
    if (!place) return false;
    place.classList.add("wrong");
    const note = h("p", { class: "field-problem" }, message);
    place.append(note);
    const input = place.querySelector("textarea, input:not([type=checkbox])");
    input?.setAttribute("aria-invalid", "true");
    input?.focus({ preventScroll: true });
    place.scrollIntoView({ block: "nearest", behavior: "smooth" });
    return true;
  }

  clearMarks() {
    for (const each of this.root.querySelectorAll(".field-problem")) each.remove();
    for (const each of this.root.querySelectorAll(".wrong")) each.classList.remove("wrong");
    for (const each of this.root.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
  }

  drawState() {
    const { state } = this.model;
    const toggle = h(
      "label",
      { class: "check" },
      h("input", {
        type: "checkbox",
        id: "state-json",
        onchange: (event) => {
          state.json = event.target.checked;
          this.state.querySelector("textarea").classList.toggle("code", state.json);
          this.changed();
        },
      }),
      "is JSON",
    );
    toggle.firstChild.checked = state.json;
    this.state.replaceChildren(
      h("div", { class: "field-head" }, h("label", { class: "label", for: "state" }, "State"), toggle),
      this.area(state, {
        id: "state",
        rows: 5,
        class: state.json ? "code" : null,
        placeholder: "What the questions are about: a text, or JSON",
      }),
    );
  }

  adders() {
    const add = (type) => () => {
      const names = new Set(this.model.questions.map((each) => each.id));
      let n = this.model.questions.length + 1;
      while (names.has(`question_${n}`)) n++;
      const added = question(type, `question_${n}`);
      this.model.questions.push(added);
      this.list.append(this.card(added));
      this.list.lastChild.querySelector("textarea").focus();
      this.changed();
    };
    return h(
      "div",
      { class: "adders", role: "group", "aria-label": "Add a question" },
      h("span", { "aria-hidden": "true" }, "Add"),
      Object.entries(TYPES).map(([type, name]) =>
        h(
          "button",
          {
            type: "button",
            class: "small",
            onclick: add(type),
            "data-add": type,
            "aria-label": `Add a question: ${name}`,
          },
          name,
        ),
      ),
    );
  }

  card(each) {
    const id = `q${each.key}`;
    const redraw = (focus) => {
      const fresh = this.card(each);
      card.replaceWith(fresh);
      fresh.querySelector(focus)?.focus();
      this.changed();
    };
    const kind = h(
      "select",
      {
        id: `${id}-type`,
        "aria-label": "Type of the question",
        onchange: (event) => {
          each.type = event.target.value;
          redraw("select");
        },
      },
      Object.entries(TYPES).map(([type, name]) => h("option", { value: type }, name)),
    );
    kind.value = each.type;
    const name = h("input", {
      class: "name code",
      value: each.id,
      spellcheck: "false",
      autocomplete: "off",
      "aria-label": "Name of the question",
      oninput: (event) => {
        each.id = event.target.value;
        this.changed();
      },
    });
    const remove = h(
      "button",
      {
        type: "button",
        class: "remove",
        "aria-label": `Remove question ${each.id}`,
        onclick: () => {
          const { questions } = this.model;
          const at = questions.indexOf(each);
          questions.splice(at, 1);
          card.remove();
          (this.list.children[at] ?? this.list.lastChild)?.querySelector("input")?.focus();
          this.changed();
        },
      },
      "×",
    );
    const body = {
      noul: () => this.outcomes(each),
      choice: () => this.options(each, redraw),
      score: () => this.levels(each, redraw),
    }[each.type]();
    const card = h(
      "fieldset",
      { class: "question" },
      h("legend", { class: "hidden" }, `Question ${each.id}`),
      h("div", { class: "question-head" }, name, kind, remove),
      this.area(each.instructions, { rows: 1, "aria-label": "Instructions", placeholder: "The question" }),
      body,
    );
    return card;
  }

  area(target, attributes) {
    return area(target, attributes, () => this.changed());
  }

  outcomes(each) {
    const box = h(
      "details",
      { class: "outcomes" },
      h("summary", {}, "What yes and no mean"),
      [
        ["Yes", each.yes],
        ["No", each.no],
      ].map(([word, side]) =>
        h(
          "div",
          { class: "row" },
          h("span", { class: "lead", "aria-hidden": "true" }, word),
          this.area(side, {
            rows: 1,
            "aria-label": `What ${word.toLowerCase()} means`,
            placeholder: "optional",
          }),
        ),
      ),
    );
    box.open = Boolean(each.yes.text || each.no.text);
    return box;
  }

  options(each, redraw) {
    const lines = each.options.map((one, index) => {
      const name = h("input", {
        class: "option-name",
        value: one.name,
        "aria-label": `Option ${index + 1}`,
        placeholder: "Option",
        spellcheck: "false",
        autocomplete: "off",
        oninput: (event) => {
          one.name = event.target.value;
          this.changed();
        },
        onkeydown: (event) => {
          if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.isComposing) return;
          event.preventDefault();
          each.options.splice(index + 1, 0, option());
          redraw(`.rows .row:nth-child(${index + 2}) input`);
        },
        // A pasted list becomes one option a line.
        onpaste: (event) => {
          const names = event.clipboardData
            .getData("text")
            .split(/\r?\n/)
            .map((line) => line.trim())
            .filter(Boolean);
          if (names.length < 2) return;
          event.preventDefault();
          each.options.splice(index, one.name ? 0 : 1, ...names.map((name) => option(name)));
          redraw(`.rows .row:nth-child(${index + names.length}) input`);
        },
      });
      return h(
        "div",
        { class: "row two" },
        name,
        this.area(one.text, {
          rows: 1,
          "aria-label": `Description of option ${index + 1}`,
          placeholder: "description, optional",
        }),
        dropper(each.options, index, `option ${index + 1}`, redraw),
      );
    });
    return rows(lines, "+ Option", () => each.options.push(option()), redraw);
  }

  levels(each, redraw) {
    const lines = each.levels.map((level, index) =>
      h(
        "div",
        { class: "row" },
        h("span", { class: "lead code", "aria-hidden": "true" }, String(index)),
        this.area(level, {
          rows: 1,
          "aria-label": `Level ${index}`,
          placeholder: index ? "Level" : "Lowest level",
        }),
        dropper(each.levels, index, `level ${index}`, redraw),
      ),
    );
    return rows(lines, each.levels.length < 10 ? "+ Level" : null, () => each.levels.push(field()), redraw);
  }
}
