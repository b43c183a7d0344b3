// Make: a request is put together, predicted, and added to the queue.

import { change, find, post, call } from "./api.js";
import { button, debounced, el, listen, row, setText, spring } from "./dom.js";
import { choice, labelled, setChoices, SettingsForm, textArea } from "./fields.js";
import { Inputs, uploadOutput } from "./inputs.js";
import { Loras } from "./loras.js";
import { say, sayProblem, whisper } from "./messages.js";
import { queueView } from "./queue.js";
import { SizeFields } from "./size.js";
import { modelNamed, on, state, take } from "./state.js";
import { bytes, duration, inWords } from "./words.js";

// Keys with a place of their own; all others are under "More settings".
const PLACED = ["prompt", "negative_prompt", "width", "height", "num_frames", "num_inference_steps", "guidance_scale", "seed", "strength"];
const STORE = "kinema.request";

const number = props => el("input", { type: "number", inputMode: "decimal", ...props });

/** The form; `element` is the whole area, with the queue. */
export class Make {
  constructor() {
    const changed = () => this.changed();
    this.prompt = textArea({ rows: 4, required: true, placeholder: "What shall be seen?" });
    this.negative = textArea({ rows: 2 });
    this.model = choice([], "", () => this.setModel(this.model.value));
    this.loras = new Loras(changed);
    this.size = new SizeFields(changed);
    this.steps = number({ min: 1, max: 1000, step: 1 });
    this.guidance = number({ min: 0, step: "any" });
    this.seed = number({ min: 0, step: 1, placeholder: "random" });
    this.count = number({ min: 1, step: 1, value: 1 });
    this.strength = el("input", { type: "range", min: 0.05, max: 1, step: 0.05, value: 1, oninput: () => this.showStrength() });
    this.inputs = new Inputs(changed, sayProblem);
    this.more = new SettingsForm(changed);
    this.boxes = {
      prompt: labelled("Prompt", this.prompt), negative_prompt: labelled("Negative prompt", this.negative),
      model: labelled("Model", this.model), num_inference_steps: labelled("Steps", this.steps),
      guidance_scale: labelled("Guidance", this.guidance), seed: labelled("Seed", this.seed), count: labelled("How many", this.count),
      strength: labelled("", this.strength),
    };
    this.modelNote = el("p.help");
    this.prediction = el("p.prediction", { "aria-live": "polite" });
    this.wrong = el("p.wrong", { role: "alert" });
    this.repeat = el("input", { type: "checkbox" });
    this.go = el("button.button.go", { type: "submit", text: "Add to queue" });
    this.leave = button("Stop editing", () => this.edit(null));
    this.leave.hidden = true;
    this.element = this.build();
    this.showStrength();
    this.check = debounced(300, () => this.predict());
    this.editing = null;
    this.asked = 0;
    on("all", () => this.setModels());
    on("models", () => this.setModels());
    on("job", job => this.repeatAfter(job));
    on("output", () => this.prediction.textContent || this.check());
  }

  build() {
    const chooser = el("input.hidden-file", { type: "file", accept: "image/png,video/mp4,application/json,.json", tabIndex: -1,
                                  "aria-label": "Settings of a file", onchange: () => chooser.files[0] && this.readSettings(chooser.files[0]) });
    const form = el("form.make-form", { noValidate: true, "aria-label": "What to make" },
      el("div.form-body", {},
        this.boxes.prompt, this.boxes.negative_prompt,
        el("div.stack.tight", {}, this.boxes.model, this.modelNote),
        this.inputs.element, this.boxes.strength, this.size.element,
        el("div.fields", {}, this.boxes.num_inference_steps, this.boxes.guidance_scale, this.boxes.seed, this.boxes.count),
        this.loras.element,
        el("details", {}, el("summary", "More settings"), this.more.element),
        row(chooser, button("Settings of a file…", () => chooser.click()), button("Defaults", () => this.reset()))),
      el("div.form-foot", {}, this.wrong, this.prediction,
        row(this.go, this.leave, spring(),
          el("label.check", { title: "adds the same again with another seed when it is done" }, this.repeat, "repeat"))));
    listen(form, {
      submit: event => { event.preventDefault(); this.submit(); },
      input: () => this.changed(),
      keydown: event => event.key === "Enter" && (event.ctrlKey || event.metaKey) && form.requestSubmit(),
      dragover: event => event.preventDefault(),
      drop: event => {
        event.preventDefault();
        if (event.dataTransfer.files[0]) this.readSettings(event.dataTransfer.files[0]);
      },
      paste: event => {
        const file = [...event.clipboardData.files].find(each => each.type.startsWith("image/"));
        if (file && modelNamed(this.model.value)?.inputs.includes("image")) this.inputs.take("image", file);
      },
    });
    this.form = form;
    return el("div.make", {}, form, queueView(this));
  }

