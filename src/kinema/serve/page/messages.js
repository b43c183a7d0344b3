// Short messages at the edge of the page, which screen readers say.

import { button, el, setText } from "./dom.js";
import { inWords } from "./words.js";

const box = el("div", { id: "messages", role: "status", "aria-live": "polite" });
document.body.append(box);
// What lies outside of an open dialog cannot be pressed: messages move into it, and back.
document.addEventListener("close", event => event.target.contains(box) && document.body.append(box), true);

/** Shows a message for some seconds; `action` is [label, function]. */
export function say(text, { kind = "", action } = {}) {
  const message = el("div", { class: `message ${kind}` }, el("span", { text }));
  const away = () => message.remove();
  if (action) message.append(button(action[0], () => { away(); return action[1](); }, { kind: "plain" }));
  message.append(button("Dismiss", away, { icon: "close" }));
  const host = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  if (box.parentNode !== host) host.append(box);
  box.append(message);
  while (box.children.length > 3) box.firstChild.remove();
  setTimeout(away, kind === "bad" ? 12000 : action ? 9000 : 4000);
}

const quiet = el("div.unseen", { role: "status" });
document.body.append(quiet);

/** Says something to screen readers only: eyes see it elsewhere. */
export function whisper(text) {
  setText(quiet, text);
}

/** Shows what went wrong. */
export function sayProblem(problem) {
  if (problem.status === undefined) console.error(problem);
  say(inWords(problem), { kind: "bad" });
}
