// The list of the pairs that are marked: to read, to select, to remove.

import { byId, make } from "./dom.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./model.js").Shown} Shown
 * @typedef {import("./types.js").Block} Block
 * @typedef {import("./types.js").Edit} Edit
 */

const LISTED = 200; // rows; more would only be scrolled past

export class Listing {
  /** @param {Model} model @param {{change: (edit: Edit) => void, changed: () => void, choose: (pair: Shown) => void, next: (direction: number) => void}} on */
  constructor(model, on) {
    this.model = model;
    this.on = on;
    this.list = byId("pair-list");
    /** @type {unknown[]} */ this.drawn = [];
    steerWithArrows(this.list, on.next);
  }

  draw() {
    const { model } = this;
    if (!model.episode) return;
    const { pairs, about, origins } = model.state;
    if (pairs !== this.drawn[0] || about !== this.drawn[1] || origins !== this.drawn[2]) {
      this.drawn = [pairs, about, origins];
      const runs = runsOf(model);
      const rows = runs.slice(0, LISTED).map((run) => this.row(run));
      if (runs.length > LISTED) rows.push(make("li", { class: "none" }, `and ${runs.length - LISTED} more rows`));
      this.list.replaceChildren(...rows);
      this.list.hidden = !runs.length;
    }
    const shown = model.hoverPair ?? model.selected;
    for (const row of /** @type {Iterable<HTMLElement>} */ (this.list.children)) {
      const [p, pLast, q] = (row.dataset.run ?? "-1,-1,-1").split(",").map(Number);
      const linked = !!shown && !shown.suggested && shown.q === q && shown.p >= p && shown.p <= pLast;
      if (linked && !row.classList.contains("linked")) row.scrollIntoView({ block: "nearest" });
      row.classList.toggle("linked", linked);
    }
  }

  /** @param {Block} run */
  row(run) {
    const [p, pLast, q] = run;
    const pair = { p, q, suggested: false };
    const text = p === pLast ? this.model.words(pair) : `${p}–${pLast} → ${q}`;
    const origin = this.model.origin(p, q);
    const choose = make("button", { class: "pair", tabindex: "-1" }, text);
    const remove = make("button", { tabindex: "-1", "aria-label": `Remove ${text}`, title: "Remove" }, "✕");
    const row = make("li", { "data-run": `${p},${pLast},${q}` }, choose);
    const why = this.model.why(p, q);
    if (origin) row.append(make("span", { class: "origin", title: `Suggested by ${this.model.sourceTitle(origin)}${why && ": "}${why}` }, "suggested"));
    row.append(remove);
    choose.addEventListener("click", () => this.on.choose(pair));
    remove.addEventListener("click", () => this.on.change({ kind: "remove", blocks: [run] }));
    row.addEventListener("pointerenter", () => this.hover(pair));
    row.addEventListener("pointerleave", () => this.hover(null));
    return row;
  }

  /** @param {Shown | null} pair */
  hover(pair) {
    this.model.hoverPair = pair;
    this.on.changed();
  }
}

/** A list is one stop of Tab: inside it the arrows select. @param {HTMLElement} list @param {(direction: number) => void} next */
export function steerWithArrows(list, next) {
  list.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    event.stopPropagation();
    next(event.key === "ArrowDown" ? 1 : -1);
  });
}

/** Pairs as few rows: neighbouring p at one q that count once and are known are one. @param {Model} model @returns {Block[]} */
function runsOf(model) {
  /** @type {Block[]} */ const runs = [];
  let plain = false;
  for (const [p, q, count] of model.state.pairs) {
    const alike = count === 1 && !model.about({ p, q, suggested: false }) && !model.origin(p, q);
    const last = runs[runs.length - 1];
    if (plain && alike && last[2] === q && last[1] === p - 1) last[1] = p;
    else runs.push([p, p, q, q]);
    plain = alike;
  }
  return runs;
}
