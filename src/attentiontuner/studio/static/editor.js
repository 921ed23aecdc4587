// What picking, marking and the keys do: from the model to edits.

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./model.js").Shown} Shown
 * @typedef {import("./types.js").Edit} Edit
 * @typedef {import("./types.js").Pair} Pair
 */

export class Editor {
  /**
   * @param {Model} model
   * @param {{change: (edit: Edit) => void, changed: () => void, say: (text: string) => void,
   *          accept: (pairs: Pair[]) => void, reject: (pairs: Pair[]) => void}} on
   */
  constructor(model, on) {
    this.model = model;
    this.on = on;
  }

  /** A thumbnail was clicked. @param {number} step @param {boolean} fresh choose a new step to keep */
  pick(step, fresh) {
    const { model } = this;
    model.cursor = step;
    model.selected = null;
    if (model.keep === "q" || (model.p === null && model.q !== null)) {
      if (fresh || model.q === null || step > model.q) [model.p, model.q] = [null, step];
      else if (step === model.q) model.q = null;
      else this.toggle(step, model.q);
    } else if (fresh || model.p === null || step < model.p) [model.p, model.q] = [step, null];
    else if (step === model.p) model.p = null;
    else this.toggle(model.p, step);
    this.on.changed();
  }

  /** Steps were dragged over: all of them are paired with the step that is kept. @param {number} first @param {number} last */
  range(first, last) {
    const { model } = this;
    const steps = Array.from({ length: last - first + 1 }, (_, index) => first + index);
    /** @type {Pair[]} */
    let pairs = [];
    if (model.keep === "q" && model.q !== null) {
      const q = model.q;
      pairs = steps.filter((step) => step < q).map((step) => [step, q]);
    } else if (model.keep !== "q" && model.p !== null) {
      const p = model.p;
      pairs = steps.filter((step) => step > p).map((step) => [p, step]);
    }
    if (pairs.length) this.add(pairs);
    else this.on.say("Choose the step that was recalled first; then drag over those that used it.");
  }

  /** @param {number} p @param {number} q */
  toggle(p, q) {
    if (this.model.multiplicity(p, q)) this.on.change({ kind: "remove", pairs: [[p, q]] });
    else this.add([[p, q]]);
  }

  /** @param {Pair[]} pairs */
  add(pairs) {
    this.model.added.push(...pairs);
    this.on.change({ kind: "add", pairs });
    this.model.afterAdding();
  }

  /** @param {"p" | "q"} end mark the step that is looked at */
  mark(end) {
    this.model[end] = this.model.cursor = this.model.looking;
    this.model.hoverStep = null;
    this.model.selected = null;
    this.on.changed();
  }

  /** Enter: accept the selected suggestion, or add what is marked. */
  enter() {
    const { model, on } = this;
    const pair = model.candidate;
    const next = this.nextSuggestion();
    if (model.selected?.suggested) on.accept([[model.selected.p, model.selected.q]]);
    else if (pair && model.multiplicity(...pair)) on.say(`${pair[0]} → ${pair[1]} is marked already; Delete removes it.`);
    else if (pair) this.add([pair]);
    else if (model.p === null && model.q === null) on.say("Mark the step that was recalled with P first.");
    else on.say("The recalled step p must lie before q.");
    this.goOn(next);
  }

  /** Delete: what is selected, or the pair that is marked. */
  remove() {
    const { model, on } = this;
    const pair = model.candidate;
    const next = this.nextSuggestion();
    if (model.selected?.suggested) on.reject([[model.selected.p, model.selected.q]]);
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

  /** R: one more pair at the same distance as the last two. */
  repeat() {
    const next = this.model.repeated;
    if (typeof next === "string") return this.on.say(next);
    this.model.cursor = next[1];
    this.model.hoverStep = null;
    this.add([next]);
    this.on.changed();
  }

  /** @param {number} change to how often the selected pair counts */
  count(change) {
    const pair = this.model.selected;
    if (!pair || pair.suggested) return this.on.say("Select a pair first: click its arc, or press [ or ].");
    const multiplicity = this.model.multiplicity(pair.p, pair.q) + change;
    if (multiplicity >= 1 && multiplicity <= 99) this.on.change({ kind: "count", pairs: [[pair.p, pair.q]], multiplicity });
  }

  /** @param {number} direction select the next or the previous pair or open suggestion */
  selectNext(direction) {
    const { model } = this;
    /** @type {Shown[]} */
    const all = [
      ...model.state.pairs.map(([p, q]) => ({ p, q, suggested: false })),
      ...model.openSuggestions.map(({ p, q }) => ({ p, q, suggested: true })),
    ].sort((a, b) => a.q - b.q || a.p - b.p);
    if (!all.length) return this.on.say("There is no pair yet.");
    const now = all.findIndex(({ p, q }) => p === model.selected?.p && q === model.selected?.q);
    this.choose(all[now < 0 ? (direction > 0 ? 0 : all.length - 1) : (now + direction + all.length) % all.length]);
  }

  /** @param {Shown} pair */
  choose(pair) {
    this.model.selected = pair;
    this.model.cursor = pair.q;
    this.model.hoverStep = null;
    this.on.changed();
  }

  /** A cell of E without a pair was clicked: both ends are marked, Enter adds. @param {number} p @param {number} q */
  markBoth(p, q) {
    [this.model.p, this.model.q, this.model.cursor, this.model.selected] = [p, q, q, null];
    this.model.hoverStep = null;
    this.on.changed();
  }

  /** @param {number} step */
  look(step) {
    this.model.cursor = Math.min(Math.max(step, 0), this.model.length - 1);
    this.model.hoverStep = null;
    this.model.selected = null;
    this.on.changed();
  }

  release() {
    this.model.p = this.model.q = this.model.selected = null;
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
