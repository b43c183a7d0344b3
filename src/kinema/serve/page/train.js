// Train: the runs, and beside them what was chosen.

import { get, orElse } from "./api.js";
import { el, fill, keyed, row, setText, spring } from "./dom.js";
import { DatasetView } from "./dataset.js";
import { sayProblem } from "./messages.js";
import { NewRun } from "./new_run.js";
import { controls, runHead, RUNS, RunView } from "./run.js";
import { on, state } from "./state.js";
import { duration, number } from "./words.js";

function runCard(first) {
  const link = el("a.run-link.name", { href: `#train/${encodeURIComponent(first.name)}`, text: first.name });
  const words = el("p.dim");
  const head = runHead(link, first.name, run => controls(run, true));
  const node = el("li.run-card", {}, head.top, head.bar, words);
  node.update = run => {
    head.show(run);
    setText(words, [`step ${run.step} of ${run.steps}`, run.recent_loss !== null && `loss ${number(run.recent_loss)}`,
                    run.seconds_left !== null && `${duration(run.seconds_left)} left`].filter(Boolean).join(", "));
  };
  return node;
}

export class Train {
  constructor() {
    this.list = el("ul.runs", { "aria-label": "Runs" });
    this.datasets = el("ul.plain-list");
    this.stage = el("div.train-stage");
    this.view = null;
    this.element = el("div.train", {},
      el("aside", {}, el("header.row", {}, el("h2", "Runs"), spring(), el("a.button.go", { href: "#new-run", text: "New run" })),
        this.list, el("h3", "Data sets"), this.datasets), this.stage);
    for (const name of ["all", "run", "removed"]) on(name, () => this.show());
  }

  show() {
    const isRunning = run => RUNS.includes(run.state);
    const runs = [...state.runs.values()].sort((a, b) => isRunning(b) - isRunning(a) || a.name.localeCompare(b.name));
    keyed(this.list, runs, each => each.name, runCard);
    for (const card of this.list.children) {
      const link = card.querySelector("a");
      if (this.names?.includes(card.dataset.key)) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  async listDatasets() {
    const { datasets } = await orElse({ datasets: [] }, get("datasets"));
    fill(this.datasets, datasets.map(({ name, clips }) => el("li", {}, el("a", { href: `#data/${encodeURIComponent(name)}`, text: name }), el("span.dim", { text: ` ${clips} clips` }))),
      !datasets.length && el("li.dim", "none in the folders of data"));
  }

  /** Opens `#train`, `#train/NAME`, `#train/NAME/OTHER`, `#new-run` or `#data/NAME`. */
  shown([area, ...names]) {
    const key = [area, ...names].join("/");
    this.listDatasets().catch(sayProblem);
    if (this.key !== key || !this.view) {
      this.key = key;
      this.view?.close();
      this.names = area === "train" ? names : [];
      this.view = area === "new-run" ? new NewRun() : area === "data" ? new DatasetView(names[0]) : names.length ? new RunView(names) : null;
      this.element.dataset.open = String(Boolean(this.view));
      fill(this.stage, this.view ? this.view.element : el("p.empty", "Choose a run, or start a new one."));
    }
    this.show();
  }
}
