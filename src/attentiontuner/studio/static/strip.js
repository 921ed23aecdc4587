// All steps of the demonstration as thumbnails: picking, dragging, hovering. Only those in view are in the page.

import { showSprite } from "./sprites.js";

/** @typedef {import("./model.js").Model} Model */

const GAP = 4;
const SMALLEST = 38;
const LARGEST = 128;
const ZOOMED = 300; // pixels; zooming makes thumbnails no larger
const AHEAD = 2; // rows above and below the view that are there too
const EDGE = 26; // pixels from the upper and lower edge where a drag scrolls

export class Strip {
  /**
   * @param {HTMLElement} root
   * @param {Model} model
   * @param {{pick: (step: number, fresh: boolean) => void, range: (first: number, last: number) => void,
   *          changed: () => void}} on
   */
  constructor(root, model, on) {
    this.root = root;
    this.model = model;
    this.on = on;
    this.sheet = /** @type {HTMLElement} */ (root.querySelector(".sheet"));
    /** @type {Map<number, HTMLButtonElement>} by step, those that are in the page */
    this.steps = new Map();
    this.size = LARGEST;
    this.perRow = 1;
    this.base = "";
    this.zoom = 0;
    /** @type {number | null} where a drag began */
    this.from = null;
    this.pointerY = 0;
    this.scrolling = 0;
    new ResizeObserver(() => this.fit()).observe(root);
    root.addEventListener("scroll", () => this.fill(), { passive: true });
    root.addEventListener("pointerdown", (event) => this.press(event));
    root.addEventListener("pointermove", (event) => this.hover(event));
    root.addEventListener("pointerleave", () => this.leave());
    addEventListener("pointermove", (event) => (this.pointerY = event.clientY), { passive: true });
    addEventListener("pointerup", (event) => this.release(event));
    addEventListener("pointercancel", () => this.abandon());
    // A press of Space on a focused thumbnail arrives as a click without a pointer.
    root.addEventListener("click", (event) => {
      const step = this.stepAt(event);
      if (event.detail === 0 && step !== null) on.pick(step, event.shiftKey);
    });
  }

  /** Begin anew for the demonstration that was opened. @param {string} base address of its sprite sheets */
  build(base) {
    this.base = base;
    this.sheet.replaceChildren();
    this.steps.clear();
    this.root.scrollTop = 0;
    this.abandon();
    this.fit();
  }

  /** The largest thumbnails with which all steps are seen at once; larger where the person zooms in. */
  fit() {
    const { clientWidth, clientHeight } = this.root;
    const { length } = this.model;
    let size = LARGEST;
    while (size > SMALLEST && Math.ceil(length / this.columns(clientWidth, size)) * (size + GAP) + GAP > clientHeight) size -= 1;
    this.zoom = this.model.zoom;
    this.size = Math.max(size, Math.min(ZOOMED, clientWidth - 2 * GAP, Math.round(size * 1.4 ** this.zoom)));
    this.perRow = this.columns(clientWidth, this.size);
    this.root.style.setProperty("--thumb", `${this.size}px`);
    this.sheet.style.height = `${Math.ceil(length / this.perRow) * (this.size + GAP) + GAP}px`;
    for (const [step, button] of this.steps) this.place(button, step);
    this.fill();
  }

  /** @param {number} width @param {number} size */
  columns(width, size) {
    return Math.max(1, Math.floor((width - GAP) / (size + GAP)));
  }

  /** Have the thumbnails in the page that are in view, and the cursor's, and no others. */
  fill() {
    const { model, root } = this;
    if (!model.episode) return;
    const height = this.size + GAP;
    const first = Math.max(0, Math.floor(root.scrollTop / height) - AHEAD) * this.perRow;
    const end = Math.min(model.length, (Math.ceil((root.scrollTop + root.clientHeight) / height) + AHEAD) * this.perRow);
    const wanted = (/** @type {number} */ step) => (step >= first && step < end) || step === model.cursor;
    for (const [step, button] of this.steps) {
      if (wanted(step)) continue;
      button.remove();
      this.steps.delete(step);
    }
    const fresh = [];
    for (let step = first; step < end; step++) if (!this.steps.has(step)) fresh.push(this.make(step));
    if (!this.steps.has(model.cursor)) fresh.push(this.make(model.cursor));
    if (!fresh.length) return;
    this.sheet.append(...fresh);
    this.draw();
  }

