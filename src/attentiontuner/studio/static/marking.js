// How steps become pairs: one at a time, ranges of them, those that look alike, and intervals.

import { inside, sizeOf } from "./draft.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./model.js").Span} Span
 * @typedef {import("./types.js").Block} Block
 * @typedef {import("./types.js").Edit} Edit
 * @typedef {import("./types.js").Pair} Pair
 */

const MOST = 250_000; // pairs that one edit may add or remove

export class Marking {
  /**
   * @param {Model} model
   * @param {{change: (edit: Edit) => void, changed: () => void, say: (text: string) => void,
   *          accept: (pairs: Pair[]) => void, reject: (pairs: Pair[]) => void}} on
   */
  constructor(model, on) {
    this.model = model;
    this.on = on;
  }

  /** Mark these ends and no intervals. @param {number | null} p @param {number | null} q */
  hold(p, q) {
    Object.assign(this.model, { p, q, spans: { p: null, q: null } });
  }

  /** Steps were dragged over, or chosen with S: all of them, or one of them, belong to the step that is kept. @param {number} first @param {number} last */
  range(first, last) {
    const { model } = this;
    model.anchor = model.range = null;
    const end = model.keep === "q" && model.q !== null ? "p" : model.keep !== "q" && model.p !== null ? "q" : null;
    if (end === null) {
      if (!model.somewhere) return this.on.say("Choose the step that was recalled first; then the range of those that used it.");
      this.holdSpan(model.keep === "q" ? "q" : "p", [first, last]);
    } else if (model.somewhere) {
      const kept = end === "q" ? model.spans.p ?? [model.p, model.p] : model.spans.q ?? [model.q, model.q];
      this.addSomewhere(/** @type {Span} */ (end === "q" ? kept : [first, last]), /** @type {Span} */ (end === "q" ? [first, last] : kept));
    } else this.toggleBlock(this.kept(first, last));
    this.on.changed();
  }

  /** The kept step with every step from `first` to `last`. @param {number} first @param {number} last @returns {Block} */
  kept(first, last) {
    const { keep, p, q } = this.model;
    if (keep === "q" && q !== null) return [first, Math.min(last, q - 1), q, q];
    return [p ?? 0, p ?? 0, Math.max(first, (p ?? 0) + 1), last];
  }

  /** One end is a step somewhere in an interval. @param {"p" | "q"} end @param {Span} span */
  holdSpan(end, [first, last]) {
    const middle = Math.floor((first + last) / 2);
    this.hold(end === "p" ? middle : null, end === "q" ? middle : null);
    this.model.spans[end] = first === last ? null : [first, last];
    this.model.cursor = last;
  }

  /** A pair of which only intervals are known. @param {Span} p @param {Span} q */
  addSomewhere(p, q) {
    if (p[0] >= q[0] || p[1] >= q[1]) return this.on.say("The recalled step must begin and end before the step that used it.");
    /** @type {Pair} */ const pair = [Math.floor((p[0] + p[1]) / 2), Math.floor((q[0] + q[1]) / 2)];
    if (this.model.multiplicity(...pair)) return this.on.say(`${pair[0]} → ${pair[1]} is marked already.`);
    this.model.added.push(pair);
    this.on.change({ kind: "add", pairs: [pair], about: [[...p, ...q, 1]] });
    this.model.afterAdding();
  }

  /** Add every pair of a block; where all are there already, take them back. @param {Block} block */
  toggleBlock(block) {
    const size = block[0] > block[1] || block[2] > block[3] ? 0 : sizeOf(block);
    if (!size) return this.on.say("The recalled step p must lie before q.");
    if (size > MOST) return this.on.say(`That would be ${size.toLocaleString("en")} pairs at once: mark fewer steps.`);
    const pairs = inside([block]);
    if (pairs.every(([p, q]) => this.model.multiplicity(p, q))) return this.on.change({ kind: "remove", blocks: [block] });
    this.model.added.push(...pairs.slice(-2));
    const span = this.model.spans[this.model.keep === "q" ? "q" : "p"];
    if (!span) this.on.change({ kind: "add", blocks: [block] });
    else this.on.change({ kind: "add", pairs, about: pairs.map(([p, q]) => (this.model.keep === "q" ? [p, p, ...span, 1] : [...span, q, q, 1])) });
    this.model.afterAdding();
  }

