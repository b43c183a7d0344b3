// LoRAs of a request, each with its weight.

import { button, el, fill } from "./dom.js";
import { choice, setChoices } from "./fields.js";
import { state } from "./state.js";

export class Loras {
  constructor(onchange) {
    this.onchange = onchange;
    this.given = [];  // {name, scale}
    this.known = [];  // Lora of the model's family
    this.list = el("ul.loras");
    this.add = choice([["", "Add a LoRA…"]], "", name => {
      this.given.push({ name, scale: 1 });
      this.show();
      this.list.lastChild.querySelector("input").focus();
      onchange();
    });
    this.add.ariaLabel = "Add a LoRA";
    this.element = el("div.stack.tight", {}, this.list, this.add);
  }

  setModel(model) {
    this.known = state.loras.filter(each => each.family === model.family);
    const left = this.given.filter(each => !this.known.some(({ name }) => name === each.name));
    this.given = this.given.filter(each => !left.includes(each));
    this.show();
    return left.map(each => each.name);
  }

  values() {
    return this.given.map(({ name, scale }) => ({ name, scale }));
  }

  write(loras) {
    this.given = loras.map(each => ({ ...each }));
    this.show();
  }

  show() {
    fill(this.list, this.given.map(each => this.row(each)));
    const free = this.known.filter(({ name }) => !this.given.some(each => each.name === name));
    setChoices(this.add, [["", "Add a LoRA…"], ...free.map(({ name, what }) => [name, `${name}: ${what}`])], "");
    this.add.hidden = !free.length;
    this.element.hidden = !this.known.length;
  }

  row(lora) {
    const { words = [], switches = true } = this.known.find(({ name }) => name === lora.name) ?? {};
    const set = (value, other) => {
      lora.scale = Number(value);
      other.value = value;
      this.onchange();
    };
    const slider = el("input", { type: "range", min: -1, max: 2, step: 0.05, value: lora.scale, ariaLabel: `weight of ${lora.name}`,
                                 oninput: () => set(slider.value, exact) });
    const exact = el("input", { type: "number", step: 0.05, value: lora.scale, ariaLabel: `exact weight of ${lora.name}`,
                                oninput: () => exact.value !== "" && set(exact.value, slider) });
    const notes = [words.length && `say: ${words.join(", ")}`, !switches && "another weight loads the model again"].filter(Boolean);
    return el("li", {}, el("span.name", { text: lora.name }), slider, exact,
      button(`Remove ${lora.name}`, () => {
        this.given = this.given.filter(each => each !== lora);
        this.show();
        this.onchange();
        this.add.focus();
      }, { icon: "close" }),
      notes.length > 0 && el("p.help", { text: notes.join("; ") }));
  }
}