  /** @param {number} step */
  make(step) {
    const { demo, data } = this.model;
    const button = document.createElement("button");
    button.className = "step";
    button.dataset.step = String(step);
    button.tabIndex = -1;
    showSprite(button, this.base, data.launch, demo.sprites, step);
    button.innerHTML = '<span class="marks"><i class="s"></i><i class="p"></i><i class="q"></i></span>';
    const number = document.createElement("span");
    number.className = "number";
    number.textContent = String(step);
    button.append(number);
    this.place(button, step);
    this.steps.set(step, button);
    return button;
  }

  /** @param {HTMLElement} button @param {number} step */
  place(button, step) {
    button.style.left = `${GAP + (step % this.perRow) * (this.size + GAP)}px`;
    button.style.top = `${GAP + Math.floor(step / this.perRow) * (this.size + GAP)}px`;
  }

  /** @param {Event} event @returns {number | null} */
  stepAt(event) {
    const under =
      event instanceof PointerEvent && event.pointerType ? document.elementFromPoint(event.clientX, event.clientY) : event.target;
    const button = under instanceof Element ? under.closest(".step") : null;
    return button instanceof HTMLElement && this.root.contains(button) ? Number(button.dataset.step) : null;
  }

  /** @param {PointerEvent} event */
  press(event) {
    const step = this.stepAt(event);
    if (event.button !== 0 || step === null) return;
    this.from = step;
    if (event.pointerType === "mouse") this.scrolling = window.setInterval(() => this.scrollAlong(event.clientX), 30);
  }

  /** While a drag is at the upper or lower edge, the steps beyond come into view and into the range. @param {number} x */
  scrollAlong(x) {
    const box = this.root.getBoundingClientRect();
    const beyond = this.pointerY < box.top + EDGE ? this.pointerY - box.top - EDGE : this.pointerY > box.bottom - EDGE ? this.pointerY - box.bottom + EDGE : 0;
    if (!beyond || this.from === null) return;
    const before = this.root.scrollTop;
    this.root.scrollTop += Math.max(-60, Math.min(60, beyond));
    if (this.root.scrollTop === before) return;
    const row = Math.floor((this.root.scrollTop + (beyond < 0 ? 0 : this.root.clientHeight - GAP)) / (this.size + GAP));
    const column = Math.min(this.perRow - 1, Math.max(0, Math.floor((x - box.left) / (this.size + GAP))));
    this.stretchTo(Math.min(this.model.length - 1, Math.max(0, row * this.perRow + column)));
  }

  /** The drag has come to a step. @param {number | null} step */
  stretchTo(step) {
    const { model } = this;
    const range = this.from !== null && step !== null && step !== this.from ? /** @type {[number, number]} */ ([Math.min(this.from, step), Math.max(this.from, step)]) : null;
    const held = model.somewhere || (model.keep === "q" ? model.q : model.p) !== null;
    const shown = model.anchor !== null ? model.range : held ? range : null;
    if (model.hoverStep === step && String(model.range) === String(shown)) return;
    model.hoverStep = step;
    model.range = shown;
    this.on.changed();
  }

  /** @param {PointerEvent} event */
  hover(event) {
    if (event.pointerType === "touch") return; // a finger scrolls; it hovers nowhere
    this.stretchTo(this.stepAt(event));
  }

  leave() {
    this.model.hoverStep = null;
    this.on.changed();
  }

  /** @param {PointerEvent} event */
  release(event) {
    if (this.from === null) return;
    const { model } = this;
    const [from, range] = [this.from, model.anchor === null ? model.range : null];
    this.abandon();
    if (range) this.on.range(range[0], range[1]);
    else if (this.stepAt(event) === from) this.on.pick(from, event.shiftKey);
    this.on.changed();
  }

