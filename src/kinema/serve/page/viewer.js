// One picture or video, large, with its settings and what can be done with it.

import { change, get, post, remove } from "./api.js";
import { compareWith } from "./compare.js";
import { button, confirmed, el, fill, icon, loop, openDialog, row } from "./dom.js";
import { say, sayProblem } from "./messages.js";
import { modelNamed, state, take } from "./state.js";
import { bytes, date, duration, size } from "./words.js";

export const star = async output => take("output", await change(["outputs", output.id], { starred: !output.starred }));

export const restore = async output => take("output", await post(["outputs", output.id, "restore"]));

/** Moves it to the bin; the message has a way back. */
export async function toBin(output) {
  const moved = take("output", await remove(["outputs", output.id]));
  say("Moved to the bin.", { action: ["Undo", () => restore(moved)] });
  return moved;
}

async function deleteForever(output) {
  if (!await confirmed("Delete it for ever?", "Delete")) return false;
  await remove(["outputs", output.id], { forever: 1 });
  take("removed", { output: output.id });
  return true;
}

/** A picture, or a video that loops. */
export function media(output) {
  if (output.kind !== "video") return el("img", { src: output.url, alt: output.prompt });
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  return loop(output.url, { poster: output.thumb, autoplay: !still, controls: true, ariaLabel: output.prompt });
}

/** The settings of a request as [name, value] pairs, for reading. */
export function settingsOf(output, request) {
  const { prompt, ...settings } = request.settings;
  const rows = [["model", request.model], ["size", size(output)], ["seed", output.seed]];
  for (const [key, value] of Object.entries(settings)) {
    if (["seed", "width", "height", "num_frames"].includes(key) || value === "") continue;
    rows.push([key, typeof value === "object" ? JSON.stringify(value) : String(value)]);
  }
  for (const lora of request.loras) rows.push(["LoRA", `${lora.name}, ${lora.scale}`]);
  for (const name of Object.keys(request.inputs)) rows.push([name, "given"]);
  return rows;
}

// The model in the form if it takes a picture, else the first that does.
function modelForPicture(form) {
  const takes = model => model?.inputs.includes("image");
  const current = modelNamed(form.current);
  return takes(current) ? current : state.models.find(takes);
}

function actions(form, output, request, view) {
  const make = (request_, options) => { view.close(); form.use(request_, options); };
  const list = [button("Use settings", () => make(request), { icon: "use", text: true, kind: "go" }),
                button("Variation", () => make(request, { seed: false }), { icon: "again", text: true })];
  const model = output.kind === "image" && modelForPicture(form);
  if (model) {
    list.push(button(model.kind === "video" ? "Use as first frame" : "Change this picture", async () => {
      if (form.current !== model.name) await form.setModel(model.name);
      await form.useAsInput(output, "image");
      view.close();
    }, { icon: "picture", text: true }));
  }
  list.push(button("Compare", () => { compareWith(form, output); view.close(); }, { icon: "compare", text: true }),
            el("a.button", { href: `${output.url}?download`, download: "" }, icon("download"), el("span", "Download")));
  if (output.deleted) {
    list.push(button("Restore", async () => { await restore(output); view.close(); }, { icon: "restore", text: true }),
              button("Delete for ever", async () => await deleteForever(output) && view.close(), { icon: "bin", text: true, kind: "danger" }));
  } else {
    list.push(button("To the bin", async () => { await toBin(output); view.close(); }, { icon: "bin", text: true }));
  }
  return list;
}

/**
 * Opens the viewer. `all` is a list of outputs, or a function (output, step) that resolves to the
 * one beside it or to undefined.
 */
export function openOutput(form, first, all = [first]) {
  const beside = typeof all === "function" ? all : async (output, step) => all[all.findIndex(each => each.id === output.id) + step];
  const stage = el("div.stage");
  const panel = el("div.panel");
  let shown = first;

  async function show(output) {
    shown = output;
    fill(stage, media(output), stepper(-1, "Newer one", "left"), stepper(1, "Older one", "right"));
    const rows = el("dl.pairs");
    const todo = el("div.row.wrap");
    const starred = button(output.starred ? "Starred" : "Star", async () => show({ ...output, ...await star(output) }), { icon: "star", text: true });
    starred.setAttribute("aria-pressed", String(output.starred));
    fill(panel, el("p.prompt-text", { text: output.prompt }),
      el("p.dim", { text: [date(output.made), bytes(output.bytes), output.frames > 1 && duration(output.seconds)].filter(Boolean).join(" · ") }),
      row(starred), todo, rows);
    const { request, files } = await get("outputs", output.id);
    if (shown !== output) return;
    fill(rows, settingsOf(output, request).map(([name, value]) => [el("dt", { text: name }), el("dd", { text: value })]));
    if (files.length > 1) rows.append(...files.flatMap(file => [el("dt", "file"), el("dd", {}, el("a", { href: `${file.url}?download`, text: file.name }))]));
    fill(todo, actions(form, output, request, view));
  }
  const step = async by => {
    const next = await beside(shown, by);
    if (next) await show(next);
  };
  const stepper = (by, label, picture) => {
    const node = button(label, () => step(by), { icon: picture });
    node.classList.add("stepper", picture);
    return node;
  };
  const view = openDialog("Picture", el("div.viewer", {}, stage, panel), { className: "full" });
  view.querySelector("h2").textContent = first.kind === "video" ? "Video" : "Picture";
  view.addEventListener("keydown", event => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.target.matches("input, textarea, video")) return;
    event.preventDefault();
    step(by).catch(sayProblem);
  });
  show(first).catch(sayProblem);
  return view;
}
