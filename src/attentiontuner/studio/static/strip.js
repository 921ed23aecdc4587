// All steps of the demonstration as thumbnails from one sprite sheet: picking, dragging, hovering.

import { showSprite } from "./sprites.js";

/** @typedef {import("./model.js").Model} Model */

const GAP = 4;
const SMALLEST = 38;
const LARGEST = 128;

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
    /** @type {HTMLButtonElement[]} */
    this.steps = [];
    /** @type {number | null} where a drag began */
    this.from = null;
    new ResizeObserver(() => this.fit()).observe(root);
    root.addEventListener("pointerdown", (event) => this.press(event));
    root.addEventListener("pointermove", (event) => this.hover(event));
    root.addEventListener("pointerleave", () => this.leave());
    addEventListener("pointerup", (event) => this.release(event));
    // A press of Space on a focused thumbnail arrives as a click without a pointer.
    root.addEventListener("click", (event) => {
      const step = this.stepAt(event);
      if (event.detail === 0 && step !== null) on.pick(step, event.shiftKey);
    });
  }

  /** Make the thumbnails of the demonstration that was opened. @param {string} url of the sprite sheet */
  build(url) {
    const { demo } = this.model;
    this.steps = demo.steps.map((_, step) => {
      const button = document.createElement("button");
      button.className = "step";
      button.dataset.step = String(step);
      button.tabIndex = -1;
      showSprite(button, url, demo.sprites, step);
      button.innerHTML = '<span class="marks"><i class="s"></i><i class="p"></i><i class="q"></i></span>';
      const number = document.createElement("span");
      number.className = "number";
      number.textContent = String(step);
      button.append(number);
      return button;
    });
    this.root.replaceChildren(...this.steps);
    this.fit();
  }

  /** The largest thumbnails with which all steps are seen at once. */
  fit() {
    const { clientWidth, clientHeight } = this.root;
    let size = LARGEST;
    while (size > SMALLEST && Math.ceil(this.steps.length / this.columns(clientWidth, size)) * (size + GAP) + GAP > clientHeight) size -= 1;
    this.root.style.setProperty("--thumb", `${size}px`);
    this.perRow = this.columns(clientWidth, size);
  }

  /** @param {number} width @param {number} size */
  columns(width, size) {
    return Math.max(1, Math.floor((width - GAP) / (size + GAP)));
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
  }

  /** @param {PointerEvent} event */
  hover(event) {
    const step = this.stepAt(event);
    const { model } = this;
    const range = this.from !== null && step !== null && step !== this.from ? /** @type {[number, number]} */ ([Math.min(this.from, step), Math.max(this.from, step)]) : null;
    const held = model.keep === "q" ? model.q : model.p;
    const shownRange = held === null ? null : range;
    if (model.hoverStep === step && String(model.range) === String(shownRange)) return;
    model.hoverStep = step;
    model.range = shownRange;
    this.on.changed();
  }

  leave() {
    this.model.hoverStep = null;
    this.on.changed();
  }

  /** @param {PointerEvent} event */
  release(event) {
    if (this.from === null) return;
    const { model } = this;
    const [from, range] = [this.from, model.range];
    this.from = null;
    model.range = null;
    if (range) this.on.range(range[0], range[1]);
    else if (this.stepAt(event) === from) this.on.pick(from, event.shiftKey);
    this.on.changed();
  }

  /** Show marks, links and the cursor. */
  draw() {
    const { model } = this;
    if (!model.episode) return;
    const recalledAt = groupBy(model.state.pairs, 0, 1);
    const recalls = groupBy(model.state.pairs, 1, 0);
    const suggested = new Set(model.openSuggestions.flatMap(({ p, q }) => [p, q]));
    const linked = this.linked(recalledAt, recalls);
    this.steps.forEach((button, step) => {
      const classes = ["step"];
      if (recalledAt.has(step)) classes.push("recalled");
      if (recalls.has(step)) classes.push("recalls");
      if (suggested.has(step)) classes.push("suggested");
      if (linked.has(step)) classes.push("linked");
      if (step === model.cursor) classes.push("cursor");
      if (model.range && step >= model.range[0] && step <= model.range[1]) classes.push("range");
      if (step === model.p) classes.push("is-p");
      if (step === model.q) classes.push("is-q");
      if (this.impossible(step)) classes.push("faded");
      const wanted = classes.join(" ");
      if (button.className !== wanted) button.className = wanted;
      button.tabIndex = step === model.cursor ? 0 : -1;
      const label = this.label(step, recalledAt.get(step), recalls.get(step));
      if (button.getAttribute("aria-label") !== label) button.setAttribute("aria-label", label);
    });
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

  /** @param {number} step @param {number[]} [at] @param {number[]} [from] */
  label(step, at, from) {
    const parts = [`Step ${step}, action ${this.model.action(step)}`];
    if (at) parts.push(`recalled at ${listed(at)}`);
    if (from) parts.push(`recalls ${listed(from)}`);
    return parts.join("; ");
  }

  /** Bring the cursor into view and give it the focus, so that the keyboard goes on from there. */
  follow() {
    const button = this.steps[this.model.cursor];
    if (!button) return;
    button.tabIndex = 0;
    button.focus({ preventScroll: true });
    button.scrollIntoView({ block: "nearest" });
  }
}

/** @param {number[]} steps */
function listed(steps) {
  return steps.length > 8 ? `${steps.slice(0, 8).join(", ")} and ${steps.length - 8} more` : steps.join(", ");
}

/** @param {number[][]} rows @param {number} key @param {number} value @returns {Map<number, number[]>} */
function groupBy(rows, key, value) {
  const groups = new Map();
  for (const row of rows) {
    if (!groups.has(row[key])) groups.set(row[key], []);
    groups.get(row[key]).push(row[value]);
  }
  return groups;
}
