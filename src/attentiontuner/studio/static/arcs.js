// Pairs as arcs over the timeline: from the step that was recalled to the step that used it.

import { colour, Layer, prepare, tickDistance } from "./canvas.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./model.js").Shown} Shown
 */

const AXIS = 18; // pixels under the arcs for the numbers of the steps
const REACH = 6; // pixels from an arc at which the mouse is on it
const MOST = 4000; // arcs; of more, every second, third, … is drawn: there are not that many pixels
const BLENDED = 600; // arcs that have a colour running from p to q

export class Arcs {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Model} model
   * @param {{choose: (pair: Shown) => void, look: (step: number) => void, changed: () => void}} on
   */
  constructor(canvas, model, on) {
    this.canvas = canvas;
    this.model = model;
    this.layer = new Layer();
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
      else on.look(this.stepAt(event.offsetX));
    });
  }

  /** @param {number} x */
  stepAt(x) {
    const [from, to] = this.model.view;
    return Math.min(Math.max(Math.floor(from + (x / this.canvas.clientWidth) * (to - from)), 0), this.model.length - 1);
  }

  /** @param {number} step */
  x(step) {
    const [from, to] = this.model.view;
    return ((step + 0.5 - from) / (to - from)) * this.canvas.clientWidth;
  }

  /** @param {number} p @param {number} q @returns {[number, number, number]} centre, half width, height in pixels */
  shape(p, q) {
    const room = this.canvas.clientHeight - AXIS - 6;
    const half = (this.x(q) - this.x(p)) / 2;
    const [from, to] = this.model.view;
    return [this.x(p) + half, half, room * Math.min(1, Math.max(Math.pow((q - p) / (to - from), 0.6), 0.08))];
  }

  /** Those that cross the steps in view. @returns {Shown[]} */
  shown() {
    const [from, to] = this.model.view;
    return [
      ...this.model.openSuggestions.map(({ p, q }) => ({ p, q, suggested: true })),
      ...this.model.state.pairs.map(([p, q]) => ({ p, q, suggested: false })),
    ].filter(({ p, q }) => q >= from && p <= to);
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
    const [from, to] = model.view;
    const lit = this.lit();
    const { pairs, about } = model.state;
    ink.globalAlpha = lit.length ? 0.25 : 1;
    this.layer.show(ink, width, height, [pairs, about, model.openSuggestions, from, to], (paper) => {
      const all = this.shown();
      const every = Math.ceil(all.length / MOST);
      all.forEach((pair, place) => place % every || this.arc(paper, pair, base, false, all.length));
    });
    ink.globalAlpha = 1;
    this.axis(ink, width, base);
    for (const { q } of model.undecided) if (q >= from && q < to) this.deciding(ink, this.x(q), base);
    for (const pair of lit) this.arc(ink, pair, base, true, lit.length);
    for (const [step, name] of /** @type {[number | null, string][]} */ ([[model.p, "p"], [model.q, "q"], [model.looking, "ink"]])) {
      if (step === null) continue;
      ink.fillStyle = colour(name);
      ink.beginPath();
      ink.arc(this.x(step), base, name === "ink" ? 3 : 5, 0, 7);
      ink.fill();
    }
  }

  /** The pairs that are looked at: the one under the mouse or selected, or all of the step under the mouse. @returns {Shown[]} */
  lit() {
    const { model } = this;
    const active = model.hoverPair ?? (model.hoverStep === null ? model.selected : null);
    if (active) return [active];
    const step = model.hoverStep;
    if (step === null) return [];
    const { recalledAt, recalls } = model.facts;
    return [
      ...(recalledAt.get(step) ?? []).map((/** @type {number} */ q) => ({ p: step, q, suggested: false })),
      ...(recalls.get(step) ?? []).map((/** @type {number} */ p) => ({ p, q: step, suggested: false })),
      ...model.openSuggestions.filter(({ p, q }) => p === step || q === step).map(({ p, q }) => ({ p, q, suggested: true })),
    ];
  }

  /** @param {CanvasRenderingContext2D} ink @param {Shown} pair @param {number} base @param {boolean} lit @param {number} among how many */
  arc(ink, pair, base, lit, among) {
    const [centre, half, height] = this.shape(pair.p, pair.q);
    const count = this.model.count(pair);
    ink.globalAlpha = lit ? 1 : pair.suggested ? 0.8 : 0.85 * Math.min(1, 60 / among + 0.25);
    ink.lineWidth = (lit ? 2.6 : 1.5) + (count > 1 ? 1.2 : 0);
    ink.setLineDash(pair.suggested ? [4, 4] : []);
    ink.strokeStyle = colour(pair.suggested ? "suggested" : "q");
    if (!pair.suggested && among <= BLENDED) {
      const blend = ink.createLinearGradient(centre - half, 0, centre + half, 0);
      blend.addColorStop(0, colour("p"));
      blend.addColorStop(1, colour("q"));
      ink.strokeStyle = blend;
    }
    ink.beginPath();
    ink.ellipse(centre, base, half, height, 0, Math.PI, 2 * Math.PI);
    ink.stroke();
    ink.setLineDash([]);
    const about = this.model.about(pair);
    if (about) this.ends(ink, about, base);
    if (count > 1 && (lit || among <= BLENDED)) {
      ink.font = "600 11px system-ui, sans-serif";
      ink.textAlign = "center";
      const text = `×${count}`;
      const room = ink.measureText(text).width + 6;
      ink.fillStyle = colour("surface");
      const foot = Math.max(base - height - 3, 11);
      ink.fillRect(centre - room / 2, foot - 10, room, 12);
      ink.fillStyle = colour("ink");
      ink.fillText(text, centre, foot);
    }
    ink.globalAlpha = 1;
  }

  /** Where the ends of a pair may be. @param {CanvasRenderingContext2D} ink @param {import("./types.js").About} about @param {number} base */
  ends(ink, [p, pLast, q, qLast], base) {
    for (const [first, last, name] of /** @type {[number, number, string][]} */ ([[p, pLast, "p"], [q, qLast, "q"]])) {
      if (first === last) continue;
      ink.fillStyle = colour(name);
      ink.fillRect(this.x(first) - 2, base - 4, this.x(last) - this.x(first) + 4, 4);
    }
  }

  /** A step that needs a memory, of what is not known. @param {CanvasRenderingContext2D} ink @param {number} x @param {number} base */
  deciding(ink, x, base) {
    ink.fillStyle = colour("suggested");
    ink.beginPath();
    ink.moveTo(x, base - 2);
    ink.lineTo(x - 5, base - 12);
    ink.lineTo(x + 5, base - 12);
    ink.fill();
  }

  /** @param {CanvasRenderingContext2D} ink @param {number} width @param {number} base */
  axis(ink, width, base) {
    const [from, to] = this.model.view;
    const every = tickDistance(to - from, Math.max(2, width / 70));
    const fine = tickDistance(to - from, width / 5);
    ink.strokeStyle = colour("line");
    ink.fillStyle = colour("quiet");
    ink.lineWidth = 1;
    ink.font = "11px system-ui, sans-serif";
    ink.beginPath();
    ink.moveTo(0, base + 0.5);
    ink.lineTo(width, base + 0.5);
    for (let step = Math.ceil(from / fine) * fine; step < Math.min(to, this.model.length); step += fine) {
      const x = this.x(step);
      const labelled = step % every === 0;
      ink.moveTo(x, base);
      ink.lineTo(x, base + (labelled ? 5 : 2.5));
      if (!labelled) continue;
      const half = ink.measureText(String(step)).width / 2;
      ink.textAlign = x < half ? "left" : x > width - half ? "right" : "center";
      ink.fillText(String(step), x < half ? 0 : x > width - half ? width : x, base + 16);
    }
    ink.stroke();
  }
}

/** @param {Shown | null} a @param {Shown | null} b */
export function same(a, b) {
  return a === b || (a !== null && b !== null && a.p === b.p && a.q === b.q && a.suggested === b.suggested);
}