  setModels() {
    setChoices(this.model, state.models.map(({ name }) => [name, name]));
    this.count.max = state.limits.count;
    if (this.current === undefined) {
      const stored = storedRequest();
      const first = modelNamed(stored?.model) ?? state.models.find(each => each.loaded) ?? state.models[0];
      if (!first) return;
      if (stored && first.name === stored.model) this.write(stored);
      else this.setModel(first.name);
    }
  }

  /** Shows what this model takes. What was given and it does not take is left out, and said. */
  async setModel(name) {
    const model = modelNamed(name);
    const changes = this.current !== name;
    this.current = name;
    this.model.value = name;
    setText(this.modelNote, model.what);
    if (changes) {
      this.steps.value = model.defaults.num_inference_steps;
      this.guidance.value = model.defaults.guidance_scale ?? "";
      this.negative.value ||= model.defaults.negative_prompt ?? "";
    }
    this.boxes.guidance_scale.hidden = model.defaults.guidance_scale === undefined;
    this.boxes.negative_prompt.hidden = model.defaults.negative_prompt === undefined;
    this.size.setModel(model);
    const left = [...this.inputs.setModel(model), ...this.loras.setModel(model)];
    if (left.length) say(`${name} does not take ${left.join(", ")}: left out.`);
    this.changed();
    const { keys } = await find(["keys"], { for: "generate", model: name });
    if (this.current !== name) return;
    this.hasStrength = keys.some(({ key }) => key === "strength");
    this.more.setKeys(keys.filter(({ key }) => !PLACED.includes(key)));
    if (this.waitingSettings) this.more.write(this.waitingSettings);
    this.waitingSettings = null;
    this.changed();
  }

  /** The request as it stands. */
  values() {
    const settings = { prompt: this.prompt.value, ...this.size.values(), ...this.waitingSettings, ...this.more.values() };
    const put = (key, input) => { if (input.value !== "") settings[key] = Number(input.value); };
    put("num_inference_steps", this.steps);
    put("seed", this.seed);
    if (!this.boxes.guidance_scale.hidden) put("guidance_scale", this.guidance);
    if (!this.boxes.negative_prompt.hidden) settings.negative_prompt = this.negative.value;
    if (!this.boxes.strength.hidden) put("strength", this.strength);
    return { model: this.current, settings, inputs: this.inputs.values(), loras: this.loras.values(), count: Number(this.count.value) || 1 };
  }

  /** Fills the form with a request. */
  write(request) {
    const { settings } = request;
    if (!modelNamed(request.model)) say(`There is no model ${request.model}: ${this.current} stays.`, { kind: "bad" });
    this.prompt.value = settings.prompt ?? "";
    this.inputs.write(request.inputs);
    this.loras.write(request.loras);
    this.waitingSettings = Object.fromEntries(Object.entries(settings).filter(([key]) => !PLACED.includes(key)));
    this.setModel(modelNamed(request.model)?.name ?? this.current).catch(sayProblem);
    this.size.write(settings);
    const { defaults } = modelNamed(this.current);
    this.steps.value = settings.num_inference_steps ?? defaults.num_inference_steps;
    this.negative.value = settings.negative_prompt ?? defaults.negative_prompt ?? "";
    this.guidance.value = settings.guidance_scale ?? defaults.guidance_scale ?? "";
    this.seed.value = settings.seed ?? "";
    this.strength.value = settings.strength ?? 1;
    this.showStrength();
    this.count.value = request.count;
    this.prompt.fit();
    this.negative.fit();
    this.changed();
  }

  showStrength() {
    setText(this.boxes.strength.firstChild, `Strength ${this.strength.value}: how much of it changes`);
  }

  reset() {
    this.write({ model: this.current, settings: { prompt: this.prompt.value }, inputs: {}, loras: [], count: 1 });
  }

