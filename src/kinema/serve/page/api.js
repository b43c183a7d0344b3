// The requests of the page, and what the server answers. This comment is the contract of both.
//
// GENERAL
//   JSON in UTF-8 unless said otherwise. Times are Unix seconds, durations seconds, sizes bytes, all
//   numbers. Ids and names are opaque. A field that is listed is always present; `T?` may be null.
//   Unknown fields of a request are refused (422), unknown fields of an answer are ignored.
//   An error has a status of 400 or more and the body {error: Error}:
//     401 no token, 403 not allowed here, 404 no such thing, 409 not in this state, 413 too large,
//     415 type, 422 a value (`param` says which), 429 the queue is full, 507 the disk is full.
//   Error     {message: text for people, type: text, param: text?, code: text?}
//   GET /?token=T sets the cookie and answers 303 to `/`; every other request has the cookie.
//   Static files: `/`, `/style.css`, `/NAME.js`, `/icon.svg`. They work under the header
//     Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self';
//     img-src 'self' blob:; media-src 'self' blob:; connect-src 'self'; base-uri 'none';
//     form-action 'none'; frame-ancestors 'none'
//
// STATE AND EVENTS
//   GET /api/state -> {version: text, event: int, paused: bool, engine: Engine, limits: Limits,
//                      models: [Model], loras: [Lora], jobs: [Job], runs: [Run]}
//     jobs: running and waiting ones by `place`, then the last 50 that ended, newest first.
//   GET /api/events?after=EVENT   text/event-stream; the header Last-Event-ID wins over `after`.
//     `id:` counts from 1; those after EVENT are sent, then new ones. One name, one JSON object:
//       job Job · output Output · engine Engine · queue {paused} · run Run
//       removed {job: id?, output: id?, run: name?} · models {models, loras} · plan Plan
//       points {run: name, metrics: Metrics}      only steps that were not sent before
//       sample {run: name, sample: Sample} · download Download · notice {message: text}
//       reset {}   EVENT is too old or of another server: ask /api/state again
//       bye {}     the server ends; the page tries again
//     A comment line every 15 s.
//   Engine    {state: "none"|"loading"|"ready"|"busy"|"ended", model: name?, device: text,
//              message: text?, bytes: int?, bytes_limit: int?}
//     message: why nothing runs, e.g. `training kites`.
//   Limits    {count: int, queue: int, upload_bytes: int, downloads: bool, training: bool}
//
// MODELS
//   GET /api/models -> {models: [Model], loras: [Lora]};  POST /api/models/refresh -> the same
//   POST /api/models/NAME/load, POST /api/engine/unload -> 202 Engine; `engine` events follow
//   Model     {name, family: text, kind: "image"|"video", what: text, bytes: int, loaded: bool,
//              defaults: {KEY: value}, inputs: [InputName], sizes: [Size], multiple_of: int,
//              min_size: int, max_size: int, frames_step: int, max_frames: int}
//     sizes: the usual ones, best first. Others are allowed: width and height multiples of
//     multiple_of within min_size..max_size, frames 1 + k frames_step up to max_frames.
//     defaults has at least width, height, num_frames, num_inference_steps and, if it has an effect,
//     guidance_scale, negative_prompt, fps.
//   Size      {width, height, frames: int, compiled: bool}
//   InputName "image" (first frame or picture to change) | "last_image" | "mask" (white is made) |
//             "control_image" | "video"
//   Lora      {name, family: text, what: text, bytes: int, words: [text], switches: bool}
//     switches: false if another weight of it loads the model again.
//   GET /api/disk -> {files: [DiskFile]}   what the folders of models hold, as `kinema inspect` says
//   DiskFile  {name, folder: text, kind: "model"|"lora"|"text encoder"|"autoencoder"|"embedding"|
//              "other", what: text, bytes: int, changed: time, problem: text?}
//   POST /api/downloads {source: "owner/name"} -> 201 Download;  GET /api/downloads -> {downloads}
//   POST /api/downloads/ID/cancel -> Download
//   Download  {id, source, state: "running"|"done"|"failed"|"cancelled", bytes: int,
//              total: int?, error: Error?}
//
// KEYS
//   GET /api/keys?for=generate&model=NAME or ?for=train&base=NAME -> {keys: [Key]}
//     only keys that clients may set and that have an effect.
//   Key       {key, group: text, help: text, type: "bool"|"int"|"float"|"text"|"list"|"map",
//              default: any, min: number?, max: number?, multiple_of: int, one_of: [text]?,
//              prose: bool, with: text?}
//     with: `KEY` or `KEY=VALUE`, without which it has no effect.
//
// JOBS
//   Request   {model: name, settings: {KEY: value}, inputs: {InputName: upload id},
//              loras: [{name, scale: number}], count: 1..limits.count}
//     settings: keys of /api/keys; what is absent is the model's default; no seed: a random one.
//   POST /api/check Request -> {ok: bool, error: Error?, notices: [text], seconds: number?,
//                               bytes: int?, bytes_limit: int?}
//     200 also if it is refused; seconds are those of the whole request.
//   POST /api/jobs {...Request, client_key: text?} -> 201 Job; 200 with the job of a known key
//   GET /api/jobs/ID -> Job;  GET /api/jobs?before=ID&limit=50 -> {jobs: [Job], next: id?}
//   PATCH /api/jobs/ID Request -> Job               while it waits
//   POST /api/jobs/ID/move {before: id?} -> Job     while it waits; null: to the end
//   POST /api/jobs/ID/cancel -> Job;  POST /api/jobs/ID/retry -> 201 a new Job of the same request
//   DELETE /api/jobs/ID -> {removed: true}          if it ended; its outputs stay
//   POST /api/queue {paused: bool} -> {paused}
//   Job       {id, state: "waiting"|"running"|"done"|"failed"|"cancelled", place: number,
//              request: Request, made: time, started: time?, ended: time?, attempts: int,
//              phase: "loading"|"compiling"|"text"|"sampling"|"decoding"|"writing"|null,
//              step: int, steps: int, progress: 0..1, seconds_left: number?, preview: url?,
//              outputs: [Output], notices: [text], error: Error?}
//     preview: a PNG, JPEG or WebP; another URL for each.
//   POST /api/uploads, body: the bytes, with their Content-Type (image/png, image/jpeg, image/webp,
//     video/mp4) -> 201 Upload; the same bytes have the same id.   GET /uploads/ID -> the bytes
//   Upload    {id, url, type: text, width: int, height: int, frames: int}
//   POST /api/settings/read, body: a PNG or MP4 of kinema, or JSON, with its Content-Type
//     -> {request: Request, left_out: [text]}       a sentence for each setting that was left out
//
// OUTPUTS
//   GET /api/outputs?q=TEXT&model=NAME&kind=video&starred=1&deleted=1&offset=0&limit=200
//     -> {total: int, outputs: [Output]}            newest first; every parameter may be absent;
//     q: words that the prompt has, in any case. Without deleted=1 what is in the bin is left out,
//     with it all else.
//   GET /api/outputs/ID -> {...Output, request: Request, index: int, files: [{name, url, bytes}]}
//     request: settings has the seed, so that request and index make it again.
//   PATCH /api/outputs/ID {starred: bool} -> Output
//   DELETE /api/outputs/ID -> Output, now in the bin;  POST /api/outputs/ID/restore -> Output
//   DELETE /api/outputs/ID?forever=1 -> {removed: true}   only from the bin, else 409
//   DELETE /api/bin -> {removed: int}
//   Output    {id, job: id?, kind: "image"|"video", type: text, url, thumb: url, width, height,
//              frames: int, seconds: number, bytes: int, model: name, prompt: text, seed: int,
//              starred: bool, deleted: time?, made: time}
//   GET url (Range, If-None-Match) -> the bytes;  url?download -> as attachment, with its settings
//
// TRAINING
//   RunRequest {base: name, dataset: name?, settings: {KEY: value}, yaml: text?}
//     yaml: keys as in a configuration file; settings win over it.
//   GET /api/bases -> {bases: [{name, help: text}]}   configurations that a run can start from
//   POST /api/runs/check RunRequest -> {ok, error: Error?, notices: [text], config: text}
//     config: the keys that differ from the defaults, as YAML.
//   POST /api/runs {name, start: bool, ...RunRequest} -> 201 Run; 409 if the name is taken
//   GET /api/runs -> {runs: [Run]}
//   GET /api/runs/NAME -> {...Run, config: text (YAML), plan: Plan?}
//   POST /api/runs/NAME/start, /stop, /save, /sample -> 202 Run
//   DELETE /api/runs/NAME {name} -> {removed: true}   not while it runs; name is repeated
//   Run       {name, state: "created"|"starting"|"running"|"stopping"|"stopped"|"done"|"failed",
//              step: int, steps: int, epoch: number?, loss: number?, recent_loss: number?,
//              learning_rate: number?, step_seconds: number?, planned_step_seconds: number?,
//              bytes: int?, planned_bytes: int?, bytes_limit: int?, seconds_left: number?,
//              started: time?, changed: time, checkpoints: [int], error: Error?}
//   GET /api/runs/NAME/metrics?after=STEP&buckets=1000 -> Metrics of the steps after STEP (-1: all)
//   Metrics   {step: [int], loss: [number?], low: [number?], high: [number?],
//              learning_rate: [number?], seconds: [number?], gradient_norm: [number?],
//              evaluations: [{step: int, loss: number?, timesteps: [[timestep, loss]]}]}
//     columns of equal length, at most `buckets`; a bucket has its last step, the means of its
//     finite values, and the lowest and highest loss. null: nothing was finite.
//   GET /api/runs/NAME/samples -> {samples: [Sample]}   by step, then index
//   Sample    {step: int, index: int, prompt: text, kind: "image"|"video", url, thumb: url,
//              width: int, height: int, frames: int}
//   GET /api/runs/NAME/log?after=BYTE -> {text, next: BYTE}   at most 64 KiB; without after: the end
//   GET /api/datasets -> {datasets: [{name, what: text, clips: int, bytes: int, editable: bool}]}
//   GET /api/datasets/NAME?offset=0&limit=50 -> {total: int, problems: [text], clips: [Clip]}
//   PATCH /api/datasets/NAME/CLIP {caption: text, was: text} -> Clip
//     409 if the caption is not `was` any more.
//   Clip      {id, file: text, kind: "image"|"video", thumb: url, url, width: int, height: int,
//              frames: int, seconds: number, caption: text, problem: text?}
//
// PLANS
//   GET /api/devices -> {devices: [{name, what: text, bytes: int, compiler: bool}]}
//     compiler: false if the compiler for it must be installed first.
//   POST /api/plans {device: name, run: RunRequest} or {device, job: Request} -> 202 Plan
//   GET /api/plans/ID -> Plan;  `plan` events follow
//   Plan      {id, device: name, state: "running"|"done"|"failed", fits: bool?, bytes: int?,
//              bytes_limit: int?, step_seconds: number?, bound_by: text?, remedy: text?,
//              lines: [text], error: Error?}

