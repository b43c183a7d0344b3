// Numbers as people read them.

/** `41 GB`; with `of` the unit is that of the larger: `41 of 80 GB`. */
export function bytes(n, of) {
  if (n == null) return "";
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const largest = Math.max(n, of ?? 0, 1);
  const unit = Math.min(units.length - 1, Math.floor(Math.log(largest) / Math.log(1024)));
  const number = x => {
    const value = x / 1024 ** unit;
    return value && value < 9.95 && unit ? value.toFixed(1) : String(Math.round(value));
  };
  return of ? `${number(n)} of ${number(of)} ${units[unit]}` : `${number(n)} ${units[unit]}`;
}

/** `0.4 s`, `42 s`, `7 min`, `3 h 20 min`. */
export function duration(seconds) {
  if (seconds == null) return "";
  if (seconds < 9.95) return `${Number(seconds.toFixed(1))} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

/** `3 jobs`, `1 job`. */
export function count(n, noun) {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}

/** A loss or rate with three or four digits. */
export function number(x) {
  if (x == null) return "–";
  if (x === 0) return "0";
  return Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5 ? String(Number(x.toPrecision(4))) : x.toExponential(2);
}

export function size({ width, height, frames }) {
  return `${width} × ${height}` + (frames > 1 ? `, ${frames} frames` : "");
}

export function date(time) {
  return new Date(time * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** The request of a job or output in one line, without the prompt. */
export function summary(request, defaults = {}) {
  const value = key => request.settings[key] ?? defaults[key];
  const parts = [request.model];
  if (value("width")) parts.push(size({ width: value("width"), height: value("height"), frames: value("num_frames") }));
  if (value("num_inference_steps")) parts.push(count(value("num_inference_steps"), "step"));
  if (request.settings.seed !== undefined) parts.push(`seed ${request.settings.seed}`);
  for (const lora of request.loras) parts.push(`${lora.name} ${lora.scale}`);
  if (request.count > 1) parts.push(`${request.count} times`);
  return parts.join(" · ");
}

/** An error in words: without `[room]`, and its remedy in a sentence of its own. */
export function inWords(problem) {
  const lines = problem.message.replace(/^\[[\w/ ]+\] /, "").split("\n").map(line => line.trim()).filter(Boolean);
  return lines.map(line => (/^[\w.]*_/.test(line) ? line : line[0].toUpperCase() + line.slice(1)) + (/[.!?:]$/.test(line) ? "" : ".")).join(" ");
}