  /** A drag ends without effect. */
  abandon() {
    this.from = null;
    if (this.model.anchor === null) this.model.range = null;
    clearInterval(this.scrolling);
  }

  /** Show marks, links and the cursor. */
  draw() {
    const { model } = this;
    if (!model.episode) return;
    if (this.zoom !== model.zoom) {
      this.fit();
      this.follow(false);
    }
    const { recalledAt, recalls, suggestedSteps, reasons } = model.facts;
    const linked = this.linked(recalledAt, recalls);
    const [pSpan, qSpan] = [model.spans.p, model.spans.q];
    for (const [step, button] of this.steps) {
      const classes = ["step"];
      if (recalledAt.has(step)) classes.push("recalled");
      if (recalls.has(step)) classes.push("recalls");
      if (suggestedSteps.has(step)) classes.push("suggested");
      if (linked.has(step)) classes.push("linked");
      if (step === model.cursor) classes.push("cursor");
      if (model.range && step >= model.range[0] && step <= model.range[1]) classes.push("range");
      if (step === model.p || (pSpan && step >= pSpan[0] && step <= pSpan[1])) classes.push("is-p");
      if (step === model.q || (qSpan && step >= qSpan[0] && step <= qSpan[1])) classes.push("is-q");
      if (this.impossible(step)) classes.push("faded");
      const wanted = classes.join(" ");
      if (button.className !== wanted) button.className = wanted;
      button.tabIndex = step === model.cursor ? 0 : -1;
      const label = this.label(step, recalledAt.get(step), recalls.get(step), reasons.get(step));
      if (button.getAttribute("aria-label") !== label) button.setAttribute("aria-label", label);
    }
  }

  /** Steps that belong to what is under the mouse. @param {Map<number, number[]>} recalledAt @param {Map<number, number[]>} recalls */
  linked(recalledAt, recalls) {
    const { model } = this;
    const pair = model.hoverPair ?? model.selected;
    if (pair) return new Set([pair.p, pair.q]);
    if (model.hoverStep === null) return new Set();
    return new Set([...(recalledAt.get(model.hoverStep) ?? []), ...(recalls.get(model.hoverStep) ?? [])]);
  }

  /** Whether the step cannot be the other end of what is kept. @param {number} step */
  impossible(step) {
    const { keep, p, q } = this.model;
    return keep === "q" ? q !== null && step > q : p !== null && step < p;
  }

  /** @param {number} step @param {number[]} [at] @param {number[]} [from] @param {string} [reason] why it may need a memory */
  label(step, at, from, reason) {
    const parts = [`Step ${step}, action ${this.model.action(step)}`];
    if (step === this.model.p) parts.push("marked as recalled");
    if (step === this.model.q) parts.push("marked as deciding");
    if (at) parts.push(`recalled at ${listed(at)}`);
    if (from) parts.push(`recalls ${listed(from)}`);
    if (reason) parts.push(`suggested as deciding: ${reason}`);
    return parts.join("; ");
  }

  /** Bring the cursor into view and, if wanted, give it the focus, so that the keyboard goes on from there. @param {boolean} [focus] */
  follow(focus = true) {
    const { root, size } = this;
    const top = Math.floor(this.model.cursor / this.perRow) * (size + GAP);
    if (top < root.scrollTop) root.scrollTop = top;
    else if (top + size + 2 * GAP > root.scrollTop + root.clientHeight) root.scrollTop = top + size + 2 * GAP - root.clientHeight;
    this.fill();
    const button = this.steps.get(this.model.cursor);
    if (!button || !focus) return;
    button.tabIndex = 0;
    button.focus({ preventScroll: true });
  }
}

/** @param {number[]} steps */
function listed(steps) {
  return steps.length > 8 ? `${steps.slice(0, 8).join(", ")} and ${steps.length - 8} more` : steps.join(", ");
}