  changed() {
    const { inputs } = this;
    this.boxes.strength.hidden = !(this.hasStrength && (inputs.given.has("image") || inputs.given.has("video")));
    if (!this.current) return;
    if (!this.editing) localStorage.setItem(STORE, JSON.stringify(this.values()));
    this.check();
  }

  /** Asks what the request needs; the answer to an older question is dropped. */
  async predict() {
    const question = ++this.asked;
    if (!this.prompt.value.trim()) {
      this.refuse(null);
      setText(this.prediction, "");
      return;
    }
    try {
      const answer = await post(["check"], this.values());
      if (question !== this.asked) return;
      this.refuse(answer.error);
      const needs = [answer.seconds !== null && `about ${duration(answer.seconds)}`,
                     answer.bytes !== null && `${bytes(answer.bytes, answer.bytes_limit)} of memory`].filter(Boolean);
      setText(this.prediction, [needs.join(", "), ...answer.notices].filter(Boolean).join(" · "));
    } catch (problem) {
      if (question === this.asked) this.refuse(problem);
    }
  }

  /** Says what is wrong, at its field where there is one. */
  refuse(problem) {
    for (const box of Object.values(this.boxes)) box.refuse(null);
    const text = problem && inWords(problem);
    const own = problem && this.boxes[problem.param];
    own?.refuse(text);
    const shown = this.size.refuse(problem?.param, text) || this.more.refuse(problem?.param, text) || own;
    setText(this.wrong, text && !shown ? text : "");
    if (problem) setText(this.prediction, shown ? text : "");
    return shown;
  }

  async submit() {
    if (this.go.getAttribute("aria-busy") === "true") return;
    this.go.setAttribute("aria-busy", "true");
    this.asked++;  // an answer to a check that comes later says nothing new
    try {
      if (this.editing) {
        take("job", await change(["jobs", this.editing], this.values()));
        this.edit(null);
        say("The waiting job is changed.");
      } else {
        await this.add(this.values());
      }
      this.refuse(null);
    } catch (problem) {
      this.refuse(problem);
      this.form.querySelector("[aria-invalid]")?.focus();
    } finally {
      this.go.removeAttribute("aria-busy");
    }
  }

  // The key lets a request whose answer was lost be sent again without a second job.
  async add(request) {
    const client_key = Array.from(crypto.getRandomValues(new Uint8Array(12)), x => x.toString(16).padStart(2, "0")).join("");
    const send = () => post(["jobs"], { ...request, client_key });
    const job = await send().catch(problem => problem.status === 0 ? send() : Promise.reject(problem));
    this.last = take("job", job).id;
    // On a phone the queue is below the form.
    (matchMedia("(max-width: 760px)").matches ? say : whisper)("Added to the queue.");
  }

  repeatAfter(job) {
    if (job.id !== this.last || job.state !== "done" || !this.repeat.checked || this.editing) return;
    const request = this.values();
    delete request.settings.seed;
    this.add(request).catch(sayProblem);
  }

  /** Edits a waiting job in the form; null: stops that, and the form has what it had before. */
  edit(job) {
    const before = this.editing;
    this.editing = job?.id ?? null;
    this.leave.hidden = !job;
    this.go.textContent = job ? "Change the waiting job" : "Add to queue";
    if (job) this.write(job.request);
    else if (before && storedRequest()) this.write(storedRequest());
    this.show();
  }

  /** Fills the form from a job or output. */
  use(request, { seed = true, inputs = {} } = {}) {
    const copy = structuredClone(request);
    if (!seed) delete copy.settings.seed;
    Object.assign(copy.inputs, inputs);
    this.write(copy);
    this.show();
  }

  async useAsInput(output, name) {
    const given = await uploadOutput(output);
    this.inputs.set(name, given);
    this.show();
  }

  async readSettings(file) {
    try {
      const type = file.type || "application/json";
      const { request, left_out: left } = await call("POST", "/api/settings/read", new Blob([file], { type }));
      this.use(request);
      say(left.length ? `Settings taken. Left out: ${left.join("; ")}.` : "Settings taken.");
    } catch (problem) {
      sayProblem(problem);
    }
  }

  show() {
    location.hash = "#make";
    this.prompt.focus();
  }
}

function storedRequest() {
  try {
    return JSON.parse(localStorage.getItem(STORE));
  } catch {
    return null;
  }
}