/** What the server refused, or that it could not be reached (status 0). */
export class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.param = error.param ?? null;
    this.code = error.code ?? null;
  }
}

/** Sends `body` (a Blob with its type, else as JSON) and returns the answer. Throws Refused. */
export async function call(method, path, body) {
  const options = { method, headers: {}, credentials: "same-origin" };
  if (body instanceof Blob) {
    options.body = body;
    options.headers["Content-Type"] = body.type || "application/octet-stream";
  } else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Refused(0, { message: "The server does not answer. Is `kinema serve` running?" });
  }
  const json = await answer.json().catch(() => null);
  if (answer.ok && json !== null) return json;
  const fallback = { message: `The server answered ${answer.status} ${answer.statusText}.` };
  throw new Refused(answer.status, json?.error?.message ? json.error : fallback);
}

/** A path of the API: each part is escaped, and `query` has no entry for undefined or "". */
export function path(parts, query = {}) {
  const entries = Object.entries(query).filter(([, v]) => v !== undefined && v !== null && v !== "");
  const search = new URLSearchParams(entries).toString();
  return "/api/" + parts.map(encodeURIComponent).join("/") + (search && `?${search}`);
}

export const get = (...parts) => call("GET", path(parts));
export const post = (parts, body = {}) => call("POST", path(parts), body);
export const find = (parts, query) => call("GET", path(parts, query));
export const change = (parts, body) => call("PATCH", path(parts), body);
export const remove = (parts, query, body) => call("DELETE", path(parts, query), body);
