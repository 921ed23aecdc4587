// Actions that are numbers and vectors that were seen, as small curves under the steps.

import { colour, Layer, prepare } from "./canvas.js";

/** @typedef {import("./model.js").Model} Model */

const LABEL = 15; // pixels above the lines of a track for its name and the numbers at the step
const GAP = 5; // pixels under them
const HUES = [211, 28, 147, 285, 188, 340, 42, 250]; // of the lines, in turn

export class CurvesView {
  /** @param {HTMLElement} root @param {Model} model @param {{look: (step: number) => void, changed: () => void}} on */
  constructor(root, model, on) {
    this.root = root;
    this.canvas = /** @type {HTMLCanvasElement} */ (root.querySelector("canvas"));
    this.model = model;
    this.layer = new Layer();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => {
      model.hoverStep = this.stepAt(event.offsetX);
      on.changed();
    });
    this.canvas.addEventListener("pointerleave", () => {
      model.hoverStep = null;
      on.changed();
    });
    this.canvas.addEventListener("click", (event) => on.look(this.stepAt(event.offsetX)));
  }

  /** @param {number} x */
  stepAt(x) {
    const [from, to] = this.model.view;
    return Math.min(Math.max(Math.floor(from + (x / this.canvas.clientWidth) * (to - from)), 0), this.model.length - 1);
  }

  draw() {
    const tracks = this.model.episode?.curves ?? [];
    this.root.hidden = !tracks.length;
    if (!tracks.length) return;
    this.root.style.setProperty("--tracks", String(tracks.length));
    const { ink, width, height } = prepare(this.canvas);
    const each = height / tracks.length;
    const [from, to] = this.model.view;
    const x = (/** @type {number} */ step) => ((step + 0.5 - from) / (to - from)) * width;
    this.layer.show(ink, width, height, [tracks, from, to], (paper) =>
      tracks.forEach((track, number) => {
        const [top, bottom] = [number * each + LABEL, (number + 1) * each - GAP];
        track.heights.forEach((heights, line) => this.line(paper, heights, line, x, top, bottom));
      }),
    );
    tracks.forEach((track, number) => this.words(ink, track, number * each));
    for (const [step, name] of /** @type {[number | null, string][]} */ ([[this.model.p, "p"], [this.model.q, "q"], [this.model.looking, "quiet"]])) {
      if (step === null) continue;
      ink.fillStyle = colour(name);
      ink.fillRect(x(step) - 0.5, 0, 1, height);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} ink @param {number[]} heights @param {number} line
   * @param {(step: number) => number} x @param {number} top @param {number} bottom
   */
  line(ink, heights, line, x, top, bottom) {
    ink.strokeStyle = `hsl(${HUES[line % HUES.length]} 60% 50%)`;
    ink.lineWidth = 1.4;
    ink.beginPath();
    heights.forEach((y, step) => ink.lineTo(x(step), bottom - y * (bottom - top)));
    ink.stroke();
  }

  /** The track's name, and its numbers at the step looked at. @param {CanvasRenderingContext2D} ink @param {import("./types.js").Curves} track @param {number} top */
  words(ink, track, top) {
    ink.font = "11px system-ui, sans-serif";
    ink.textAlign = "left";
    ink.fillStyle = colour("quiet");
    ink.fillText(track.name, 0, top + 11);
    let left = ink.measureText(track.name).width + 12;
    track.values.forEach((values, line) => {
      const text = values[this.model.looking].toFixed(2);
      ink.fillStyle = `hsl(${HUES[line % HUES.length]} 60% 50%)`;
      ink.fillText(text, left, top + 11);
      left += ink.measureText(text).width + 8;
    });
  }
}
