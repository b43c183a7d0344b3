// Elements are built here and nowhere else: text goes in as text nodes, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element: `tag.class.class`. `class`, `text` and `data` are short for className, textContent and
 * dataset; `onNAME` is a listener; names with a dash are attributes, the others properties.
 * undefined, null and false leave a property out. A string in place of properties is the text.
 */
export function el(name, props = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag);
  node.classList.add(...classes);
  if (typeof props === "string") props = { text: props };
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.includes("-") || !(name in node)) node.setAttribute(name, value);
    else node[name] = value;
  }
  append(node, children);
  return node;
}

/** An SVG element with attributes. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value != null) node.setAttribute(name, value);
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child != null && child !== false) node.append(child);
  }
}

/** Adds listeners, {name: function}. */
export function listen(node, handlers) {
  for (const [name, f] of Object.entries(handlers)) node.addEventListener(name, f);
}

/** A framed section with a name for screen readers. */
export const card = (label, ...children) => el("section.card", { "aria-label": label }, ...children);
export const row = (...children) => el("div.row", {}, ...children);
/** Takes the room between its neighbours in a row. */
export const spring = () => el("span.spring");

/** A video that runs by itself, again and again, without sound. */
export const loop = (src, props) => el("video", { src, muted: true, loop: true, autoplay: true, playsInline: true, ...props });

/** Replaces what `node` holds. */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/** Sets the text only if it differs, so that screen readers and selections are left alone. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const ICONS = {
  up: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  close: "M6 6l12 12M18 6L6 18",
  pause: "M9 5v14M15 5v14",
  play: "M8 5l11 7-11 7z",
  edit: "M5 19h4L19 9l-4-4L5 15z",
  again: "M20 12a8 8 0 1 1-2.5-5.8M20 3v4h-4",
  use: "M9 7L4 12l5 5M4 12h10a6 6 0 0 1 6 6",
  star: "M12 4l2.5 5.2 5.7.7-4.2 3.9 1.1 5.7L12 16.7 6.9 19.5 8 13.800 3.800 9.900l5.700-.7z",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  compare: "M12 4v16M4 7h5v10H4zM15 7h5v10h-5z",
  left: "M15 5l-7 7 7 7",
  right: "M9 5l7 7-7 7",
  plus: "M12 5v14M5 12h14",
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.5 9.5h.01",
  brush: "M19 5L10 14M8 14a3 3 0 0 0-3 3c0 1-1 2-2 2 2 2 8 2 8-2a3 3 0 0 0-3-3z",
  restore: "M4 12a8 8 0 1 0 2.5-5.8M4 3v4h4",
};

/** A drawing of 24 x 24 that screen readers skip. */
export function icon(name) {
  const path = svg("path", { d: ICONS[name] });
  return svg("svg", { class: `icon icon-${name}`, viewBox: "0 0 24 24", "aria-hidden": "true" }, path);
}

/**
 * A button. With `icon` and no visible `text` the label is its name for screen readers and its
 * tooltip. While the promise of `onclick` is open, further presses have no effect; what it throws
 * goes to `failed`.
 */
export function button(label, onclick, { icon: picture, text = !picture, kind = "", failed = report } = {}) {
  const node = el("button", { type: "button", class: `button ${kind} ${text ? "" : "round"}` },
    picture && icon(picture), text && el("span", { text: label }));
  if (!text) Object.assign(node, { title: label, ariaLabel: label });
  node.addEventListener("click", async event => {
    if (node.getAttribute("aria-busy") === "true") return;
    node.setAttribute("aria-busy", "true");
    try {
      await onclick(event);
    } catch (problem) {
      failed(problem);
    } finally {
      node.removeAttribute("aria-busy");
    }
  });
  return node;
}

let report = problem => console.error(problem);
/** Sets where errors of buttons go. */
export function reportErrorsTo(show) {
  report = show;
}

/**
 * Keeps the children of `parent` equal to `items`, one element for each key, in order. `make(item)`
 * returns an element, whose `update(item)` is called each time. Elements that stay are moved only
 * where the order changed, and the focus stays where it was.
 */
export function keyed(parent, items, keyOf, make) {
  const old = new Map([...parent.children].map(node => [node.dataset.key, node]));
  const focused = document.activeElement;
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let node = old.get(key);
    old.delete(key);
    if (!node) {
      node = make(item);
      node.dataset.key = key;
    }
    node.update?.(item);
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
  for (const node of old.values()) node.remove();
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

/** Calls `f` once, `ms` after the last call. */
export function debounced(ms, f) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => f(...args), ms);
  };
}

/** A dialog that covers the page, closes on Escape and gives the focus back. Returns its element. */
export function openDialog(title, body, { className = "", onclose } = {}) {
  const heading = el("h2", { text: title, id: `dialog-${Math.random().toString(36).slice(2)}` });
  const dialog = el("dialog", { class: className, "aria-labelledby": heading.id },
    el("header", {}, heading, button("Close", () => dialog.close(), { icon: "close" })), body);
  dialog.addEventListener("close", () => {
    dialog.remove();
    onclose?.();
  });
  dialog.addEventListener("click", event => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Asks in words; resolves to true if it is confirmed. */
export function confirmed(question, action) {
  return new Promise(resolve => {
    let answer = false;
    const yes = button(action, () => { answer = true; dialog.close(); }, { kind: "danger" });
    const no = button("Keep", () => dialog.close());
    const dialog = openDialog(question, el("div.row.end", {}, no, yes), { className: "small", onclose: () => resolve(answer) });
    no.focus();
  });
}
