// The queue: what waits, what is made, what was made.

import { post, remove } from "./api.js";
import { button, el, fill, keyed, setText, spring } from "./dom.js";
import { say, whisper } from "./messages.js";
import { jobsInOrder, modelNamed, on, state, take } from "./state.js";
import { openOutput } from "./viewer.js";
import { count, duration, inWords, summary } from "./words.js";

const PHASES = { loading: "loading the model", compiling: "compiling this size", text: "reading the prompt", sampling: "", decoding: "decoding", writing: "writing" };

const act = async (job, what, body) => take("job", await post(["jobs", job.id, what], body));

function note(job) {
  if (job.state === "failed") return inWords(job.error);
  if (job.state === "waiting") {
    const ahead = jobsInOrder().filter(each => each.state === "waiting" && each.place < job.place).length;
    return ahead ? `waits behind ${count(ahead, "other")}` : state.paused ? "paused" : "waits, next";
  }
  if (job.state === "running") {
    const step = job.phase === "sampling" || !job.phase ? `step ${job.step} of ${job.steps}` : PHASES[job.phase];
    return [step, job.seconds_left !== null && `${duration(job.seconds_left)} left`].filter(Boolean).join(", ");
  }
  const took = job.ended && job.started ? ` in ${duration(job.ended - job.started)}` : "";
  return job.state === "done" ? `done${took}` : job.state;
}

/** The waiting jobs that stand before and after this one. */
function neighbours(job) {
  const waiting = jobsInOrder().filter(each => each.state === "waiting");
  const at = waiting.findIndex(each => each.id === job.id);
  return { before: waiting[at - 1], afterNext: waiting[at + 2], isLast: at === waiting.length - 1 };
}

function buttons(job, form) {
  const make = [];
  if (job.state === "waiting") {
    make.push(
      ["Earlier", "up", () => { const { before } = neighbours(job); return before && act(job, "move", { before: before.id }); }],
      ["Later", "down", () => { const { afterNext, isLast } = neighbours(job); return isLast || act(job, "move", { before: afterNext?.id ?? null }); }],
      ["Edit", "edit", () => form.edit(job)]);
  }
  if (job.state === "waiting" || job.state === "running") {
    make.push(["Cancel", "close", () => act(job, "cancel")]);
  } else {
    make.push(
      ["Use these settings", "use", () => form.use(job.request)],
      [job.state === "done" ? "Again with another seed" : "Try again", "again", async () => take("job", await post(["jobs", job.id, "retry"]))],
      ["Remove from the list", "close", async () => { await remove(["jobs", job.id]); take("removed", { job: job.id }); }]);
  }
  return make.map(([label, icon, action]) => {
    const node = button(label, action, { icon });
    node.setAttribute("aria-label", `${label}: ${job.request.settings.prompt}`);
    return node;
  });
}

function card(first, form) {
  const picture = el("div.job-picture");
  const title = el("p.job-prompt");
  const about = el("p.dim");
  const bar = el("progress", { max: 1 });
  const words = el("p.job-note");
  const notices = el("ul.notices");
  const made = el("div.job-made");
  const actions = el("div.job-actions");
  const node = el("li.job", {}, picture, el("div.job-text", {}, title, about, bar, words, notices, made), actions);
  let shown = "";
  node.update = job => {
    node.dataset.state = job.state;
    node.dataset.id = job.id;
    setText(title, job.request.settings.prompt);
    setText(about, summary(job.request, modelNamed(job.request.model)?.defaults));
    bar.hidden = job.state !== "running";
    bar.value = job.progress;
    bar.ariaLabel = `progress of ${job.request.settings.prompt}`;
    setText(words, note(job));
    if (notices.children.length !== job.notices.length) fill(notices, job.notices.map(text => el("li", { text })));
    showPicture(form, picture, job);
    keyed(made, job.outputs.length > 1 ? job.outputs : [], each => each.id, each => thumbnail(form, each, job.outputs));
    if (shown !== job.state) {
      const at = [...actions.children].indexOf(document.activeElement);
      fill(actions, buttons(job, form));
      if (at >= 0) actions.children[Math.min(at, actions.children.length - 1)].focus();
    }
    shown = job.state;
  };
  node.update(first);
  return node;
}

// The preview while it is made, then the first output; the last preview stays until the next comes.
function showPicture(form, box, job) {
  const output = job.outputs[0];
  const source = output?.thumb ?? job.preview;
  if (!source || box.dataset.source === source) return;
  box.dataset.source = source;
  if (output) {
    fill(box, thumbnail(form, output, job.outputs));
    return;
  }
  const picture = box.querySelector("img.preview") ?? fill(box, el("img.preview")).firstChild;
  picture.alt = `preview of ${job.request.settings.prompt}`;
  picture.src = source;
}

function thumbnail(form, output, all) {
  return el("button.thumb", { type: "button", ariaLabel: `Open: ${output.prompt}`, onclick: () => openOutput(form, output, all) },
    el("img", { src: output.thumb, alt: "", loading: "lazy" }), output.kind === "video" && el("span.badge", "video"));
}

export function queueView(form) {
  const pause = button("Pause", async () => take("queue", await post(["queue"], { paused: !state.paused })), { icon: "pause", text: true });
  const heading = el("h2", "Queue");
  const why = el("p.banner", { hidden: true });
  const list = el("ol.jobs", { "aria-label": "Jobs" });
  const empty = el("p.empty", "Nothing yet. Describe a picture or video and add it to the queue.");
  const tidy = button("Remove ended ones", async () => {
    for (const job of jobsInOrder().filter(each => each.ended)) {
      await remove(["jobs", job.id]);
      take("removed", { job: job.id });
    }
  });
  const show = () => {
    const jobs = jobsInOrder();
    const waiting = jobs.filter(each => each.state === "waiting").length;
    setText(heading, waiting ? `Queue, ${waiting} waiting` : "Queue");
    keyed(list, jobs, each => each.id, each => card(each, form));
    empty.hidden = jobs.length > 0;
    tidy.hidden = !jobs.some(each => each.ended);
    pause.querySelector("span").textContent = state.paused ? "Resume" : "Pause";
    const reason = state.paused ? "The queue is paused: what runs is finished, nothing new begins." : state.engine?.message;
    why.hidden = !reason;
    setText(why, reason ?? "");
  };
  for (const name of ["all", "job", "removed", "queue", "engine"]) on(name, show);
  // Screen readers hear of the end of a job, not of each step.
  const ended = new Set();
  on("all", () => { for (const job of state.jobs.values()) if (job.ended) ended.add(job.id); });
  on("job", job => {
    if (!job.ended || ended.has(job.id)) return;
    ended.add(job.id);
    const words = `${job.state[0].toUpperCase()}${job.state.slice(1)}: ${job.request.settings.prompt.slice(0, 60)}`;
    const isSeen = list.checkVisibility();
    if (job.state === "failed" && !isSeen) say(`${words}. ${inWords(job.error)}`, { kind: "bad" });
    else if (job.state === "done" && !isSeen) say(words);
    else whisper(words);
  });
  return el("section.queue", { "aria-label": "Queue" },
    el("header.row", {}, heading, spring(), tidy, pause), why, empty, list);
}
