// Models: what is loaded, what can be, and what the files in the folders are.

import { get, post } from "./api.js";
import { button, el, fill, keyed, setText } from "./dom.js";
import { labelled } from "./fields.js";
import { sayProblem } from "./messages.js";
import { on, state, take } from "./state.js";
import { bytes, date, inWords } from "./words.js";

const STATES = { none: "nothing is loaded", loading: "loads", ready: "ready", busy: "busy", ended: "ended; it starts again with the next job" };

function engineCard() {
  const words = el("p", { class: "engine-words" });
  const meter = el("meter", { min: 0, max: 1, low: 0.85, high: 0.95, optimum: 0, ariaLabel: "memory of the device" });
  const memory = el("p", { class: "dim" });
  const unload = button("Unload", async () => take("engine", await post(["engine", "unload"])));
  const card = el("section", { class: "card", "aria-label": "Engine" }, el("header", { class: "row" }, el("h2", { text: "Engine" }), el("span", { class: "spring" }), unload), words, meter, memory);
  const show = () => {
    const { engine } = state;
    if (!engine) return;
    setText(words, [engine.device, engine.model && `${engine.model}: ${STATES[engine.state]}`, !engine.model && STATES[engine.state], engine.message].filter(Boolean).join(" · "));
    meter.hidden = !engine.bytes_limit;
    if (engine.bytes_limit) meter.value = (engine.bytes ?? 0) / engine.bytes_limit;
    setText(memory, engine.bytes_limit ? `${bytes(engine.bytes ?? 0, engine.bytes_limit)} of memory` : "");
    unload.hidden = !engine.model || engine.state === "loading";
  };
  for (const name of ["all", "engine"]) on(name, show);
  return card;
}

function modelRow(first) {
  const what = el("p", {});
  const dim = el("p", { class: "dim" });
  const tag = el("span", { class: "tag" });
  const load = button(`Load ${first.name}`, async () => take("engine", await post(["models", first.name, "load"])), { text: true });
  const node = el("li", { class: "row model" }, el("div", { class: "grow" }, el("p", { class: "row" }, el("span", { class: "name", text: first.name }), tag), what, dim), load);
  node.update = model => {
    const { engine } = state;
    const current = engine?.model === model.name;
    setText(tag, current && engine.state === "loading" ? "loads" : current ? "loaded" : "");
    tag.hidden = !current;
    setText(what, model.what);
    setText(dim, [model.kind === "video" ? "videos" : "pictures", bytes(model.bytes), model.inputs.length && `takes ${model.inputs.join(", ").replaceAll("_", " ")}`].filter(Boolean).join(" · "));
    load.hidden = current;
  };
  node.update(first);
  return node;
}

function loraRow(lora) {
  const about = [lora.family, bytes(lora.bytes), lora.words.length && `say: ${lora.words.join(", ")}`, !lora.switches && "another weight loads the model again"];
  return el("li", {}, el("p", { class: "row" }, el("span", { class: "name", text: lora.name }), el("span", { text: lora.what })), el("p", { class: "dim", text: about.filter(Boolean).join(" · ") }));
}

class Models {
  constructor() {
    this.models = el("ul", { class: "plain-list" });
    this.loras = el("ul", { class: "plain-list" });
    this.rows = el("tbody");
    this.find = el("input", { type: "search", placeholder: "Find a file", "aria-label": "Find a file", oninput: () => this.showFiles() });
    this.downloads = el("ul", { class: "plain-list" });
    this.known = new Map();  // of downloads
    this.downloadCard = this.buildDownloads();
    const refresh = button("Look again", async () => { take("models", await post(["models", "refresh"])); await this.listFiles(); }, { icon: "again", text: true });
    const head = el("tr", {}, ["File", "What it is", "Size", "Changed"].map(text => el("th", { text, scope: "col" })));
    this.element = el("div", { class: "models" }, engineCard(),
      el("section", { class: "card", "aria-label": "Known models" }, el("header", { class: "row" }, el("h2", { text: "Models" }), el("span", { class: "spring" }), refresh), this.models),
      el("section", { class: "card", "aria-label": "LoRAs" }, el("h2", { text: "LoRAs" }), this.loras),
      this.downloadCard,
      el("section", { class: "card wide", "aria-label": "On disk" }, el("header", { class: "row wrap" }, el("h2", { text: "On disk" }), el("span", { class: "spring" }), this.find),
        el("div", { class: "scroll-x", tabIndex: 0, role: "region", "aria-label": "Files" }, el("table", { class: "table" }, el("thead", {}, head), this.rows))));
    for (const name of ["all", "models", "engine"]) on(name, () => this.show());
    on("download", download => { this.known.set(download.id, download); this.showDownloads(); });
  }

