// A mask painted over a picture: white where the picture is made anew, black where it is kept.

import { button, el, icon, openDialog, row, spring } from "./dom.js";
import { labelled } from "./fields.js";

const load = url => new Promise((resolve, reject) => {
  const picture = new Image();
  picture.onload = () => resolve(picture);
  picture.onerror = () => reject(new Error("The picture cannot be shown."));
  picture.src = url;
});

/** The mask's strokes, on a canvas of the picture's size, with undo. */
class Painting {
  constructor(picture, before) {
    this.canvas = el("canvas", { width: picture.naturalWidth, height: picture.naturalHeight, tabIndex: 0, role: "img" });
    this.pen = this.canvas.getContext("2d", { willReadFrequently: true });
    this.history = [];
    this.width = Math.max(8, Math.round(Math.min(this.canvas.width, this.canvas.height) / 8));
    this.erases = false;
    if (before) this.takeMask(before);
  }

  // White of a given mask becomes opaque, black transparent.
  takeMask(mask) {
    this.pen.drawImage(mask, 0, 0, this.canvas.width, this.canvas.height);
    const pixels = this.pen.getImageData(0, 0, this.canvas.width, this.canvas.height);
    for (let i = 0; i < pixels.data.length; i += 4) {
      pixels.data[i + 3] = pixels.data[i] > 127 ? 255 : 0;
    }
    this.pen.putImageData(pixels, 0, 0);
  }

  remember() {
    this.history.push(this.pen.getImageData(0, 0, this.canvas.width, this.canvas.height));
    if (this.history.length > 12) this.history.shift();
  }

  undo() {
    const last = this.history.pop();
    if (last) this.pen.putImageData(last, 0, 0);
  }

  line(from, to) {
    this.pen.globalCompositeOperation = this.erases ? "destination-out" : "source-over";
    this.pen.strokeStyle = "#fff";
    this.pen.lineCap = this.pen.lineJoin = "round";
    this.pen.lineWidth = this.width;
    this.pen.beginPath();
    this.pen.moveTo(...from);
    this.pen.lineTo(to[0] + 0.01, to[1]);  // a line without a length draws nothing
    this.pen.stroke();
    this.pen.globalCompositeOperation = "source-over";
  }

  fill(how) {
    this.remember();
    const { width, height } = this.canvas;
    if (how === "none") {
      this.pen.clearRect(0, 0, width, height);
    } else {
      this.pen.globalCompositeOperation = how === "invert" ? "xor" : "source-over";
      this.pen.fillStyle = "#fff";
      this.pen.fillRect(0, 0, width, height);
      this.pen.globalCompositeOperation = "source-over";
    }
  }

  isEmpty() {
    return !this.pen.getImageData(0, 0, this.canvas.width, this.canvas.height).data.some((x, i) => i % 4 === 3 && x > 127);
  }

  /** A black and white PNG of the picture's size. */
  png() {
    const flat = el("canvas", { width: this.canvas.width, height: this.canvas.height });
    const pen = flat.getContext("2d");
    pen.fillStyle = "#000";
    pen.fillRect(0, 0, flat.width, flat.height);
    pen.drawImage(this.canvas, 0, 0);
    return new Promise(resolve => flat.toBlob(resolve, "image/png"));
  }
}

// Pointer and keys: arrows move a cross, the space bar paints there.
function listen(painting, cross) {
  const { canvas } = painting;
  let last = null;
  let spot = [canvas.width / 2, canvas.height / 2];
  const at = event => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) * canvas.width / box.width, (event.clientY - box.top) * canvas.height / box.height];
  };
  const showCross = () => {
    cross.style.left = `${spot[0] * 100 / canvas.width}%`;
    cross.style.top = `${spot[1] * 100 / canvas.height}%`;
    const size = painting.width * canvas.getBoundingClientRect().width / canvas.width;
    cross.style.width = cross.style.height = `${size}px`;
  };
  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    painting.remember();
    last = at(event);
    painting.line(last, last);
  });
  canvas.addEventListener("pointermove", event => {
    spot = at(event);
    showCross();
    if (!last) return;
    painting.line(last, spot);
    last = spot;
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { last = null; });
  canvas.addEventListener("keydown", event => {
    const step = painting.width / 2;
    const move = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    if (event.key === " ") {
      painting.remember();
      painting.line(spot, spot);
    } else if (move) {
      const to = [Math.min(canvas.width, Math.max(0, spot[0] + move[0])), Math.min(canvas.height, Math.max(0, spot[1] + move[1]))];
      if (event.shiftKey) painting.line(spot, to);
      spot = to;
    } else {
      return;
    }
    event.preventDefault();
    showCross();
  });
  canvas.addEventListener("focus", showCross);
  return showCross;
}

/** Opens the painter; resolves to a PNG, or to null if it was closed or nothing was painted. */
export async function paintMask(imageUrl, maskUrl) {
  const [picture, before] = await Promise.all([load(imageUrl), maskUrl && load(maskUrl)]);
  const painting = new Painting(picture, before);
  picture.alt = "";
  painting.canvas.ariaLabel = "Mask. Arrow keys move the brush, space paints, shift and arrows draw a line.";
  const cross = el("div.brush-cross", { "aria-hidden": "true" });
  const showCross = listen(painting, cross);
  return new Promise(resolve => {
    let result = null;
    const width = el("input", { type: "range", min: 4, max: Math.max(16, Math.round(Math.min(picture.naturalWidth, picture.naturalHeight) / 2)),
                                value: painting.width, oninput: () => { painting.width = Number(width.value); showCross(); } });
    const erase = el("button.button", { type: "button", "aria-pressed": "false", onclick: () => {
      painting.erases = !painting.erases;
      erase.setAttribute("aria-pressed", String(painting.erases));
    } }, icon("close"), el("span", "Erase"));
    const done = button("Use this mask", async () => {
      result = painting.isEmpty() ? null : await painting.png();
      dialog.close();
    }, { kind: "go" });
    const body = el("div.painter", {},
      el("div.painter-stage", {}, picture, painting.canvas, cross),
      row(labelled("Brush", width), erase,
        button("Undo", () => painting.undo(), { icon: "use", text: true }), button("All", () => painting.fill("all")),
        button("Invert", () => painting.fill("invert")), button("Clear", () => painting.fill("none")), spring(), done));
    const dialog = openDialog("Paint what is made anew", body, { className: "large", onclose: () => resolve(result) });
    painting.canvas.focus();
  });
}
