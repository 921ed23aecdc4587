// The matrix E: a cell in column p and row q for every pair.

import { same } from "./arcs.js";
import { colour, prepare, tickDistance } from "./canvas.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./model.js").Shown} Shown
 */

const MARGIN = 22; // pixels left and below for numbers
const SMALLEST = 3.5; // pixels; a pair is drawn at least this large, however long the episode

export class Matrix {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Model} model
   * @param {{choose: (pair: Shown) => void, mark: (p: number, q: number) => void, changed: () => void}} on
   */
  constructor(canvas, model, on) {
    this.canvas = canvas;
    this.model = model;
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

  get size() {
    return (this.canvas.clientWidth - MARGIN) / this.model.length;
  }

  /** @param {MouseEvent} event @returns {[number, number] | null} the (p, q) under the mouse, if p < q */
  cell(event) {
    if (!this.model.episode) return null;
    const p = Math.floor((event.offsetX - MARGIN) / this.size);
    const q = Math.floor(event.offsetY / this.size);
    return p >= 0 && p < q && q < this.model.length ? [p, q] : null;
  }

  /** @param {MouseEvent} event @returns {Shown | null} */
  nearest(event) {
    if (!this.model.episode) return null;
    const p = (event.offsetX - MARGIN) / this.size - 0.5;
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
    const [size, side] = [this.size, width - MARGIN];
    ink.fillStyle = colour("sunken");
    ink.beginPath();
    ink.moveTo(MARGIN, 0);
    ink.lineTo(MARGIN, side);
    ink.lineTo(width, side);
    ink.fill();
    this.crosshair(ink, size, side);
    const active = model.hoverPair ?? model.selected;
    for (const pair of this.shown()) {
      const drawn = Math.max(size, SMALLEST);
      const x = MARGIN + (pair.p + 0.5) * size - drawn / 2;
      const y = (pair.q + 0.5) * size - drawn / 2;
      const lit = same(pair, active);
      ink.fillStyle = ink.strokeStyle = colour(lit ? "p" : pair.suggested ? "suggested" : "ink");
      if (pair.suggested && !lit) ink.strokeRect(x + 0.5, y + 0.5, Math.max(drawn - 1, 2), Math.max(drawn - 1, 2));
      else ink.fillRect(x - (lit ? 2 : 0), y - (lit ? 2 : 0), drawn + (lit ? 4 : 0), drawn + (lit ? 4 : 0));
    }
    this.numbers(ink, size, height);
  }

  /** @param {CanvasRenderingContext2D} ink @param {number} size @param {number} side */
  crosshair(ink, size, side) {
    const { model } = this;
    const pair = model.hoverPair ?? model.selected;
    const p = pair ? pair.p : model.p;
    const q = pair ? pair.q : model.q ?? (model.p === null ? null : model.looking);
    ink.globalAlpha = 0.5;
    if (p !== null) {
      ink.fillStyle = colour("p");
      ink.fillRect(MARGIN + p * size, p * size, Math.max(size, 1), side - p * size);
    }
    if (q !== null) {
      ink.fillStyle = colour("q");
      ink.fillRect(MARGIN, q * size, q * size, Math.max(size, 1));
    }
    ink.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} ink @param {number} size @param {number} height */
  numbers(ink, size, height) {
    ink.fillStyle = colour("quiet");
    ink.font = "10.5px system-ui, sans-serif";
    const every = tickDistance(this.model.length) * 2;
    for (let step = 0; step < this.model.length; step += every) {
      ink.textAlign = "right";
      ink.textBaseline = "middle";
      ink.fillText(String(step), MARGIN - 4, Math.max((step + 0.5) * size, 6));
      ink.textAlign = step ? "center" : "left";
      ink.textBaseline = "bottom";
      ink.fillText(String(step), MARGIN + (step + 0.5) * size, height - 4);
    }
  }
}
