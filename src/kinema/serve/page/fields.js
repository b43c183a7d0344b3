// Form fields made from the keys that the server names (`Key` in page_api.txt).

import { el, fill, setText } from "./dom.js";

let ids = 0;

/** A label, an input, help below it, and a place for what is wrong with it. */
export function labelled(label, input, { help = "", wide = false } = {}) {
  input.id ||= `f${++ids}`;
  const note = help && el("p.help", { id: `${input.id}-help`, text: help });
  const wrong = el("p.wrong", { id: `${input.id}-wrong`, hidden: true });
  if (note) input.setAttribute("aria-describedby", note.id);
  const box = el("div", { class: `field ${wide ? "wide" : ""}` }, el("label", { htmlFor: input.id, text: label }), input, note, wrong);
  box.input = input;
  box.refuse = text => {
    setText(wrong, text ?? "");
    wrong.hidden = !text;
    if (text) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    input.setAttribute("aria-describedby", [note && note.id, text && wrong.id].filter(Boolean).join(" "));
  };
  return box;
}

/** A select of [value, label] pairs. */
export function choice(pairs, value, onchange) {
  const select = el("select", { onchange: () => onchange?.(select.value) });
  setChoices(select, pairs, value);
  return select;
}

export function setChoices(select, pairs, value = select.value) {
  fill(select, pairs.map(([each, label]) => el("option", { value: each, text: label })));
  if (pairs.some(([each]) => each === value)) select.value = value;
}

/** A text area that is as high as its text. */
export function textArea(props) {
  const area = el("textarea", { rows: 3, ...props });
  area.fit = () => {
    area.classList.add("measured");
    area.rows = props.rows ?? 3;
    const line = parseFloat(getComputedStyle(area).lineHeight) || 20;
    area.rows = Math.min(16, Math.max(props.rows ?? 3, Math.floor((area.scrollHeight - 12) / line)));
    area.classList.remove("measured");
  };
  area.addEventListener("input", area.fit);
  return area;
}

const asText = value => value == null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);

function range({ min, max }) {
  if (min === null) return max === null ? "" : `at most ${max}`;
  return max === null ? `at least ${min}` : `${min} to ${max}`;
}

// Lists and maps are written as in JSON; a list may leave its brackets out.
function tree(text, type) {
  try {
    return JSON.parse(type === "list" && !text.trim().startsWith("[") ? `[${text}]` : text);
  } catch {
    return text;  // the server says what it expected
  }
}

/** The input of a key with functions that read and write its value; undefined: not given. */
function inputFor(key) {
  const placeholder = asText(key.default);
  let input;
  let read = text => text;
  if (key.type === "bool") {
    input = choice([["", `${key.default ? "yes" : "no"} (default)`], ["true", "yes"], ["false", "no"]], "");
    read = text => text === "true";
  } else if (key.one_of?.length) {
    input = choice([["", `${placeholder} (default)`], ...key.one_of.map(each => [each, each])], "");
  } else if (key.type === "int" || key.type === "float") {
    input = el("input", { type: "number", min: key.min ?? "", max: key.max ?? "", placeholder, inputMode: "decimal",
                          step: key.type === "int" ? key.multiple_of : "any" });
    read = Number;
  } else if (key.prose) {
    input = textArea({ rows: 2, placeholder });
  } else {
    input = el("input", { type: "text", placeholder });
    if (key.type !== "text") read = text => tree(text, key.type);
  }
  return { input, read: () => input.value === "" ? undefined : read(input.value), write: value => { input.value = asText(value); } };
}

/** Fields of many keys in groups, with a filter. Only what differs from the default is given. */
export class SettingsForm {
  constructor(onchange, { filter = true } = {}) {
    this.onchange = onchange;
    this.fields = new Map();
    this.groups = el("div.groups");
    this.search = el("input", { type: "search", placeholder: "Find a setting", "aria-label": "Find a setting", oninput: () => this.filter() });
    this.element = el("div.settings-form", {}, filter && this.search, this.groups);
    this.element.addEventListener("input", () => this.changed());
    this.element.addEventListener("change", () => this.changed());
  }

  changed() {
    this.showEffect();
    this.onchange?.();
  }

  /** Shows fields of these keys; values that were given stay where the key is still there. */
  setKeys(keys) {
    const values = this.values();
    const groups = new Map();
    this.fields.clear();
    for (const key of keys) {
      const control = inputFor(key);
      const box = labelled(key.key, control.input, { help: [key.help, range(key)].filter(Boolean).join("; "), wide: key.prose });
      this.fields.set(key.key, { key, ...control, box });
      if (!groups.has(key.group)) groups.set(key.group, []);
      groups.get(key.group).push(box);
    }
    fill(this.groups, [...groups].map(([name, boxes]) =>
      el("fieldset", {}, groups.size > 1 && el("legend", { text: name }), el("div.fields", {}, boxes))));
    this.write(values);
  }

  values() {
    const values = {};
    for (const [name, field] of this.fields) {
      const value = field.read();
      if (value !== undefined) values[name] = value;
    }
    return values;
  }

  write(values) {
    for (const [name, field] of this.fields) field.write(values[name]);
    this.showEffect();
  }

  /** Shows what is wrong at the field of this key; false if there is none. */
  refuse(name, text) {
    for (const field of this.fields.values()) field.box.refuse(null);
    const field = this.fields.get(name);
    if (text) field?.box.refuse(text);
    return Boolean(field);
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/);
    for (const { key, box } of this.fields.values()) {
      const text = `${key.key} ${key.help} ${key.group}`.toLowerCase();
      box.hidden = !words.every(word => text.includes(word));
    }
    for (const group of this.groups.children) group.hidden = !group.querySelector(".field:not([hidden])");
  }

  // A key that another one must be given for is dimmed until then.
  showEffect() {
    for (const { key, box } of this.fields.values()) {
      const [name, wanted] = (key.with ?? "").split("=");
      const other = this.fields.get(name);
      if (!other) continue;
      const value = other.read() ?? other.key.default;
      const has = wanted === undefined ? Boolean(value) && value !== 0 : wanted.split("|").some(each => each.trim() === String(value));
      box.classList.toggle("without-effect", !has);
      box.title = has ? "" : `has an effect only with ${key.with}`;
    }
  }
}

/** A list of names as buttons of which one is pressed; `onchange(name)`. */
export function tabs(label, pairs, value, onchange) {
  const bar = el("div.tabs", { role: "group", "aria-label": label });
  bar.show = chosen => {
    for (const tab of bar.children) tab.setAttribute("aria-pressed", String(tab.dataset.value === chosen));
  };
  bar.append(...pairs.map(([each, text]) =>
    el("button", { type: "button", text, data: { value: each }, onclick: () => { bar.show(each); onchange(each); } })));
  bar.show(value);
  return bar;
}
