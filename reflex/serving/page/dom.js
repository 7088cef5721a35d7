// Elements from data. Text only ever becomes text: nothing here parses markup.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

// Tabs with arrow keys; `select(name)` shows one, `onChange(name)` may refuse by returning false.
export function tabs(list, onChange) {
  const buttons = [...list.querySelectorAll("[role=tab]")];
  const select = (name, focus = false) => {
    if (onChange(name) === false) return;
    for (const button of buttons) {
      const chosen = button.dataset.tab === name;
      button.setAttribute("aria-selected", chosen);
      button.tabIndex = chosen ? 0 : -1;
      if (chosen && focus) button.focus();
    }
    const chosen = buttons.find((button) => button.dataset.tab === name);
    for (const id of new Set(buttons.map((button) => button.getAttribute("aria-controls")))) {
      const panel = byId(id);
      panel.hidden = id !== chosen.getAttribute("aria-controls");
      if (!panel.hidden) panel.setAttribute("aria-labelledby", chosen.id);
    }
  };
  list.addEventListener("click", (event) => {
    const button = event.target.closest("[role=tab]");
    if (button) select(button.dataset.tab);
  });
  list.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -at, End: buttons.length - 1 - at };
    if (at < 0 || !(event.key in steps)) return;
    event.preventDefault();
    const next = buttons[(at + steps[event.key] + buttons.length) % buttons.length];
    select(next.dataset.tab, true);
  });
  return select;
}
