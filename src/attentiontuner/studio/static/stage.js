// The two large views: the step that was recalled and the step that used it.

import { showSprite } from "./sprites.js";

/** @typedef {import("./model.js").Model} Model */

const SETTLE = 70; // milliseconds the mouse rests on a step before its sharp picture is fetched

export class Stage {
  /** @param {HTMLElement} viewP @param {HTMLElement} viewQ @param {Model} model */
  constructor(viewP, viewQ, model) {
    this.model = model;
    this.views = { p: new View(viewP), q: new View(viewQ) };
    this.url = "";
  }

  /** @param {string} url of the sprite sheets */
  build(url) {
    this.url = url;
    for (const view of Object.values(this.views)) view.forget();
  }

  draw() {
    const { model } = this;
    if (!model.episode) return;
    const pair = model.hoverPair ?? (model.hoverStep === null ? model.selected : null);
    let p = pair ? pair.p : model.p;
    let q = pair ? pair.q : model.q;
    if (!pair && model.awaiting === "p" && p === null) p = model.looking;
    if (!pair && model.awaiting === "q" && (q === null || model.hoverStep !== null)) q = model.looking;
    this.show("p", p, model.p !== null && p === model.p, "Choose the step that was recalled");
    this.show("q", q, model.q !== null && q === model.q, "Then the step that used it");
  }

  /** @param {"p" | "q"} which @param {number | null} step @param {boolean} held @param {string} invitation */
  show(which, step, held, invitation) {
    const { model } = this;
    const view = this.views[which];
    view.root.classList.toggle("held", held);
    const span = held ? model.spans[which] : null;
    if (step === null) {
      view.empty(invitation);
      return;
    }
    const { episode } = model.demo;
    const sharp = model.data.kind === "grid" ? `/api/episodes/${episode}/frames/${step}.png?${model.data.launch}` : null;
    view.fill(step, span, model.action(step), which, () => showSprite(view.picture, this.url, model.data.launch, model.demo.sprites, step), sharp);
  }
}

class View {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.picture = /** @type {HTMLElement} */ (root.querySelector(".picture"));
    this.where = /** @type {HTMLElement} */ (root.querySelector(".where"));
    this.what = /** @type {HTMLElement} */ (root.querySelector(".what"));
    /** @type {number | null} */ this.step = null;
    this.timer = 0;
  }

  forget() {
    this.step = null;
    this.picture.replaceChildren();
  }

  /** @param {string} invitation */
  empty(invitation) {
    this.step = null;
    clearTimeout(this.timer);
    this.picture.className = "picture empty";
    this.picture.setAttribute("aria-label", invitation);
    this.picture.textContent = invitation;
    this.where.textContent = "–";
    this.what.textContent = "";
  }

  /** @param {number} step @param {[number, number] | null} span @param {string} action @param {"p" | "q"} which @param {() => void} sprite @param {string | null} sharp */
  fill(step, span, action, which, sprite, sharp) {
    this.where.textContent = span ? `somewhere in ${span[0]}~${span[1]}` : `step ${step}`;
    if (this.step === step) return;
    this.step = step;
    this.picture.className = sharp ? "picture" : "picture crisp";
    this.picture.replaceChildren();
    this.picture.setAttribute("aria-label", `Step ${step}, then ${action}`);
    sprite();
    this.what.textContent = which === "q" ? action : `then ${action}`;
    this.what.title = which === "q" ? `The action taken at step ${step}` : "";
    clearTimeout(this.timer);
    if (sharp) this.timer = setTimeout(() => this.sharpen(step, sharp), SETTLE);
  }

  /** @param {number} step @param {string} url */
  sharpen(step, url) {
    const image = new Image();
    image.alt = "";
    image.addEventListener("load", () => {
      if (this.step === step) this.picture.replaceChildren(image);
    });
    image.src = url;
  }
}
