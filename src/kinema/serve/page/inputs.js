// Pictures and videos that a request begins from: chosen, dropped, pasted or painted.

import { call } from "./api.js";
import { button, el, fill, listen, loop, row } from "./dom.js";
import { paintMask } from "./mask.js";
import { size } from "./words.js";

const LABELS = {
  image: { image: "Picture to change", video: "First frame" },
  last_image: { video: "Last frame" },
  mask: { image: "Mask of what is made anew" },
  control_image: { image: "Edges or depth to follow" },
  video: { video: "Video to change" },
};
const VIDEO = /video|control_mask/;  // inputs that are videos
const IMAGES = "image/png,image/jpeg,image/webp";

const upload = blob => call("POST", "/api/uploads", blob);

/** Fetches an output of the server as an upload. */
export async function uploadOutput(output) {
  const answer = await fetch(output.url);
  return upload(new Blob([await answer.arrayBuffer()], { type: output.type }));
}

/** Slots for the inputs of a model. `onchange()` is called when one is set or removed. */
export class Inputs {
  constructor(onchange, failed) {
    this.onchange = onchange;
    this.failed = failed;
    this.given = new Map();  // name -> Upload
    this.model = null;
    this.element = el("div.slots");
  }

  /** Shows the slots of this model; what it does not take is left out, and named. */
  setModel(model) {
    this.model = model;
    const left = [...this.given.keys()].filter(name => !model.inputs.includes(name));
    for (const name of left) this.given.delete(name);
    this.show();
    return left;
  }

  values() {
    return Object.fromEntries([...this.given].map(([name, { id }]) => [name, id]));
  }

  /** Takes the ids of a request; their sizes are not known then. */
  write(ids) {
    this.given = new Map(Object.entries(ids).map(([name, id]) => [name, { id, url: `/uploads/${id}` }]));
    this.show();
  }

  set(name, given) {
    if (given) this.given.set(name, given);
    else this.given.delete(name);
    if (name === "image" && !given) this.given.delete("mask");
    this.show();
    this.onchange();
  }

  async take(name, file) {
    try {
      this.set(name, await upload(file));
    } catch (problem) {
      this.failed(problem);
    }
  }

  show() {
    fill(this.element, (this.model?.inputs ?? []).map(name => this.slot(name)));
    this.element.hidden = !this.element.children.length;
  }

  slot(name) {
    const label = LABELS[name]?.[this.model.kind] ?? name.replaceAll("_", " ");
    const given = this.given.get(name);
    const chooser = el("input.hidden-file", { type: "file", accept: VIDEO.test(name) ? "video/mp4" : IMAGES, "aria-label": label, tabIndex: -1,
                                  onchange: () => chooser.files[0] && this.take(name, chooser.files[0]) });
    const view = given && (VIDEO.test(name)
      ? loop(given.url, { ariaLabel: label })
      : el("img", { src: given.url, alt: label }));
    const choose = button(given ? "Replace" : "Choose", () => chooser.click(), { icon: "picture", text: true });
    choose.setAttribute("aria-label", `${given ? "Replace" : "Choose"}: ${label}`);
    const paint = name === "mask" && button("Paint", () => this.paint(), { icon: "brush", text: true });
    if (paint) paint.disabled = !this.given.has("image");
    const slot = el("div.slot", { data: { input: name } }, view, chooser,
      el("div.slot-text", {}, el("span.label", { text: label }), given?.width && el("span.dim", { text: size(given) })),
      row(choose, paint, given && button(`Remove: ${label}`, () => this.set(name, null), { icon: "close" })));
    listen(slot, {
      dragover: event => { event.preventDefault(); slot.classList.add("over"); },
      dragleave: () => slot.classList.remove("over"),
      drop: event => {
        const file = event.dataTransfer.files[0];
        slot.classList.remove("over");
        if (!file) return;
        event.preventDefault();
        event.stopPropagation();
        this.take(name, file);
      },
    });
    return slot;
  }

  async paint() {
    const mask = await paintMask(this.given.get("image").url, this.given.get("mask")?.url);
    if (mask) await this.take("mask", mask);
  }
}
