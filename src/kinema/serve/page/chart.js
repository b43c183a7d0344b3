// Curves as SVG, which the pointer or the arrow keys read out.

import { el, fill, listen, setText, svg } from "./dom.js";
import { number } from "./words.js";

const MARGIN = { left: 56, right: 10, top: 10, bottom: 24 };

/** About `wanted` round numbers from low to high. */
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(x => x * power).find(x => x >= rough);
  const list = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step * 1e-9; x += step) list.push(Number(x.toPrecision(12)));
  return list;
}

/** Powers of ten, with 2 and 5 between them where there is room. */
function logTicks(low, high) {
  const list = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); ++power) {
    for (const digit of high - low < 3 ? [1, 2, 5] : [1]) {
      const at = power + Math.log10(digit);
      if (at >= low && at <= high) list.push(at);
    }
  }
  return list.length > 1 ? list : [low, high];
}

/** Running means: each value weighs `1 - smoothing`; gaps are skipped. */
export function smoothed(values, smoothing) {
  let mean = null;
  return values.map(value => {
    if (value === null) return mean;
    mean = mean === null ? value : smoothing * mean + (1 - smoothing) * value;
    return mean;
  });
}

/**
 * A chart. `series` are {name, x, y, low?, high?, faint?} with numbers or null; `color` is 0 to 5.
 * `low` and `high` are drawn as a band. With `log`, values that are not above 0 are left out.
 */
export class Chart {
  constructor(label, { unit = "step", height = 240 } = {}) {
    Object.assign(this, { label, unit, height, series: [], log: false, cursor: null });
    this.readout = el("output.readout");
    this.canvas = el("div.chart-canvas", { tabIndex: 0, role: "img", ariaLabel: label });
    this.legend = el("div.legend");
    this.element = el("figure.chart", {}, el("figcaption", {}, el("span", { text: label }), this.legend, this.readout), this.canvas);
    listen(this.canvas, {
      pointermove: event => this.pointAt(event.clientX - this.canvas.getBoundingClientRect().left),
      pointerleave: () => this.setCursor(null),
      blur: () => this.setCursor(null),
      keydown: event => this.key(event),
    });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  set(series, { log = false } = {}) {
    Object.assign(this, { series, log });
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => { this.asked = 0; this.draw(); });
  }

  at(value) {
    if (value == null || (this.log && value <= 0)) return null;
    return this.log ? Math.log10(value) : value;
  }

  ranges() {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const { x, y } of this.series) {
      for (let i = 0; i < x.length; ++i) {
        const value = this.at(y[i]);
        if (value === null) continue;
        x0 = Math.min(x0, x[i]); x1 = Math.max(x1, x[i]);
        y0 = Math.min(y0, value); y1 = Math.max(y1, value);
      }
    }
    if (x0 > x1) return null;
    const room = (y1 - y0) * 0.05 || Math.abs(y0) * 0.1 || 1;
    return { x0, x1: x1 === x0 ? x0 + 1 : x1, y0: y0 - room, y1: y1 + room };
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    const range = this.ranges();
    if (!range) {
      fill(this.canvas, el("p.empty", "no values yet"));
      return;
    }
    const { height } = this;
    const { x0, x1, y0, y1 } = range;
    this.toX = x => MARGIN.left + (width - MARGIN.left - MARGIN.right) * (x - x0) / (x1 - x0);
    this.toY = y => MARGIN.top + (height - MARGIN.top - MARGIN.bottom) * (y1 - y) / (y1 - y0);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
    for (const y of this.log ? logTicks(y0, y1) : ticks(y0, y1, 4)) {
      root.append(svg("line", { class: "tick", x1: MARGIN.left, x2: width - MARGIN.right, y1: this.toY(y), y2: this.toY(y) }),
        svg("text", { x: MARGIN.left - 6, y: this.toY(y) + 4, "text-anchor": "end" }, number(Number((this.log ? 10 ** y : y).toPrecision(3)))));
    }
    for (const x of ticks(x0, x1, Math.max(2, width / 110))) {
      const anchor = this.toX(x) > width - 24 ? "end" : "middle";
      root.append(svg("text", { x: this.toX(x), y: height - 6, "text-anchor": anchor }, x.toLocaleString("en")));
    }
    for (const each of this.series) root.append(...this.curve(each));
    this.line = svg("line", { class: "cursor", y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: "hidden" });
    root.append(this.line);
    fill(this.canvas, root);
    fill(this.legend, this.series.filter(each => !each.faint).map(({ name, color }) =>
      el("span", { class: `legend-item color-${color ?? 0}` }, name)));
    this.canvas.ariaLabel = this.inWords();
    this.setCursor(this.cursor);
  }

  curve({ x, y, low, high, color = 0, faint }) {
    const points = [];
    const above = [];
    const below = [];
    for (let i = 0; i < x.length; ++i) {
      const value = this.at(y[i]);
      if (value === null) continue;
      const across = this.toX(x[i]).toFixed(1);
      points.push(`${across},${this.toY(value).toFixed(1)}`);
      if (low && this.at(low[i]) !== null && this.at(high[i]) !== null) {
        above.push(`${across},${this.toY(this.at(high[i])).toFixed(1)}`);
        below.push(`${across},${this.toY(this.at(low[i])).toFixed(1)}`);
      }
    }
    const shapes = [svg("polyline", { class: `curve color-${color} ${faint ? "faint" : ""}`, points: points.join(" ") })];
    if (points.length === 1) {
      const [cx, cy] = points[0].split(",");
      shapes.push(svg("circle", { class: `dot color-${color}`, cx, cy, r: 3 }));
    }
    if (above.length > 1) shapes.unshift(svg("polygon", { class: `band color-${color}`, points: [...above, ...below.reverse()].join(" ") }));
    return shapes;
  }

  inWords() {
    const parts = this.series.filter(each => !each.faint).map(({ name, x, y }) => {
      const first = y.find(each => each !== null);
      const last = y.findLast(each => each !== null);
      return last === undefined ? `${name}: no values` : `${name}: ${number(first)} at ${this.unit} ${x[0]} to ${number(last)} at ${this.unit} ${x.at(-1)}`;
    });
    return `${this.label}. ${parts.join(". ")}`;
  }

  pointAt(across) {
    const x = this.series[0]?.x;
    if (!x?.length || !this.toX) return;
    let best = 0;
    for (let i = 1; i < x.length; ++i) {
      if (Math.abs(this.toX(x[i]) - across) < Math.abs(this.toX(x[best]) - across)) best = i;
    }
    this.setCursor(x[best]);
  }

  key(event) {
    const x = this.series[0]?.x;
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity }[event.key];
    if (!x?.length || by === undefined) return;
    event.preventDefault();
    const at = this.cursor === null ? x.length - 1 : x.findIndex(each => each >= this.cursor);
    this.setCursor(x[Math.min(x.length - 1, Math.max(0, at + by))]);
  }

  setCursor(x) {
    this.cursor = x;
    if (!this.line) return;
    this.line.setAttribute("visibility", x === null ? "hidden" : "visible");
    if (x === null) {
      setText(this.readout, "");
      return;
    }
    this.line.setAttribute("x1", this.toX(x));
    this.line.setAttribute("x2", this.toX(x));
    const shown = this.series.filter(each => !each.faint).map(({ name, x: xs, y }) => {
      const at = xs.findIndex(each => each >= x);
      return at < 0 ? null : `${name} ${number(y[at])}`;
    });
    setText(this.readout, [`${this.unit} ${x.toLocaleString("en")}`, ...shown.filter(Boolean)].join(" · "));
  }
}
