// Train: the runs, and beside them what was chosen.

import { get } from "./api.js";
import { el, fill, keyed, setText } from "./dom.js";
import { DatasetView } from "./dataset.js";
import { sayProblem } from "./messages.js";
import { NewRun } from "./new_run.js";
import { controls, RUNS, RunView } from "./run.js";
import { on, state } from "./state.js";
import { duration, number } from "./words.js";

function runCard(first) {
  const link = el("a", { class: "run-link", href: `#train/${encodeURIComponent(first.name)}` }, el("span", { class: "name", text: first.name }));
  const tag = el("span", { class: "tag" });
  const bar = el("progress", { max: 1, ariaLabel: `progress of ${first.name}` });
  const words = el("p", { class: "dim" });
  const buttons = el("div", { class: "row" });
  const node = el("li", { class: "run-card" }, el("div", { class: "row" }, link, tag, el("span", { class: "spring" }), buttons), bar, words);
  let shown = "";
  node.update = run => {
    setText(tag, run.state);
    node.dataset.state = tag.dataset.state = run.state;
    bar.value = run.steps ? run.step / run.steps : 0;
    setText(words, [`step ${run.step} of ${run.steps}`, run.recent_loss !== null && `loss ${number(run.recent_loss)}`,
                    RUNS.includes(run.state) && run.seconds_left !== null && `${duration(run.seconds_left)} left`].filter(Boolean).join(", "));
    const key = `${run.state} ${run.step > 0}`;
    if (key !== shown) {
      const focused = buttons.contains(document.activeElement);
      fill(buttons, controls(run, { short: true }));
      if (focused) (buttons.firstChild ?? link).focus();
    }
    shown = key;
  };
  node.update(first);
  return node;
}

class Train {
  constructor() {
    this.list = el("ul", { class: "runs", "aria-label": "Runs" });
    this.datasets = el("ul", { class: "plain-list" });
    this.stage = el("div", { class: "train-stage" });
    this.view = null;
    this.element = el("div", { class: "train" },
      el("aside", {}, el("header", { class: "row" }, el("h2", { text: "Runs" }), el("span", { class: "spring" }), el("a", { class: "button go", href: "#new-run", text: "New run" })),
        this.list, el("h3", { text: "Data sets" }), this.datasets), this.stage);
    for (const name of ["all", "run", "removed"]) on(name, () => this.show());
  }

  show() {
    const order = run => [RUNS.includes(run.state) ? 0 : 1, -(run.changed ?? 0)];
    const runs = [...state.runs.values()].sort((a, b) => order(a)[0] - order(b)[0] || a.name.localeCompare(b.name));
    keyed(this.list, runs, each => each.name, runCard);
    for (const card of this.list.children) {
      const link = card.querySelector("a");
      if (this.names?.includes(card.dataset.key)) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  async listDatasets() {
    const { datasets } = await get("datasets");
    fill(this.datasets, datasets.map(({ name, clips }) => el("li", {}, el("a", { href: `#data/${encodeURIComponent(name)}`, text: name }), el("span", { class: "dim", text: ` ${clips} clips` }))),
      !datasets.length && el("li", { class: "dim", text: "none in the folders of data" }));
  }

  /** Opens `#train`, `#train/NAME`, `#train/NAME/OTHER`, `#new-run` or `#data/NAME`. */
  open([area, ...names]) {
    const key = [area, ...names].join("/");
    this.listDatasets().catch(sayProblem);
    if (this.key !== key || !this.view) {
      this.key = key;
      this.view?.close();
      this.names = area === "train" ? names : [];
      this.view = area === "new-run" ? new NewRun() : area === "data" ? new DatasetView(names[0]) : names.length ? new RunView(names) : null;
      fill(this.stage, this.view ? this.view.element : el("p", { class: "empty", text: "Choose a run, or start a new one." }));
    }
    this.show();
  }
}

export const buildTrain = () => new Train();
