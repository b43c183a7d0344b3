// One run, or two beside each other: figures, curves, samples by step, validation, log.

import { post, remove } from "./api.js";
import { Chart, smoothed } from "./chart.js";
import { button, card, confirmed, el, fill, loop, openDialog, setText, spring } from "./dom.js";
import { choice, labelled, setChoices, tabs } from "./fields.js";
import { RunData } from "./run_data.js";
import { on, state, take } from "./state.js";
import { bytes, count, duration, inWords, number } from "./words.js";

const CURVES = [["loss", "Loss"], ["learning_rate", "Learning rate"], ["seconds", "Step time"], ["gradient_norm", "Gradient norm"]];
export const RUNS = ["starting", "running", "stopping"];  // states of a run that has a process

const control = async (run, what) => take("run", await post(["runs", run.name, what]));

/** The buttons that fit the state of a run. */
export function controls(run, short = false) {
  if (run.state === "running" || run.state === "starting") {
    const stop = button("Stop", () => control(run, "stop"), { icon: "pause", text: true });
    stop.title = "saves a checkpoint and ends; Go on continues exactly there";
    return short ? [stop] : [stop, button("Save now", () => control(run, "save")), button("Sample now", () => control(run, "sample"))];
  }
  if (run.state === "stopping" || run.state === "done") return [];
  return [button(run.step ? "Go on" : "Start", () => control(run, "start"), { icon: "play", text: true, kind: "go" })];
}

/** The name of a run with its state, buttons that fit it, and a bar; `show(run)` keeps them up to date. */
export function runHead(heading, name, buttonsOf) {
  const tag = el("span.tag");
  const buttons = el("div.row.wrap");
  const bar = el("progress", { max: 1, ariaLabel: `progress of ${name}` });
  const show = run => {
    setText(tag, run.state);
    bar.value = run.steps ? run.step / run.steps : 0;
    const key = `${run.state} ${run.step > 0}`;
    if (tag.dataset.key === key) return;
    Object.assign(tag.dataset, { key, state: run.state });
    const focused = buttons.contains(document.activeElement);
    fill(buttons, buttonsOf(run));
    if (focused) (buttons.firstChild ?? heading).focus();
  };
  return { top: el("header.row.wrap", {}, heading, tag, spring(), buttons), bar, show };
}

/** `0.95 s, planned 0.88 s`. */
const beside = (measured, planned, format) => [measured !== null && format(measured), planned !== null && `planned ${format(planned)}`].filter(Boolean).join(", ") || "–";

function figures(run) {
  return [
    ["Step", `${run.step.toLocaleString("en")} of ${run.steps.toLocaleString("en")}`],
    ["Loss", run.recent_loss === null ? "–" : `${number(run.recent_loss)}, last ${number(run.loss)}`],
    ["Learning rate", number(run.learning_rate)],
    ["Step time", beside(run.step_seconds, run.planned_step_seconds, duration)],
    ["Memory", [beside(run.bytes, run.planned_bytes, bytes), run.bytes_limit && `of ${bytes(run.bytes_limit)}`].filter(Boolean).join(", ")],
    ["Time left", run.seconds_left === null ? "–" : duration(run.seconds_left)],
    ["Epoch", run.epoch === null ? "–" : number(run.epoch)],
    ["Checkpoints", run.checkpoints.length ? `${run.checkpoints.length}, last at step ${run.checkpoints.at(-1)}` : "none"],
  ];
}

/** What is shown of one run in its column. */
class Column {
  constructor(data, color) {
    Object.assign(this, { data, color });
    this.head = runHead(el("h2", { text: data.name, tabIndex: -1 }), data.name, run =>
      [controls(run), button("Settings", () => this.settings()), !RUNS.includes(run.state) && button("Delete", () => this.remove())]);
    this.problem = el("p.wrong", { hidden: true });
    this.pairs = el("dl.figures");
    this.prompt = el("p.dim");
    this.pictures = el("div.samples");
    this.log = el("pre.log", { tabIndex: 0, role: "log", ariaLabel: `log of ${data.name}`, ariaLive: "off" });
    this.top = card(data.name, this.head.top, this.problem, this.head.bar, this.pairs);
  }

