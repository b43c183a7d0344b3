// What the server says, kept up to date by its events. Everything that shows it calls `on`.

import { get, Refused } from "./api.js";

const NAMES = ["job", "removed", "output", "engine", "queue", "run", "points", "sample", "models", "plan",
               "download", "notice", "reset", "bye"];

export const state = {
  version: "", paused: false, engine: null, limits: null, models: [], loras: [],
  jobs: new Map(), runs: new Map(), live: false,
};

const listeners = new Map();

/**
 * Calls `f(value)` for each event of this name. Beside the server's: `all` after everything was
 * asked again, `live` when the connection comes or goes, and `locked` when a token is needed.
 */
export function on(name, f) {
  if (!listeners.has(name)) listeners.set(name, new Set());
  listeners.get(name).add(f);
  return () => listeners.get(name).delete(f);
}

// One view that fails leaves the others and the stream alone.
function tell(name, value) {
  for (const f of listeners.get(name) ?? []) {
    try {
      f(value);
    } catch (problem) {
      console.error(problem);
    }
  }
}

export const modelNamed = name => state.models.find(model => model.name === name);

/** Jobs in the order in which they are shown: those that wait, the running one, then ended ones. */
export function jobsInOrder() {
  const rank = { running: 0, waiting: 1 };
  return [...state.jobs.values()].sort((a, b) =>
    (rank[a.state] ?? 2) - (rank[b.state] ?? 2) ||
    (a.state === "waiting" ? a.place - b.place : (b.ended ?? b.started) - (a.ended ?? a.started)));
}

const keep = {
  job: job => state.jobs.set(job.id, job),
  run: run => state.runs.set(run.name, run),
  engine: engine => { state.engine = engine; },
  queue: ({ paused }) => { state.paused = paused; },
  models: ({ models, loras }) => Object.assign(state, { models, loras }),
  removed: ({ job, run }) => { state.jobs.delete(job); state.runs.delete(run); },
};

function apply(name, value) {
  keep[name]?.(value);
  tell(name, value);
}

/**
 * Returns the answer to a request that changes something. The event about it changes what is shown,
 * since that may be newer than the answer; only without a stream the answer does.
 */
export function take(name, value) {
  if (!state.live) apply(name, value);
  return value;
}

let stream = null;
let lastEvent = 0;
let retry = 0;

function setLive(live) {
  if (state.live === live) return;
  state.live = live;
  document.body.dataset.live = live ? "yes" : "no";
  tell("live", live);
}

function listen() {
  stream?.close();
  stream = new EventSource(`/api/events?after=${lastEvent}`);
  stream.onopen = () => setLive(true);
  stream.onerror = () => {
    setLive(false);
    // A browser gives up after an answer that is no stream (401, 503): everything is asked again.
    if (stream.readyState === EventSource.CLOSED) begin();
  };
  for (const name of NAMES) {
    stream.addEventListener(name, event => {
      if (event.lastEventId) lastEvent = Number(event.lastEventId);
      if (name === "reset") begin();
      else apply(name, JSON.parse(event.data));
    });
  }
}

/** Asks for everything, then for events; until the server answers, again and again. */
export async function begin() {
  stream?.close();
  stream = null;
  clearTimeout(retry);
  try {
    const all = await get("state");
    const { jobs, runs, event, ...rest } = all;
    Object.assign(state, rest);
    state.jobs = new Map(jobs.map(job => [job.id, job]));
    state.runs = new Map(runs.map(run => [run.name, run]));
    lastEvent = event;
    tell("all");
    listen();
  } catch (problem) {
    setLive(false);
    if (!(problem instanceof Refused)) throw problem;
    if (problem.status === 401) tell("locked", problem);
    else retry = setTimeout(begin, 2000);
  }
}

// A browser opens six connections to a host: a tab that nobody sees gives its stream back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else if (!stream) {
    if (lastEvent) listen();
    else begin();
  }
});
