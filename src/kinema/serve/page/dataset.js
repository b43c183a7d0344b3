// The clips of a data set with their captions, which can be edited.

import { change, find, get } from "./api.js";
import { button, el, fill, loop, setText, spring } from "./dom.js";
import { textArea } from "./fields.js";
import { sayProblem } from "./messages.js";
import { bytes, count, duration, inWords, size } from "./words.js";

const PAGE = 40;

function clipCard(dataset, first) {
  let clip = first;
  const status = el("span.dim", { role: "status" });
  const wrong = el("p.wrong", { hidden: !clip.problem, text: clip.problem ?? "" });
  const caption = textArea({ rows: 2, value: clip.caption, ariaLabel: `caption of ${clip.file}`, readOnly: !dataset.editable });
  const save = async () => {
    if (caption.value === clip.caption) return;
    setText(status, "saving…");
    try {
      clip = await change(["datasets", dataset.name, clip.id], { caption: caption.value, was: clip.caption });
      setText(status, "saved");
    } catch (problem) {
      setText(status, "");
      wrong.hidden = false;
      setText(wrong, inWords(problem));
    }
  };
  caption.addEventListener("change", save);
  caption.addEventListener("keydown", event => event.key === "Enter" && (event.ctrlKey || event.metaKey) && save());
  const view = el("button.thumb", { type: "button", ariaLabel: `Play ${clip.file}`, onclick: () => {
    if (clip.kind === "video") view.replaceWith(loop(clip.url, { controls: true }));
  } }, el("img", { src: clip.thumb, alt: "", loading: "lazy" }), clip.kind === "video" && el("span.badge", { text: duration(clip.seconds) }));
  return el("li.clip", {}, clip.kind === "video" ? view : el("img", { src: clip.thumb, alt: clip.file, loading: "lazy" }),
    el("div.stack.tight", {}, el("p.row", {}, el("span.name", { text: clip.file }), el("span.dim", { text: size(clip) }), status), caption, wrong));
}

export class DatasetView {
  constructor(name) {
    this.name = name;
    this.at = 0;
    this.list = el("ol.clips");
    this.where = el("span.dim", { role: "status" });
    this.problems = el("details", { hidden: true });
    this.before = button("Before", () => this.load(this.at - PAGE), { icon: "left" });
    this.next = button("Next", () => this.load(this.at + PAGE), { icon: "right" });
    this.about = el("p.dim");
    this.element = el("section.card", {}, el("header.row.wrap", {}, el("h2", { text: name }), this.about, spring(), this.where, this.before, this.next),
      this.problems, this.list);
    this.load(0).catch(sayProblem);
  }

  async load(at) {
    this.dataset ??= (await get("datasets")).datasets.find(each => each.name === this.name);
    if (!this.dataset) throw new Error(`There is no data set ${this.name}.`);
    const { total, problems, clips } = await find(["datasets", this.name], { offset: at, limit: PAGE });
    this.at = at;
    setText(this.about, `${this.dataset.what}, ${bytes(this.dataset.bytes)}${this.dataset.editable ? "" : ", captions cannot be changed"}`);
    setText(this.where, `${at + 1} to ${at + clips.length} of ${count(total, "clip")}`);
    this.before.disabled = at === 0;
    this.next.disabled = at + PAGE >= total;
    this.problems.hidden = !problems.length;
    fill(this.problems, el("summary", { text: count(problems.length, "problem") }), el("ul.notices", {}, problems.map(text => el("li", { text }))));
    fill(this.list, clips.map(clip => clipCard(this.dataset, clip)));
  }

  close() {}
}
