// A run is put together from a base, a data set and keys, or from YAML; checked, planned, started.

import { find, get, orElse, post } from "./api.js";
import { button, debounced, el, fill, row, setText } from "./dom.js";
import { choice, labelled, setChoices, SettingsForm, tabs, textArea } from "./fields.js";
import { say, sayProblem } from "./messages.js";
import { PlanView } from "./plan.js";
import { take } from "./state.js";
import { inWords } from "./words.js";

export class NewRun {
  constructor() {
    const changed = () => this.check();
    this.name = el("input", { type: "text", required: true, maxLength: 64, pattern: "[A-Za-z0-9._\\-]+", placeholder: "kites-2", spellcheck: false, autocomplete: "off" });
    this.base = choice([], "", () => this.setBase());
    this.dataset = choice([["", "of the base"]], "", () => this.setDataset());
    this.look = el("a.button", { text: "Look at the clips", hidden: true });
    this.form = new SettingsForm(changed);
    this.yaml = textArea({ rows: 12, class: "code", spellcheck: false, placeholder: "max_train_steps: 1500\nlearning_rate: 1e-4", oninput: changed });
    this.boxes = { name: labelled("Name", this.name, { help: "letters, digits, . _ -" }), base: labelled("Start from", this.base),
                   dataset: labelled("Data set", this.dataset), yaml: labelled("Keys as in a configuration file", this.yaml) };
    this.boxes.yaml.hidden = true;
    this.how = tabs("How settings are given", [["form", "Form"], ["yaml", "YAML"]], "form", value => {
      this.boxes.yaml.hidden = value !== "yaml";
      this.form.element.hidden = value !== "form";
      this.check();
    });
    this.baseHelp = el("p.help");
    this.wrong = el("p.wrong", { role: "alert" });
    this.notices = el("ul.notices");
    this.config = el("pre.log", { tabIndex: 0, ariaLabel: "What differs from the defaults" });
    this.plan = new PlanView(() => ({ run: this.request() }));
    this.check = debounced(300, () => this.ask());
    this.asked = 0;
    this.element = this.build();
    this.load().catch(sayProblem);
  }

  build() {
    const form = el("form.new-run", { noValidate: true, "aria-label": "New run" },
      el("section.card", {}, el("h2", "New run"),
        el("div.fields", {}, this.boxes.name, el("div", {}, this.boxes.base, this.baseHelp), el("div.stack.tight", {}, this.boxes.dataset, this.look)),
        this.how, this.form.element, this.boxes.yaml),
      el("div.stack", {},
        el("section.card", {}, el("h3", "What it will be"), this.config, this.notices, this.wrong,
          row(el("button.button.go", { type: "submit", text: "Start" }), button("Only create it", () => this.create(false)))),
        this.plan.element));
    form.addEventListener("submit", event => { event.preventDefault(); this.create(true); });
    return form;
  }

  async load() {
    const [{ bases }, { datasets }] = await Promise.all([get("bases"), orElse({ datasets: [] }, get("datasets"))]);
    this.bases = bases;
    setChoices(this.base, bases.map(({ name }) => [name, name]));
    setChoices(this.dataset, [["", "of the base"], ...datasets.map(({ name, what, clips }) => [name, `${name}: ${clips} clips, ${what}`])]);
    await this.setBase();
  }

  async setBase() {
    const name = this.base.value;
    setText(this.baseHelp, this.bases.find(each => each.name === name)?.help ?? "");
    const { keys } = await find(["keys"], { for: "train", base: name });
    if (this.base.value !== name) return;
    this.form.setKeys(keys);
    this.check();
  }

  setDataset() {
    this.look.hidden = !this.dataset.value;
    this.look.href = `#data/${encodeURIComponent(this.dataset.value)}`;
    this.check();
  }

  request() {
    const usesYaml = !this.boxes.yaml.hidden;
    return { base: this.base.value, dataset: this.dataset.value || null, settings: usesYaml ? {} : this.form.values(), yaml: usesYaml ? this.yaml.value : null };
  }

  async ask() {
    const question = ++this.asked;
    const answer = await post(["runs", "check"], this.request()).catch(error => ({ error, notices: [], config: "" }));
    if (question !== this.asked) return;
    this.refuse(answer.error);
    setText(this.config, answer.config);
    fill(this.notices, answer.notices.map(text => el("li", { text })));
  }

  refuse(problem) {
    const text = problem && inWords(problem);
    for (const [name, box] of Object.entries(this.boxes)) box.refuse(problem?.param === name ? text : null);
    const shown = this.form.refuse(problem?.param, text) && !this.form.element.hidden || problem?.param in this.boxes;
    setText(this.wrong, problem ? text : "");
    return shown;
  }

  async create(start) {
    this.asked++;
    try {
      const run = take("run", await post(["runs"], { name: this.name.value.trim(), start, ...this.request() }));
      say(start ? `${run.name} starts.` : `${run.name} is created.`);
      location.hash = `#train/${encodeURIComponent(run.name)}`;
    } catch (problem) {
      this.refuse(problem);
      this.element.querySelector("[aria-invalid]")?.focus();
    }
  }

  close() {
    this.plan.close();
  }
}
