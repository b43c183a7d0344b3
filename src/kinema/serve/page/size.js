// Width, height and frames: the model's usual sizes, and others that it can make.

import { el } from "./dom.js";
import { choice, labelled, setChoices } from "./fields.js";
import { duration, size } from "./words.js";

const OTHER = "other";
const nearest = (value, step, low, high) => Math.min(high, Math.max(low, Math.round(value / step) * step));
const idOf = ({ width, height, frames }) => `${width}x${height}x${frames}`;

export class SizeFields {
  constructor(onchange) {
    this.onchange = onchange;
    this.usual = choice([], "", () => this.choose());
    const number = () => el("input", { type: "number", inputMode: "numeric", required: true, onchange: event => this.round(event.target) });
    this.width = number();
    this.height = number();
    this.frames = number();
    this.boxes = { width: labelled("Width", this.width), height: labelled("Height", this.height), num_frames: labelled("Frames", this.frames) };
    this.others = el("div.fields", {}, Object.values(this.boxes));
    this.element = el("div.stack", {}, labelled("Size", this.usual), this.others);
  }

  setModel(model) {
    const before = this.model && this.values();
    this.model = model;
    const seconds = frames => frames > 1 ? ` (${duration(frames / (model.defaults.fps ?? 16))})` : "";
    setChoices(this.usual, [...model.sizes.map(each => [idOf(each), size(each) + seconds(each.frames) + (each.compiled ? ", compiled" : "")]),
                            [OTHER, "Other size…"]]);
    for (const input of [this.width, this.height]) {
      Object.assign(input, { min: model.min_size, max: model.max_size, step: model.multiple_of });
    }
    Object.assign(this.frames, { min: 1, max: model.max_frames, step: model.frames_step });
    this.boxes.num_frames.hidden = model.kind !== "video";
    const stays = before && model.sizes.some(each => idOf(each) === idOf({ ...before, frames: before.num_frames ?? 1 }));
    this.write(stays ? before : model.defaults);
  }

  values() {
    const values = { width: Number(this.width.value), height: Number(this.height.value) };
    if (this.model.kind === "video") values.num_frames = Number(this.frames.value);
    return values;
  }

  write(settings) {
    const value = key => settings[key] ?? this.model.defaults[key] ?? 1;
    const given = { width: value("width"), height: value("height"), frames: value("num_frames") };
    this.width.value = given.width;
    this.height.value = given.height;
    this.frames.value = given.frames;
    const known = this.model.sizes.some(each => idOf(each) === idOf(given));
    this.usual.value = known ? idOf(given) : OTHER;
    this.others.hidden = known;
  }

  choose() {
    const chosen = this.model.sizes.find(each => idOf(each) === this.usual.value);
    this.others.hidden = Boolean(chosen);
    if (chosen) this.write({ ...chosen, num_frames: chosen.frames });
    this.onchange();
  }

  // Only what works: the nearest multiple takes the place of what was typed.
  round(input) {
    const model = this.model;
    const typed = Number(input.value);
    const value = input === this.frames ? nearest(typed - 1, model.frames_step, 0, model.max_frames - 1) + 1
      : nearest(typed, model.multiple_of, model.min_size, model.max_size);
    const box = Object.values(this.boxes).find(each => each.input === input);
    box.refuse(value === typed ? null : `${typed} is made ${value}, the nearest that works`);
    input.value = value;
    this.onchange();
  }

  refuse(param, text) {
    for (const box of Object.values(this.boxes)) box.refuse(null);
    if (!this.boxes[param]) return false;
    if (text) {
      this.others.hidden = false;
      this.boxes[param].refuse(text);
    }
    return true;
  }
}
