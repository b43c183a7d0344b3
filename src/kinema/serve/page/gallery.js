// The gallery: only the rows that can be seen exist, so that ten thousand outputs scroll as ten do.

import { find, remove } from "./api.js";
import { button, confirmed, debounced, el, icon, listen, loop, setText, spring } from "./dom.js";
import { choice, setChoices, tabs } from "./fields.js";
import { say, sayProblem } from "./messages.js";
import { on, state } from "./state.js";
import { openOutput, restore, star, toBin } from "./viewer.js";
import { count } from "./words.js";

const PAGE = 100;
const GAP = 10;

/** Outputs that match a search, asked for in pages of 100 as they are needed. */
class Found {
  constructor(query, arrived) {
    this.query = query;
    this.arrived = arrived;
    this.pages = new Map();  // number -> outputs, or a promise of them
    this.total = null;
  }

  at(index) {
    const page = this.pages.get(Math.floor(index / PAGE));
    return Array.isArray(page) ? page[index % PAGE] : undefined;
  }

  async ask(number) {
    if (this.pages.has(number)) return this.pages.get(number);
    const asked = find(["outputs"], { ...this.query, offset: number * PAGE, limit: PAGE }).then(({ total, outputs }) => {
      this.total = total;
      this.pages.set(number, outputs);
      this.arrived(this);
      return outputs;
    });
    this.pages.set(number, asked);
    asked.catch(() => this.pages.delete(number));
    return asked;
  }

  async get(index) {
    if (index < 0 || index >= this.total) return undefined;
    return (await this.ask(Math.floor(index / PAGE)))[index % PAGE];
  }

  indexOf(id) {
    for (const [number, page] of this.pages) {
      const at = Array.isArray(page) ? page.findIndex(each => each.id === id) : -1;
      if (at >= 0) return number * PAGE + at;
    }
    return -1;
  }
}

export class Gallery {
  constructor(form) {
    this.form = form;
    const search = debounced(200, () => this.search());
    this.words = el("input", { type: "search", placeholder: "Search prompts", "aria-label": "Search prompts", oninput: search });
    this.kind = choice([["", "Pictures and videos"], ["image", "Pictures"], ["video", "Videos"]], "", () => this.search());
    this.kind.ariaLabel = "Kind";
    this.model = choice([["", "All models"]], "", () => this.search());
    this.model.ariaLabel = "Model";
    this.which = "all";
    this.whichBar = tabs("Which", [["all", "All"], ["starred", "Starred"], ["bin", "Bin"]], "all", value => { this.which = value; this.search(); });
    this.width = el("input", { type: "range", min: 110, max: 340, value: localStorage.getItem("kinema.thumb") ?? 190, ariaLabel: "Size of the pictures",
                               oninput: () => { localStorage.setItem("kinema.thumb", this.width.value); this.layout(); } });
    this.total = el("span.dim", { role: "status" });
    this.empty = el("p.empty", { hidden: true });
    this.emptyBin = button("Empty the bin", () => this.clearBin(), { kind: "danger" });
    this.grid = el("div.grid", { role: "list", "aria-label": "Pictures and videos" });
    this.cells = new Map();  // index -> element
    this.current = 0;
    this.element = el("div.gallery", {},
      el("div.bar", {}, this.words, this.kind, this.model, this.whichBar, this.width, this.emptyBin, spring(), this.total),
      this.empty, this.grid);
    this.grid.addEventListener("keydown", event => this.key(event));
    const draw = () => requestAnimationFrame(() => this.draw());
    addEventListener("scroll", draw, { passive: true });
    new ResizeObserver(() => this.layout()).observe(this.grid);
    const again = debounced(400, () => this.search({ keep: true }));
    on("output", output => this.changed(output) || again());
    on("removed", ({ output }) => output && again());
    on("all", () => { setChoices(this.model, [["", "All models"], ...state.models.map(({ name }) => [name, name])]); again(); });
  }

  /** Asks anew; with `keep` what is shown stays until the answer comes. */
  search({ keep = false } = {}) {
    if (this.element.parentElement?.hidden) {
      this.stale = true;
      return;
    }
    this.stale = false;
    const query = { q: this.words.value.trim(), kind: this.kind.value, model: this.model.value, starred: this.which === "starred" ? 1 : "",
                    deleted: this.which === "bin" ? 1 : "" };
    const found = new Found(query, arrived => {
      if (arrived !== this.next && arrived !== this.found) return;
      this.found = arrived;
      this.layout();
    });
    this.next = found;
    if (!keep) scrollTo(0, 0);
    found.ask(keep && this.found ? Math.floor(this.firstVisible() * this.columns / PAGE) : 0).catch(sayProblem);
  }

  // One that is shown is changed in place; true if the list stays the same.
  changed(output) {
    const index = this.found?.indexOf(output.id) ?? -1;
    if (index < 0) return false;
    const before = this.found.at(index);
    const stays = Boolean(before.deleted) === Boolean(output.deleted) && (this.which !== "starred" || output.starred);
    Object.assign(before, output);
    this.cells.get(index)?.update(before);
    return stays;
  }

  firstVisible() {
    return Math.max(0, Math.floor((scrollY - this.grid.offsetTop) / (this.height || 1)));
  }