  showRun() {
    const { run } = this.data;
    if (!run) return;
    this.head.show(run);
    this.problem.hidden = !run.error;
    setText(this.problem, run.error ? inWords(run.error) : "");
    const rows = figures(run);
    if (this.pairs.children.length !== rows.length) fill(this.pairs, rows.map(() => el("div", {}, el("dt"), el("dd"))));
    rows.forEach(([name, value], i) => {
      const [dt, dd] = this.pairs.children[i].children;
      setText(dt, name);
      setText(dd, value);
    });
  }

  settings() {
    const { plan, config } = this.data;
    openDialog(`Settings of ${this.data.name}`, el("div", {}, plan && el("pre", { text: plan.lines.join("\n") }),
      el("pre.log", { tabIndex: 0, text: config, ariaLabel: "Settings" })), { className: "large" });
  }

  async remove() {
    const { name } = this.data;
    if (!await confirmed(`Delete the run ${name} with its checkpoints?`, "Delete")) return;
    await remove(["runs", name], {}, { name });
    take("removed", { run: name });
    location.hash = "#train";
  }

  showLog() {
    const atEnd = this.log.scrollTop + this.log.clientHeight >= this.log.scrollHeight - 20;
    setText(this.log, this.data.log);
    if (atEnd) this.log.scrollTop = this.log.scrollHeight;
  }

  showSamples(step) {
    const samples = this.data.samples.filter(each => each.step === nearestStep(this.data.samples, step));
    fill(this.pictures, samples.map(each => el("figure", {},
      each.kind === "video" ? loop(each.url, { poster: each.thumb, ariaLabel: each.prompt })
        : el("img", { src: each.url, alt: each.prompt }),
      el("figcaption", { text: each.prompt }))), !samples.length && el("p.empty", "no samples yet"));
    setText(this.prompt, samples.length ? `step ${samples[0].step}` : "");
  }
}

// The last step at or before `step` that has samples, else the first.
function nearestStep(samples, step) {
  return samples.findLast(each => each.step <= step)?.step ?? samples[0]?.step;
}

