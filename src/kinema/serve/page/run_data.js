// What is known of one run: its state, metrics, samples and log, kept up to date.

import { find, get } from "./api.js";
import { sayProblem } from "./messages.js";
import { on, state } from "./state.js";

const COLUMNS = ["step", "loss", "low", "high", "learning_rate", "seconds", "gradient_norm"];
const BUCKETS = 1000;
const LOG_KEPT = 200000;  // characters

const none = () => ({ ...Object.fromEntries(COLUMNS.map(name => [name, []])), evaluations: [] });

export class RunData {
  /** `changed(what)` is called with "run", "metrics", "samples" or "log". */
  constructor(name, changed) {
    Object.assign(this, { name, changed, metrics: none(), samples: [], log: "", logNext: null, config: "", plan: null });
    this.off = [
      on("run", run => run.name === name && this.takeRun(run)),
      on("points", ({ run, metrics }) => run === name && this.take(metrics)),
      on("sample", ({ run, sample }) => run === name && this.takeSample(sample)),
      on("all", () => this.load().catch(sayProblem)),
    ];
    this.timer = setInterval(() => this.readLog().catch(() => {}), 2000);
  }

  get run() {
    return state.runs.get(this.name);
  }

  async load() {
    const [full, { samples }] = await Promise.all([get("runs", this.name), get("runs", this.name, "samples"), this.loadMetrics()]);
    Object.assign(this, { config: full.config, plan: full.plan, samples });
    this.changed("run");
    this.changed("samples");
    await this.readLog();
  }

  takeRun(run) {
    // A run that continues from its last checkpoint does some steps again.
    const last = this.metrics.step.at(-1) ?? -1;
    if (run.step <= last) this.cut(run.step);
    this.changed("run");
  }

  cut(step) {
    const keep = this.metrics.step.findIndex(each => each >= step);
    if (keep < 0) return;
    for (const name of COLUMNS) this.metrics[name].length = keep;
    this.metrics.evaluations = this.metrics.evaluations.filter(each => each.step < step);
    this.changed("metrics");
  }

  // Steps that are known already (an event that an answer held too) come again without effect.
  take(metrics) {
    const last = this.metrics.step.at(-1) ?? -1;
    const begin = metrics.step.findIndex(step => step > last);
    if (begin >= 0) for (const name of COLUMNS) this.metrics[name].push(...metrics[name].slice(begin));
    const lastEvaluation = this.metrics.evaluations.at(-1)?.step ?? -1;
    this.metrics.evaluations.push(...metrics.evaluations.filter(each => each.step > lastEvaluation));
    if (this.metrics.step.length > 3 * BUCKETS) this.shorten();
    this.changed("metrics");
  }

  async shorten() {
    if (this.shortens) return;
    this.shortens = true;
    await this.loadMetrics().catch(sayProblem);
    this.shortens = false;
  }

  async loadMetrics() {
    const metrics = await find(["runs", this.name, "metrics"], { after: -1, buckets: BUCKETS });
    this.metrics = none();
    this.take(metrics);
  }

  takeSample(sample) {
    this.samples = this.samples.filter(each => each.step !== sample.step || each.index !== sample.index).concat(sample);
    this.samples.sort((a, b) => a.step - b.step || a.index - b.index);
    this.changed("samples");
  }

  async readLog() {
    if (document.hidden) return;
    const { text, next } = await find(["runs", this.name, "log"], { after: this.logNext });
    this.logNext = next;
    if (!text) return;
    this.log = (this.log + text).slice(-LOG_KEPT);
    this.changed("log");
  }

  close() {
    clearInterval(this.timer);
    for (const off of this.off) off();
  }
}