  layout() {
    if (!this.found || this.found.total === null) return;
    const width = this.grid.clientWidth;
    if (!width) return;
    this.columns = Math.max(2, Math.floor((width + GAP) / (Number(this.width.value) + GAP)));
    this.side = (width + GAP) / this.columns - GAP;
    this.height = this.side + GAP;
    const { total } = this.found;
    this.grid.style.height = `${Math.ceil(total / this.columns) * this.height}px`;
    setText(this.total, count(total, "item"));
    this.empty.hidden = total > 0;
    setText(this.empty, this.which === "bin" ? "The bin is empty." : this.words.value || this.which === "starred" ? "Nothing is found." : "Nothing yet. What you make appears here.");
    this.emptyBin.hidden = this.which !== "bin" || !total;
    this.current = Math.min(this.current, Math.max(0, total - 1));
    for (const cell of this.cells.values()) cell.place();
    this.draw();
  }

  // Cells from a screen above to a screen below; others are removed.
  draw() {
    if (!this.height || this.element.parentElement?.hidden) return;
    const rows = Math.ceil(innerHeight / this.height);
    const begin = Math.max(0, this.firstVisible() - rows) * this.columns;
    const end = Math.min(this.found.total, (this.firstVisible() + 2 * rows + 1) * this.columns);
    const focused = document.activeElement?.closest?.(".cell");
    for (const [index, cell] of this.cells) {
      if ((index < begin || index >= end) && (cell !== focused || index >= this.found.total)) {
        cell.remove();
        this.cells.delete(index);
      }
    }
    for (let number = Math.floor(begin / PAGE); number * PAGE < end; ++number) this.found.ask(number).catch(() => {});
    for (let index = begin; index < end; ++index) {
      const output = this.found.at(index);
      const cell = this.cells.get(index);
      if (cell && output) cell.update(output);
      else if (!cell) this.insert(index, this.cell(index, output));
    }
  }

  // The order in the document is that of the outputs, for the tab key and screen readers.
  insert(index, cell) {
    this.cells.set(index, cell);
    const next = [...this.grid.children].find(each => each.index > index);
    this.grid.insertBefore(cell, next ?? null);
  }

  cell(index, first) {
    const picture = el("img", { alt: "", draggable: false });
    const badge = el("span.badge", { hidden: true });
    const mark = el("span.mark", { hidden: true }, icon("star"));
    const open = el("button.thumb", { type: "button", tabIndex: index === this.current ? 0 : -1, onclick: () => this.open(index),
                                onfocus: () => this.setCurrent(index) }, picture, badge, mark);
    const cell = el("div.cell", { role: "listitem", "aria-posinset": index + 1 }, open);
    cell.index = index;
    cell.place = () => {
      cell.style.width = cell.style.height = `${this.side}px`;
      cell.style.transform = `translate(${(index % this.columns) * (this.side + GAP)}px, ${Math.floor(index / this.columns) * this.height}px)`;
      cell.setAttribute("aria-setsize", this.found.total);
    };
    cell.update = output => {
      if (!output) return;
      if (picture.getAttribute("src") !== output.thumb) {
        picture.src = output.thumb;
        cell.querySelector("video")?.remove();
      }
      open.setAttribute("aria-label", `${output.prompt}${output.kind === "video" ? ", video" : ""}${output.starred ? ", starred" : ""}`);
      open.title = output.prompt;
      badge.hidden = output.kind !== "video";
      setText(badge, output.kind === "video" ? `${output.frames} frames` : "");
      mark.hidden = !output.starred;
    };
    const play = () => this.play(cell);
    const stop = () => cell.querySelector("video")?.remove();
    listen(cell, { pointerenter: play, focusin: play, pointerleave: stop, focusout: stop });
    cell.place();
    cell.update(first);
    return cell;
  }

  // A video runs, in a loop, while the pointer or the focus is on it.
  play(cell) {
    const output = this.found.at(cell.index);
    if (output?.kind !== "video" || cell.querySelector("video") || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    cell.firstChild.append(loop(output.url, { "aria-hidden": "true", tabIndex: -1 }));
  }

  setCurrent(index) {
    const before = this.cells.get(this.current)?.firstChild;
    if (before) before.tabIndex = -1;
    this.current = index;
    const now = this.cells.get(index)?.firstChild;
    if (now) now.tabIndex = 0;
  }

  async open(index) {
    const output = await this.found.get(index);
    if (!output) return;
    const found = this.found;
    openOutput(this.form, output, (each, step) => found.get(found.indexOf(each.id) + step));
  }

  key(event) {
    const output = this.found?.at(this.current);
    const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns, Home: -this.current, End: this.found.total - 1 - this.current }[event.key];
    if (move !== undefined) this.go(this.current + move);
    else if (event.key === "s" && output) star(output).catch(sayProblem);
    else if (event.key === "Delete" && output) (output.deleted ? restore(output) : toBin(output)).catch(sayProblem);
    else return;
    event.preventDefault();
  }

  go(index) {
    if (index < 0 || index >= this.found.total) return;
    const top = this.grid.offsetTop + Math.floor(index / this.columns) * this.height;
    const bar = this.element.firstChild.getBoundingClientRect().bottom;
    if (top < scrollY + bar) scrollTo(0, top - bar - GAP);
    else if (top + this.height > scrollY + innerHeight) scrollTo(0, top + this.height - innerHeight + GAP);
    this.draw();
    this.setCurrent(index);
    this.cells.get(index)?.firstChild.focus({ preventScroll: true });
  }

  async clearBin() {
    if (!await confirmed("Delete everything in the bin for ever?", "Delete")) return;
    const { removed } = await remove(["bin"]);
    say(`${count(removed, "item")} deleted.`);
    this.search();
  }

  /** Called when the area is opened. */
  shown() {
    if (!this.found || this.stale) this.search({ keep: Boolean(this.found) });
    else this.layout();
  }
}
