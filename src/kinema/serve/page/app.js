// The page: four areas, of which the part after # shows one, and a line about the engine.

import { el, fill, reportErrorsTo, setText } from "./dom.js";
import { Gallery } from "./gallery.js";
import { Make } from "./make.js";
import { sayProblem, say } from "./messages.js";
import { Models } from "./models.js";
import { begin, on, state } from "./state.js";
import { Train } from "./train.js";
import { bytes, inWords } from "./words.js";

const section = name => document.getElementById(name);
const AREA_OF = { "new-run": "train", data: "train" };

reportErrorsTo(sayProblem);
const make = new Make();
const areas = { make, gallery: new Gallery(make), train: new Train(), models: new Models() };
for (const [name, area] of Object.entries(areas)) fill(section(name), area.element);

/** Shows the area that the address names. */
function route() {
  const parts = location.hash.slice(1).split("/").map(decodeURIComponent);
  const name = AREA_OF[parts[0]] ?? (Object.hasOwn(areas, parts[0]) ? parts[0] : "make");
  for (const each of document.querySelectorAll("main > section[id]")) each.hidden = each.id !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${name[0].toUpperCase()}${name.slice(1)} · kinema`;
  if (!state.engine) return;  // nothing is known yet
  areas[name].shown?.(parts[0] ? parts : ["train"]);
}

function showEngine() {
  const { engine } = state;
  if (!engine) return;
  const memory = engine.bytes_limit ? bytes(engine.bytes ?? 0, engine.bytes_limit) : null;
  const waiting = [...state.jobs.values()].filter(job => job.state === "waiting").length;
  setText(section("engine"), [engine.model ?? engine.device, engine.state === "loading" ? "loads" : memory, waiting && `${waiting} waiting`, state.paused && "paused"].filter(Boolean).join(" · "));
  section("engine").dataset.state = engine.state;
}

for (const name of ["all", "engine", "job", "removed", "queue"]) on(name, showEngine);
on("live", live => { section("lost").hidden = live; });
on("notice", ({ message }) => say(message));
on("locked", problem => {
  fill(document.querySelector("main"), el("section.card.locked", {}, el("h1", "A token is needed"), el("p", { text: inWords(problem) })));
  section("lost").hidden = true;
});
document.getElementById("skip").addEventListener("click", event => {
  event.preventDefault();
  document.querySelector("main").focus();
});
addEventListener("hashchange", () => { route(); scrollTo(0, 0); });
on("all", () => {
  document.querySelector("nav [href='#train']").hidden = !state.limits.training;
  route();
});
route();
begin();
