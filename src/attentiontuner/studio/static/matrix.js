// The matrix E: a cell in column p and row q for every pair.

import { same } from "./arcs.js";
import { colour, Layer, prepare, tickDistance } from "./canvas.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./model.js").Shown} Shown
 */

const BELOW = 18; // pixels for the numbers of p
const DIGIT = 6.5; // pixels of a digit of the numbers of q
const SMALLEST = 3.5; // pixels; a pair is drawn at least this large, however long the episode
const READABLE = 12; // pixels of a cell in which a count is written

export class Matrix {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Model} model
   * @param {{choose: (pair: Shown) => void, mark: (p: number, q: number) => void, changed: () => void}} on
   */
  constructor(canvas, model, on) {
    this.canvas = canvas;
    this.model = model;
    this.layer = new Layer();
    new ResizeObserver(() => this.draw()).observe(canvas);
    canvas.addEventListener("pointermove", (event) => {
      const found = this.nearest(event);
      const step = found ? null : this.cell(event)?.[1] ?? null;
      if (same(found, model.hoverPair) && step === model.hoverStep) return;
      model.hoverPair = found;
      model.hoverStep = step;
      on.changed();
    });
    canvas.addEventListener("pointerleave", () => {
      model.hoverPair = model.hoverStep = null;
      on.changed();
    });
    canvas.addEventListener("click", (event) => {
      const found = this.nearest(event);
      const cell = this.cell(event);
      if (found) on.choose(found);
      else if (cell) on.mark(cell[0], cell[1]);
    });
  }

  /** Pixels left of the cells, for the numbers of q: as wide as the longest of them. */
  get left() {
    return Math.max(22, String(this.model.length - 1).length * DIGIT + 8);
  }

  get size() {
    return Math.min(this.canvas.clientWidth - this.left, this.canvas.clientHeight - BELOW) / this.model.length;
  }

  /** @param {MouseEvent} event @returns {[number, number] | null} the (p, q) under the mouse, if p < q */
  cell(event) {
    if (!this.model.episode) return null;
    const p = Math.floor((event.offsetX - this.left) / this.size);
    const q = Math.floor(event.offsetY / this.size);
    return p >= 0 && p < q && q < this.model.length ? [p, q] : null;
  }

  /** @param {MouseEvent} event @returns {Shown | null} */
  nearest(event) {
    if (!this.model.episode) return null;
    const p = (event.offsetX - this.left) / this.size - 0.5;
    const q = event.offsetY / this.size - 0.5;
    let best = null;
    let distance = Math.max(0.55, 4 / this.size);
    for (const pair of this.shown()) {
      const away = Math.max(Math.abs(pair.p - p), Math.abs(pair.q - q));
      if (away < distance) [best, distance] = [pair, away];
    }
    return best;
  }

  /** @returns {Shown[]} */
  shown() {
    return [
      ...this.model.openSuggestions.map(({ p, q }) => ({ p, q, suggested: true })),
      ...this.model.state.pairs.map(([p, q]) => ({ p, q, suggested: false })),
    ];
  }

  draw() {
    const { model } = this;
    if (!model.episode) return;
    const { ink, width, height } = prepare(this.canvas);
    const [size, left] = [this.size, this.left];
    const side = size * model.length;
    ink.fillStyle = colour("sunken");
    ink.beginPath();
    ink.moveTo(left, 0);
    ink.lineTo(left, side);
    ink.lineTo(left + side, side);
    ink.fill();
    this.crosshair(ink, size, side);
    const { pairs, about } = model.state;
    this.layer.show(ink, width, height, [pairs, about, model.openSuggestions, model.length], (paper) => {
      for (const pair of this.shown()) this.pair(paper, pair, false);
      this.numbers(paper, size, side);
    });
    const active = model.hoverPair ?? model.selected;
    if (active) this.pair(ink, active, true);
  }

  /** @param {CanvasRenderingContext2D} ink @param {Shown} pair @param {boolean} lit */
  pair(ink, pair, lit) {
    const { size, left } = this;
    const drawn = Math.max(size, SMALLEST) + (lit ? 4 : 0);
    const x = left + (pair.p + 0.5) * size - drawn / 2;
    const y = (pair.q + 0.5) * size - drawn / 2;
    ink.fillStyle = ink.strokeStyle = colour(lit ? "p" : pair.suggested ? "suggested" : "ink");
    if (pair.suggested && !lit) ink.strokeRect(x + 0.5, y + 0.5, Math.max(drawn - 1, 2), Math.max(drawn - 1, 2));
    else ink.fillRect(x, y, drawn, drawn);
    const about = this.model.about(pair);
    if (about) ink.strokeRect(left + about[0] * size, about[2] * size, (about[1] - about[0] + 1) * size, (about[3] - about[2] + 1) * size);
    const count = this.model.count(pair);
    if (count < 2) return;
    if (size >= READABLE) {
      ink.font = "600 10px system-ui, sans-serif";
      ink.textAlign = "center";
      ink.textBaseline = "middle";
      ink.fillStyle = colour(pair.suggested && !lit ? "suggested" : "surface");
      ink.fillText(String(count), x + drawn / 2, y + drawn / 2);
    } else {
      ink.beginPath(); // too small for a number: a ring says that it counts more than once
      ink.arc(x + drawn / 2, y + drawn / 2, drawn / 2 + 2.5, 0, 7);
      ink.stroke();
    }
  }

  /** @param {CanvasRenderingContext2D} ink @param {number} size @param {number} side */
  crosshair(ink, size, side) {
    const { model, left } = this;
    const pair = model.hoverPair ?? model.selected;
    const p = pair ? pair.p : model.p;
    const q = pair ? pair.q : model.q ?? (model.p === null ? null : model.looking);
    ink.globalAlpha = 0.5;
    if (p !== null) {
      ink.fillStyle = colour("p");
      ink.fillRect(left + p * size, p * size, Math.max(size, 1), side - p * size);
    }
    if (q !== null) {
      ink.fillStyle = colour("q");
      ink.fillRect(left, q * size, q * size, Math.max(size, 1));
    }
    ink.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} ink @param {number} size @param {number} side */
  numbers(ink, size, side) {
    const { left } = this;
    ink.fillStyle = colour("quiet");
    ink.font = "10.5px system-ui, sans-serif";
    const every = tickDistance(this.model.length, Math.max(1, side / (left + 14)));
    for (let step = 0; step < this.model.length; step += every) {
      ink.textAlign = "right";
      ink.textBaseline = "middle";
      ink.fillText(String(step), left - 4, Math.max((step + 0.5) * size, 6));
      const half = ink.measureText(String(step)).width / 2;
      const x = Math.min(Math.max(left + (step + 0.5) * size, left + half), left + side - half);
      ink.textAlign = "center";
      ink.textBaseline = "bottom";
      ink.fillText(String(step), x, side + BELOW - 3);
    }
  }
}
