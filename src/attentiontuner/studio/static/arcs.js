// Pairs as arcs over the timeline: from the step that was recalled to the step that used it.

import { colour, prepare, tickDistance } from "./canvas.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./model.js").Shown} Shown
 */

const AXIS = 18; // pixels under the arcs for the numbers of the steps
const REACH = 6; // pixels from an arc at which the mouse is on it

export class Arcs {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Model} model
   * @param {{choose: (pair: Shown) => void, look: (step: number) => void, changed: () => void}} on
   */
  constructor(canvas, model, on) {
    this.canvas = canvas;
    this.model = model;
    new ResizeObserver(() => this.draw()).observe(canvas);
    canvas.addEventListener("pointermove", (event) => {
      const found = this.nearest(event.offsetX, event.offsetY);
      if (same(found, model.hoverPair)) return;
      model.hoverPair = found;
      on.changed();
    });
    canvas.addEventListener("pointerleave", () => {
      model.hoverPair = null;
      on.changed();
    });
    canvas.addEventListener("click", (event) => {
      const found = this.nearest(event.offsetX, event.offsetY);
      if (found) on.choose(found);
      else on.look(Math.min(Math.max(Math.floor((event.offsetX / canvas.clientWidth) * model.length), 0), model.length - 1));
    });
  }

  /** @param {number} step */
  x(step) {
    return ((step + 0.5) / this.model.length) * this.canvas.clientWidth;
  }

  /** @param {number} p @param {number} q @returns {[number, number, number]} centre, half width, height in pixels */
  shape(p, q) {
    const room = this.canvas.clientHeight - AXIS - 6;
    const half = (this.x(q) - this.x(p)) / 2;
    return [this.x(p) + half, half, room * Math.max(Math.pow((q - p) / this.model.length, 0.6), 0.08)];
  }

  /** @returns {Shown[]} */
  shown() {
    return [
      ...this.model.openSuggestions.map(({ p, q }) => ({ p, q, suggested: true })),
      ...this.model.state.pairs.map(([p, q]) => ({ p, q, suggested: false })),
    ];
  }

  /** @param {number} x @param {number} y @returns {Shown | null} */
  nearest(x, y) {
    if (!this.model.episode) return null;
    const base = this.canvas.clientHeight - AXIS;
    let best = null;
    let distance = REACH;
    if (y > base + 2) return null;
    for (const pair of this.shown()) {
      const [centre, half, height] = this.shape(pair.p, pair.q);
      const radius = Math.hypot((x - centre) / half, (base - y) / height);
      const away = Math.abs(radius - 1) * Math.min(half, height);
      if (away < distance) [best, distance] = [pair, away];
    }
    return best;
  }

  draw() {
    const { model } = this;
    if (!model.episode) return;
    const { ink, width, height } = prepare(this.canvas);
    const base = height - AXIS;
    this.axis(ink, width, base);
    const active = model.hoverPair ?? (model.hoverStep === null ? model.selected : null);
    const touches = (/** @type {Shown} */ pair) => pair.p === model.hoverStep || pair.q === model.hoverStep;
    const anyTouched = model.hoverStep !== null && this.shown().some(touches);
    for (const pair of this.shown()) {
      const lit = active ? same(pair, active) : anyTouched && touches(pair);
      this.arc(ink, pair, base, lit, active !== null || anyTouched);
    }
    for (const [step, name] of /** @type {[number | null, string][]} */ ([[model.p, "p"], [model.q, "q"], [model.looking, "ink"]])) {
      if (step === null) continue;
      ink.fillStyle = colour(name);
      ink.beginPath();
      ink.arc(this.x(step), base, name === "ink" ? 3 : 5, 0, 7);
      ink.fill();
    }
  }

  /** @param {CanvasRenderingContext2D} ink @param {Shown} pair @param {number} base @param {boolean} lit @param {boolean} dim */
  arc(ink, pair, base, lit, dim) {
    const [centre, half, height] = this.shape(pair.p, pair.q);
    const crowded = Math.min(1, 60 / this.model.state.pairs.length + 0.25);
    ink.globalAlpha = lit ? 1 : dim ? 0.16 : pair.suggested ? 0.8 : 0.85 * crowded;
    ink.lineWidth = lit ? 2.6 : 1.5;
    ink.setLineDash(pair.suggested ? [4, 4] : []);
    if (pair.suggested) ink.strokeStyle = colour("suggested");
    else {
      const blend = ink.createLinearGradient(centre - half, 0, centre + half, 0);
      blend.addColorStop(0, colour("p"));
      blend.addColorStop(1, colour("q"));
      ink.strokeStyle = blend;
    }
    ink.beginPath();
    ink.ellipse(centre, base, half, height, 0, Math.PI, 2 * Math.PI);
    ink.stroke();
    ink.setLineDash([]);
    ink.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} ink @param {number} width @param {number} base */
  axis(ink, width, base) {
    ink.strokeStyle = colour("line");
    ink.fillStyle = colour("quiet");
    ink.lineWidth = 1;
    ink.font = "11px system-ui, sans-serif";
    ink.beginPath();
    ink.moveTo(0, base + 0.5);
    ink.lineTo(width, base + 0.5);
    const every = tickDistance(this.model.length);
    for (let step = 0; step < this.model.length; step++) {
      const x = this.x(step);
      ink.moveTo(x, base);
      ink.lineTo(x, base + (step % every === 0 ? 5 : 2.5));
      ink.textAlign = x > width - 14 ? "right" : "center";
      if (step % every === 0) ink.fillText(String(step), Math.min(x + (x > width - 14 ? 6 : 0), width), base + 16);
    }
    ink.stroke();
  }
}

/** @param {Shown | null} a @param {Shown | null} b */
export function same(a, b) {
  return a === b || (a !== null && b !== null && a.p === b.p && a.q === b.q && a.suggested === b.suggested);
}
