// Two outputs beside or over each other, and what differs in their settings.

import { get } from "./api.js";
import { el, fill, openDialog, row } from "./dom.js";
import { tabs } from "./fields.js";
import { say, sayProblem } from "./messages.js";
import { media, settingsOf } from "./viewer.js";

let first = null;

/** Keeps this one for the next that is compared, or compares with the one that was kept. True: opened. */
export function compareWith(form, output) {
  if (!first || first.id === output.id) {
    first = output;
    say("Now choose the other one, and Compare there.", { action: ["Stop", () => { first = null; }] });
    return false;
  }
  openComparison(first, output).catch(sayProblem);
  first = null;
  return true;
}

function differences(a, b) {
  const [left, right] = [a, b].map(each => new Map([["prompt", each.prompt], ...settingsOf(each, each.request).map(([key, value]) => [key, String(value)])]));
  const keys = [...new Set([...left.keys(), ...right.keys()])];
  return keys.filter(key => left.get(key) !== right.get(key)).map(key => [key, left.get(key) ?? "–", right.get(key) ?? "–"]);
}

// The second video follows the first.
function together([a, b]) {
  if (!b) return;
  const follow = () => {
    b.currentTime = a.currentTime;
    if (a.paused) b.pause();
    else b.play().catch(() => {});
  };
  for (const name of ["play", "pause", "seeked"]) a.addEventListener(name, follow);
}

/** Opens both; a slider moves the border where they lie over each other. */
async function openComparison(a, b) {
  const stage = el("div.comparison", { data: { how: "side" } });
  const border = el("input", { type: "range", min: 0, max: 100, value: 50, ariaLabel: "border between both", hidden: true });
  const halves = [a, b].map((output, i) => el("figure", {}, media(output), el("figcaption", { text: i ? "B" : "A" })));
  const move = () => {
    const over = stage.dataset.how === "over";
    halves[1].style.clipPath = over ? `inset(0 0 0 ${border.value}%)` : "";
  };
  border.addEventListener("input", move);
  fill(stage, halves);
  together([...stage.querySelectorAll("video")]);
  const how = tabs("How they are shown", [["side", "Side by side"], ["over", "Over each other"]], "side", value => {
    stage.dataset.how = value;
    border.hidden = value !== "over";
    move();
  });
  const table = el("table.table");
  openDialog("Compare", el("div.compare-body", {}, row(how, border), stage, table), { className: "full" });
  const [full, other] = await Promise.all([get("outputs", a.id), get("outputs", b.id)]);
  const rows = differences(full, other);
  const cells = (tag, texts) => el("tr", {}, texts.map((text, i) => el(i ? tag : "th", { text })));
  fill(table, el("caption", { text: rows.length ? "What differs" : "The same settings" }),
    rows.length > 0 && el("thead", {}, cells("th", ["Setting", "A", "B"])), el("tbody", {}, rows.map(row => cells("td", row))));
}
