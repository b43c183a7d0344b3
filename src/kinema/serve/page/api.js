// Requests to the server. ../page_api.txt states each of them and its answer, and so does /api/openapi.json.

/** What the server refused, or that it could not be reached (status 0). */
export class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.param = error.param ?? null;
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
  const entries = Object.entries(query).filter(([, v]) => v != null && v !== "");
  const search = new URLSearchParams(entries).toString();
  return "/api/" + parts.map(encodeURIComponent).join("/") + (search && `?${search}`);
}

/** Answers to `ask`, or `fallback` where the server does not have such a thing (404). */
export const orElse = (fallback, ask) => ask.catch(problem => problem.status === 404 ? fallback : Promise.reject(problem));

export const get = (...parts) => call("GET", path(parts));
export const post = (parts, body = {}) => call("POST", path(parts), body);
export const find = (parts, query) => call("GET", path(parts, query));
export const change = (parts, body) => call("PATCH", path(parts), body);
export const remove = (parts, query, body) => call("DELETE", path(parts, query), body);