  /** B: every earlier step was recalled, at each step of the range or at the one looked at. */
  before() {
    const { model } = this;
    const [first, last] = model.range ?? [model.q ?? model.looking, model.q ?? model.looking];
    model.anchor = model.range = null;
    if (last === 0) this.on.say("There is nothing before step 0.");
    else this.toggleBlock([0, last - 1, Math.max(first, 1), last]);
    this.on.changed();
  }

  /** L: what looks like the step looked at belongs to the step that is kept, too. */
  alike() {
    const { model } = this;
    const { cells } = model.demo.sprites;
    const like = model.keep === "q" ? model.p ?? model.looking : model.q ?? model.looking;
    const steps = cells.flatMap((cell, step) => (cell === cells[like] ? [step] : []));
    const [p, q] = [model.p, model.q];
    /** @type {Pair[]} */ let pairs = [];
    if (model.keep === "q" && q !== null) pairs = steps.filter((step) => step < q).map((step) => [step, q]);
    else if (p !== null) pairs = steps.filter((step) => step > p).map((step) => [p, step]);
    else return this.on.say("Mark the step that was recalled first; then L takes every step that looks like the one here.");
    const fresh = pairs.filter((pair) => !model.multiplicity(...pair));
    if (!fresh.length) return this.on.say(pairs.length ? "All steps that look like this one are marked already." : "No step there looks like this one.");
    this.add(fresh);
    this.on.say(`${fresh.length} step${fresh.length === 1 ? "" : "s"} that look${fresh.length === 1 ? "s" : ""} like step ${like}.`);
    this.on.changed();
  }

  /** S: a range begins at the cursor; the arrows widen it, Enter adds it, Delete removes it, B and S again end it. */
  beginRange() {
    const { model } = this;
    const begun = model.anchor !== null;
    model.anchor = begun ? null : model.cursor;
    model.range = begun ? null : [model.cursor, model.cursor];
    model.hoverStep = model.selected = null;
    this.on.changed();
  }

  /** H: a range means one step somewhere in it, or every step. */
  toggleSomewhere() {
    this.model.somewhere = !this.model.somewhere;
    this.on.changed();
  }

  /** @param {number} p @param {number} q */
  toggle(p, q) {
    const { spans } = this.model;
    if (this.model.multiplicity(p, q)) this.on.change({ kind: "remove", pairs: [[p, q]] });
    else if (spans.p || spans.q) this.addSomewhere(this.model.p === p && spans.p ? spans.p : [p, p], this.model.q === q && spans.q ? spans.q : [q, q]);
    else this.add([[p, q]]);
  }

  /** @param {Pair[]} pairs */
  add(pairs) {
    const { added } = this.model;
    added.push(...pairs);
    if (added.length > 1) this.model.stride = [added[added.length - 1][0] - added[added.length - 2][0], added[added.length - 1][1] - added[added.length - 2][1]];
    this.on.change({ kind: "add", pairs });
    this.model.afterAdding();
  }

  /** Pairs of the kept step with a range; without one, all pairs that begin or end in it. @param {number} first @param {number} last */
  removeRange(first, last) {
    const { model, on } = this;
    const held = model.keep === "q" ? model.q : model.p;
    const within = (/** @type {number} */ step) => step >= first && step <= last;
    const [p, pLast, q, qLast] = this.kept(first, last);
    const gone = model.state.pairs.filter(([a, b]) => (held === null ? within(a) || within(b) : a >= p && a <= pLast && b >= q && b <= qLast));
    model.anchor = model.range = null;
    if (gone.length) on.change({ kind: "remove", blocks: blocksOf(gone) });
    else on.say("There is no pair in this range.");
  }
}

/** Pairs in order of (q, p) as few blocks: runs of p at one q. @param {number[][]} pairs @returns {Block[]} */
function blocksOf(pairs) {
  /** @type {Block[]} */ const blocks = [];
  for (const [p, q] of pairs) {
    const last = blocks[blocks.length - 1];
    if (last && last[2] === q && last[1] === p - 1) last[1] = p;
    else blocks.push([p, p, q, q]);
  }
  return blocks;
}