export class RunView {
  constructor(names) {
    this.columns = names.map((name, i) => new Column(new RunData(name, what => this.changed(what, i)), i));
    this.which = "loss";
    this.chart = new Chart("Loss");
    this.evaluation = new Chart("Validation loss", { height: 180 });
    this.timesteps = new Chart("Validation by timestep", { unit: "timestep", height: 180 });
    this.log = el("input", { type: "checkbox", checked: true, onchange: () => this.draw() });
    this.smoothing = el("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: 0.9, oninput: () => this.draw() });
    this.slider = el("input", { type: "range", min: 0, max: 0, value: 0, ariaLabel: "Step of the samples", oninput: () => this.showSamples() });
    this.sampleStep = el("output");
    this.other = choice([], "", name => { location.hash = name ? `#train/${names[0]}/${name}` : `#train/${names[0]}`; });
    this.element = this.build();
    this.off = ["run", "removed", "all"].map(event => on(event, () => this.showOthers()));
    this.showOthers();
    for (const { data } of this.columns) data.load().catch(problem => this.fail(problem));
  }

  build() {
    const beside_ = part => el("div", { class: `beside-${this.columns.length}` }, this.columns.map(part));
    return el("div.run", {}, beside_(column => column.top),
      el("section.card", { "aria-label": "Curves" },
        el("div.row.wrap", {}, tabs("Curve", CURVES, "loss", which => { this.which = which; this.draw(); }), spring(),
          el("label.check", {}, this.log, "logarithmic"), labelled("Smoothing", this.smoothing), labelled("Beside", this.other)),
        this.chart.element, el("div.beside-2", {}, this.evaluation.element, this.timesteps.element)),
      el("section.card", { "aria-label": "Samples" },
        el("header.row", {}, el("h3", "Samples"), this.slider, this.sampleStep),
        beside_(column => el("div", {}, column.prompt, column.pictures))),
      card("Log", el("h3", "Log"), beside_(column => column.log)));
  }

  fail(problem) {
    fill(this.element, el("p.empty", { text: inWords(problem) }));
  }

  showOthers() {
    const own = this.columns[0].data.name;
    setChoices(this.other, [["", "one run"], ...[...state.runs.keys()].filter(name => name !== own).map(name => [name, name])], this.columns[1]?.data.name ?? "");
  }

  changed(what, i) {
    const column = this.columns?.[i];
    if (!column) return;
    if (what === "run") column.showRun();
    if (what === "metrics") this.draw();
    if (what === "samples") this.showSteps();
    if (what === "log") column.showLog();
  }

  draw() {
    const several = this.columns.length > 1;
    const smoothing = Number(this.smoothing.value);
    const series = this.columns.flatMap(({ data: { metrics, name }, color }) => {
      const x = metrics.step;
      const y = metrics[this.which];
      const label = several ? name : smoothing ? "smoothed" : "measured";
      const raw = { name: label, x, y, color, faint: smoothing > 0, ...(this.which === "loss" && { low: metrics.low, high: metrics.high }) };
      return smoothing ? [{ name: label, x, y: smoothed(y, smoothing), color }, raw] : [raw];
    });
    const planned = this.columns[0].data.run?.planned_step_seconds;
    if (this.which === "seconds" && planned) {
      const x = this.columns[0].data.metrics.step;
      series.push({ name: "planned", x, y: x.map(() => planned), color: 3 });
    }
    this.chart.label = CURVES.find(([name]) => name === this.which)[1];
    setText(this.chart.element.querySelector("figcaption span"), this.chart.label);
    this.chart.set(series, { log: this.log.checked && this.which !== "seconds" });
    this.drawEvaluations(several);
  }

  drawEvaluations(several) {
    const known = this.columns.filter(({ data }) => data.metrics.evaluations.length);
    this.evaluation.element.parentElement.hidden = !known.length;
    this.evaluation.set(known.map(({ data: { name, metrics: { evaluations } }, color }) =>
      ({ name: several ? name : "all timesteps", x: evaluations.map(each => each.step), y: evaluations.map(each => each.loss), color })));
    const lines = known.flatMap(({ data: { name, metrics: { evaluations } }, color }) => {
      const line = (each, label, shade) => ({ name: label, x: each.timesteps.map(([t]) => t), y: each.timesteps.map(([, loss]) => loss), color: shade });
      const last = evaluations.at(-1);
      if (several) return [line(last, `${name}, step ${last.step}`, color)];
      return evaluations.length > 1 ? [line(last, `step ${last.step}`, 0), line(evaluations[0], `step ${evaluations[0].step}`, 2)] : [line(last, `step ${last.step}`, 0)];
    });
    this.timesteps.set(lines);
  }

  // The slider stays at the newest step while it is there.
  showSteps() {
    const steps = [...new Set(this.columns.flatMap(({ data }) => data.samples.map(each => each.step)))].sort((a, b) => a - b);
    const atEnd = Number(this.slider.value) >= Number(this.slider.max);
    this.steps = steps;
    this.slider.max = Math.max(0, steps.length - 1);
    this.slider.disabled = steps.length < 2;
    if (atEnd) this.slider.value = this.slider.max;
    this.showSamples();
  }

  showSamples() {
    const step = this.steps?.[Number(this.slider.value)] ?? 0;
    const text = this.steps?.length ? `step ${step}, ${Number(this.slider.value) + 1} of ${count(this.steps.length, "step")}` : "";
    setText(this.sampleStep, text);
    this.slider.ariaValueText = text;
    for (const column of this.columns) column.showSamples(step);
  }

  close() {
    for (const { data } of this.columns) data.close();
    for (const off of this.off) off();
  }
}
