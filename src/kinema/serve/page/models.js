// Models: what is loaded, what can be, and what the files in the folders are.

import { get, orElse, post } from "./api.js";
import { button, card, el, fill, keyed, setText, spring } from "./dom.js";
import { labelled } from "./fields.js";
import { sayProblem } from "./messages.js";
import { on, state, take } from "./state.js";
import { bytes, date, inWords } from "./words.js";

const STATES = { none: "nothing is loaded", loading: "loads", ready: "ready", busy: "busy", ended: "ended; it starts again with the next job" };

function engineCard() {
  const words = el("p.engine-words");
  const meter = el("meter", { min: 0, max: 1, low: 0.85, high: 0.95, optimum: 0, ariaLabel: "memory of the device" });
  const memory = el("p.dim");
  const unload = button("Unload", async () => take("engine", await post(["engine", "unload"])));
  const box = card("Engine", el("header.row", {}, el("h2", "Engine"), spring(), unload), words, meter, memory);
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
  return box;
}

function modelRow(first) {
  const what = el("p");
  const dim = el("p.dim");
  const tag = el("span.tag");
  const load = button(`Load ${first.name}`, async () => take("engine", await post(["models", first.name, "load"])), { text: true });
  const node = el("li.row.model", {}, el("div.grow", {}, el("p.row", {}, el("span.name", { text: first.name }), tag), what, dim), load);
  node.update = model => {
    const { engine } = state;
    const current = engine?.model === model.name;
    setText(tag, current && engine.state === "loading" ? "loads" : current ? "loaded" : "");
    tag.hidden = !current;
    setText(what, model.what);
    setText(dim, [model.kind === "video" ? "videos" : "pictures", model.bytes && bytes(model.bytes), model.inputs.length && `takes ${model.inputs.join(", ").replaceAll("_", " ")}`].filter(Boolean).join(" · "));
    load.hidden = current;
  };
  node.update(first);
  return node;
}

function loraRow(lora) {
  const about = [lora.family, bytes(lora.bytes), lora.words.length && `say: ${lora.words.join(", ")}`, !lora.switches && "another weight loads the model again"];
  return el("li", {}, el("p.row", {}, el("span.name", { text: lora.name }), el("span", { text: lora.what })), el("p.dim", { text: about.filter(Boolean).join(" · ") }));
}

export class Models {
  constructor() {
    this.models = el("ul.plain-list");
    this.loras = el("ul.plain-list");
    this.rows = el("tbody");
    this.space = el("p.dim");
    this.find = el("input", { type: "search", placeholder: "Find a file", "aria-label": "Find a file", oninput: () => this.showFiles() });
    this.downloads = el("ul.plain-list");
    this.known = new Map();  // of downloads
    this.downloadCard = this.buildDownloads();
    const refresh = button("Look again", async () => { take("models", await post(["models", "refresh"])); await this.listFiles(); }, { icon: "again", text: true });
    const head = el("tr", {}, ["File", "What it is", "Size", "Changed"].map(text => el("th", { text, scope: "col" })));
    this.element = el("div.models", {},
      el("div.stack", {}, engineCard(), card("LoRAs", el("h2", "LoRAs"), this.loras), this.downloadCard),
      card("Known models", el("header.row", {}, el("h2", "Models"), spring(), refresh), this.models),
      card("On disk", el("header.row.wrap", {}, el("h2", "On disk"), spring(), this.find), this.space,
        el("div.scroll-x", { tabIndex: 0, role: "region", "aria-label": "Files" }, el("table.table", {}, el("thead", {}, head), this.rows))));
    for (const name of ["all", "models", "engine"]) on(name, () => this.show());
    on("download", download => { this.known.set(download.id, download); this.showDownloads(); });
  }

  buildDownloads() {
    const source = el("input", { type: "text", placeholder: "owner/name", spellcheck: false, autocomplete: "off" });
    const box = labelled("Model on the hub", source);
    const form = el("form.row.bottom", { noValidate: true }, box, el("button.button", { type: "submit", text: "Download" }));
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
    return card("Downloads", el("h2", "Download"), form, this.downloads);
  }

  show() {
    keyed(this.models, state.models, each => each.name, modelRow);
    fill(this.loras, state.loras.map(loraRow), !state.loras.length && el("li.dim", "none in the folders of LoRAs"));
    this.downloadCard.hidden = !state.limits?.downloads;
  }

  showDownloads() {
    keyed(this.downloads, [...this.known.values()].reverse(), each => each.id, first => {
      const bar = el("progress", { ariaLabel: `download of ${first.source}` });
      const words = el("span.dim");
      const cancel = button(`Cancel ${first.source}`, async () => { this.known.set(first.id, await post(["downloads", first.id, "cancel"])); this.showDownloads(); }, { icon: "close" });
      const node = el("li.row", {}, el("span.name", { text: first.source }), bar, words, cancel);
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
    fill(this.rows, files.map(file => el("tr", {}, el("td", {}, el("span.name", { text: file.name }), el("br"), el("span.dim", { text: file.folder })),
      el("td", {}, file.what, file.problem && el("p.wrong", { text: file.problem })), el("td.number", { text: bytes(file.bytes) }), el("td", { text: date(file.changed) }))),
      !files.length && el("tr", {}, el("td.dim", { colSpan: 4, text: "nothing" })));
  }

  async listFiles() {
    const { files, space } = await orElse({ files: [] }, get("disk"));
    this.files = files;
    setText(this.space, space ? `${bytes(space.free, space.total)} free · ${["models", "outputs", "bin", "uploads", "runs"].map(name => `${name} ${bytes(space[name])}`).join(", ")}` : "");
    this.showFiles();
  }

  /** Called when the area is opened. */
  async shown() {
    this.show();
    try {
      await this.listFiles();
      for (const download of (await orElse({ downloads: [] }, get("downloads"))).downloads) this.known.set(download.id, download);
      this.showDownloads();
    } catch (problem) {
      sayProblem(problem);
    }
  }
}