  buildDownloads() {
    const source = el("input", { type: "text", placeholder: "owner/name", spellcheck: false, autocomplete: "off" });
    const box = labelled("Model on the hub", source);
    const form = el("form", { class: "row bottom", noValidate: true }, box, el("button", { type: "submit", class: "button", text: "Download" }));
    form.addEventListener("submit", async event => {
      event.preventDefault();
      try {
        const download = await post(["downloads"], { source: source.value.trim() });
        this.known.set(download.id, download);
        this.showDownloads();
        box.refuse(null);
        source.value = "";
      } catch (problem) {
        box.refuse(inWords(problem));
      }
    });
    return el("section", { class: "card", "aria-label": "Downloads" }, el("h2", { text: "Download" }), form, this.downloads);
  }

  show() {
    keyed(this.models, state.models, each => each.name, modelRow);
    fill(this.loras, state.loras.map(loraRow), !state.loras.length && el("li", { class: "dim", text: "none in the folders of LoRAs" }));
    this.downloadCard.hidden = !state.limits?.downloads;
  }

  showDownloads() {
    keyed(this.downloads, [...this.known.values()].reverse(), each => each.id, first => {
      const bar = el("progress", { ariaLabel: `download of ${first.source}` });
      const words = el("span", { class: "dim" });
      const cancel = button(`Cancel ${first.source}`, async () => { this.known.set(first.id, await post(["downloads", first.id, "cancel"])); this.showDownloads(); }, { icon: "close" });
      const node = el("li", { class: "row" }, el("span", { class: "name", text: first.source }), bar, words, cancel);
      node.update = download => {
        const runs = download.state === "running";
        bar.hidden = cancel.hidden = !runs;
        if (download.total) bar.value = download.bytes / download.total;
        setText(words, download.error ? inWords(download.error) : runs ? bytes(download.bytes, download.total ?? undefined) : download.state);
      };
      return node;
    });
  }

  showFiles() {
    const words = this.find.value.toLowerCase().split(/\s+/);
    const files = (this.files ?? []).filter(file => words.every(word => `${file.name} ${file.what} ${file.kind} ${file.folder}`.toLowerCase().includes(word)));
    fill(this.rows, files.map(file => el("tr", {}, el("td", {}, el("span", { class: "name", text: file.name }), el("br"), el("span", { class: "dim", text: file.folder })),
      el("td", {}, file.what, file.problem && el("p", { class: "wrong", text: file.problem })), el("td", { class: "number", text: bytes(file.bytes) }), el("td", { text: date(file.changed) }))),
      !files.length && el("tr", {}, el("td", { colSpan: 4, class: "dim", text: "nothing" })));
  }

  async listFiles() {
    this.files = (await get("disk")).files;
    this.showFiles();
  }

  /** Called when the area is opened. */
  async shown() {
    this.show();
    await this.listFiles();
    for (const download of (await get("downloads")).downloads) this.known.set(download.id, download);
    this.showDownloads();
  }
}

export const buildModels = () => {
  const models = new Models();
  return { element: models.element, shown: () => models.shown().catch(sayProblem) };
};
