// Whether a request or run fits a device that is not here, and how fast it is there.

import { get, orElse, post } from "./api.js";
import { button, card, el, fill } from "./dom.js";
import { choice, labelled, setChoices } from "./fields.js";
import { sayProblem } from "./messages.js";
import { on } from "./state.js";
import { bytes, duration, inWords } from "./words.js";

export class PlanView {
  /** `subject()` returns {run: RunRequest} or {job: Request}. */
  constructor(subject) {
    this.subject = subject;
    this.device = choice([], "");
    this.result = el("div.plan-result", { "aria-live": "polite" });
    this.go = button("Plan", () => this.start(), { failed: problem => this.show({ state: "failed", error: problem }) });
    this.element = card("Plan", el("h3", "On another device"),
      el("p.help", "Compiles the step for a device that need not be here, and says whether it fits and how long a step takes."),
      el("div.row.bottom", {}, labelled("Device", this.device), this.go), this.result);
    this.off = on("plan", plan => plan.id === this.id && this.show(plan));
    orElse({ devices: [] }, get("devices")).then(({ devices }) => {
      this.element.hidden = !devices.length;
      setChoices(this.device, devices.map(({ name, what, compiler }) =>
        [name, `${name}: ${what}${compiler ? "" : " (compiler not installed)"}`]));
    }).catch(sayProblem);
  }

  async start() {
    const plan = await post(["plans"], { device: this.device.value, ...this.subject() });
    this.id = plan.id;
    this.show(plan);
    // The event may have come before its number was known.
    this.show(await get("plans", plan.id));
  }

  show(plan) {
    if (plan.id && this.ended === plan.id) return;  // an answer that is older than the event
    if (plan.state !== "running") this.ended = plan.id;
    if (plan.state === "failed") {
      fill(this.result, el("p.wrong", { text: inWords(plan.error) }));
    } else if (plan.state === "running") {
      fill(this.result, el("p.help", "compiling; this may take minutes"), el("progress", { ariaLabel: "compiling" }),
        button("Cancel the plan", async () => this.show(await post(["plans", plan.id, "cancel"]))));
    } else if (plan.state === "cancelled") {
      fill(this.result, el("p.help", "cancelled"));
    } else {
      fill(this.result, el("p", { class: plan.fits ? "good" : "wrong", text: `${plan.fits ? "Fits" : "Does not fit"}: ${bytes(plan.bytes, plan.bytes_limit)}` }),
        plan.step_seconds !== null && el("p", { text: `${duration(plan.step_seconds)} a step${plan.bound_by ? `, bound by ${plan.bound_by}` : ""}` }),
        plan.remedy && el("p", { text: plan.remedy }), el("ul.notices", {}, plan.lines.map(text => el("li", { text }))));
    }
  }

  close() {
    this.off();
  }
}
