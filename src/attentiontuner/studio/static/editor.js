// What picking, marking and the keys do: from the model to edits.

import { Marking } from "./marking.js";

/**
 * @typedef {import("./model.js").Shown} Shown
 * @typedef {import("./types.js").Pair} Pair
 */

export class Editor extends Marking {
  /** A thumbnail was clicked. @param {number} step @param {boolean} fresh choose a new step to keep */
  pick(step, fresh) {
    const { model } = this;
    if (model.anchor !== null) return this.look(step); // the range reaches to there
    model.cursor = step;
    model.selected = null;
    if (model.keep === "q" || (model.p === null && model.q !== null)) {
      if (fresh || model.q === null || step > model.q) this.hold(null, step);
      else if (step === model.q) this.hold(model.p, null);
      else this.toggle(step, model.q);
    } else if (fresh || model.p === null || step < model.p) this.hold(step, null);
    else if (step === model.p) this.hold(null, model.q);
    else this.toggle(model.p, step);
    this.on.changed();
  }

  /** @param {"p" | "q"} end mark the step that is looked at */
  mark(end) {
    this.model[end] = this.model.cursor = this.model.looking;
    this.model.spans[end] = null;
    this.model.hoverStep = this.model.selected = null;
    this.on.changed();
  }

  /** Enter: the range, the selected suggestion, or what is marked. */
  enter() {
    const { model, on } = this;
    if (model.anchor !== null && model.range) return this.range(...model.range);
    const pair = model.candidate;
    const next = this.nextSuggestion();
    if (model.selected?.suggested) on.accept([[model.selected.p, model.selected.q]]);
    else if (pair && model.multiplicity(...pair)) on.say(`${pair[0]} → ${pair[1]} is marked already; Delete removes it.`);
    else if (pair) this.toggle(...pair);
    else if (model.p === null && model.q === null) on.say("Mark the step that was recalled with P first.");
    else on.say("The recalled step p must lie before q.");
    this.goOn(next);
  }

  /** Delete: the range, what is selected, or the pair that is marked. */
  remove() {
    const { model, on } = this;
    const pair = model.candidate;
    const next = this.nextSuggestion();
    if (model.anchor !== null && model.range) this.removeRange(...model.range);
    else if (model.selected?.suggested) on.reject([[model.selected.p, model.selected.q]]);
    else if (model.selected) on.change({ kind: "remove", pairs: [[model.selected.p, model.selected.q]] });
    else if (pair && model.multiplicity(...pair)) on.change({ kind: "remove", pairs: [pair] });
    else on.say("Select a pair first: click its arc, or press [ or ].");
    this.goOn(next);
  }

  /** The open suggestion after the selected one, if one is selected. @returns {Shown | null} */
  nextSuggestion() {
    const { selected, openSuggestions } = this.model;
    if (!selected?.suggested) return null;
    const now = openSuggestions.findIndex(({ p, q }) => p === selected.p && q === selected.q);
    const next = openSuggestions[now + 1];
    return next ? { p: next.p, q: next.q, suggested: true } : null;
  }

  /** Select what comes next, or nothing. @param {Shown | null} next */
  goOn(next) {
    this.model.selected = null;
    if (next) this.choose(next);
    else this.on.changed();
  }

  /** R: one more pair at the same distance as the last two; with Shift as many as there are. @param {boolean} all */
  repeat(all) {
    const { model } = this;
    const before = model.added.length;
    /** @type {Pair[]} */ const pairs = [];
    let next = model.repeated;
    while (typeof next !== "string") {
      pairs.push(next);
      model.added.push(next);
      next = all ? model.repeated : "";
    }
    model.added.length = before;
    if (!pairs.length) return this.on.say(String(next));
    [model.cursor, model.hoverStep] = [pairs[pairs.length - 1][1], null];
    this.add(pairs);
    this.on.changed();
  }

  /** @param {number} change to how often the selected pair, or the one added last, counts */
  count(change) {
    const { model } = this;
    const last = model.added.at(-1);
    const pair = model.selected ?? (last && model.multiplicity(...last) ? { p: last[0], q: last[1], suggested: false } : null);
    if (!pair || pair.suggested) return this.on.say("Select a pair first: click its arc, or press [ or ].");
    const multiplicity = model.multiplicity(pair.p, pair.q) + change;
    if (multiplicity < 1 || multiplicity > 99) return;
    this.on.change({ kind: "count", pairs: [[pair.p, pair.q]], multiplicity });
    this.on.say(`${pair.p} → ${pair.q} counts ×${multiplicity}.`);
  }

  /** @param {number} direction select the next or the previous pair or open suggestion */
  selectNext(direction) {
    const { model } = this;
    const all = [
      ...model.state.pairs.map(([p, q]) => ({ p, q, suggested: false })),
      ...model.openSuggestions.map(({ p, q }) => ({ p, q, suggested: true })),
      ...model.undecided.map(({ q }) => ({ p: null, q, suggested: true })),
    ].sort((a, b) => a.q - b.q || (a.p ?? -1) - (b.p ?? -1));
    const { chosen } = model;
    if (!all.length) return this.on.say("There is no pair yet.");
    const now = all.findIndex(({ p, q }) => p === chosen?.p && q === chosen?.q);
    this.choose(all[now < 0 ? (direction > 0 ? 0 : all.length - 1) : (now + direction + all.length) % all.length]);
  }

  /** Select a pair; a deciding step without one is marked. @param {{p: number | null, q: number, suggested?: boolean}} pair */
  choose({ p, q, suggested = true }) {
    const { model } = this;
    if (p === null) this.hold(null, q);
    else if (model.chosen?.p === null && model.undecided.some((one) => one.q === model.q)) this.hold(null, null);
    this.model.selected = p === null ? null : { p, q, suggested };
    this.model.cursor = q;
    this.model.hoverStep = null;
    this.on.changed();
  }

  /** A cell of E without a pair was clicked: both ends are marked, Enter adds. @param {number} p @param {number} q */
  markBoth(p, q) {
    this.hold(p, q);
    [this.model.cursor, this.model.selected, this.model.hoverStep] = [q, null, null];
    this.on.changed();
  }

  /** @param {number} step */
  look(step) {
    const { model } = this;
    model.cursor = Math.min(Math.max(step, 0), model.length - 1);
    model.hoverStep = model.selected = null;
    if (model.anchor !== null) model.range = [Math.min(model.anchor, model.cursor), Math.max(model.anchor, model.cursor)];
    this.on.changed();
  }

  release() {
    this.model.letGo();
    this.on.changed();
  }

  cycleKeep() {
    const order = /** @type {const} */ (["p", "q", "none"]);
    this.setKeep(order[(order.indexOf(this.model.keep) + 1) % order.length]);
  }

  /** @param {import("./model.js").Keep} keep */
  setKeep(keep) {
    this.model.keep = keep;
    localStorage.setItem("studio.keep", keep);
    this.release();
  }
}
