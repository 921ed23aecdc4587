// What the page knows, and what follows from it. No drawing, no server.

/**
 * @typedef {import("./types.js").Dataset} Dataset
 * @typedef {import("./types.js").Episode} Episode
 * @typedef {import("./types.js").EditState} EditState
 * @typedef {import("./types.js").Pair} Pair
 * @typedef {import("./types.js").Suggestion} Suggestion
 * @typedef {"p" | "q" | "none"} Keep
 * @typedef {{p: number, q: number, suggested: boolean}} Shown  a pair under the mouse or selected
 */

export class Model {
  constructor() {
    /** @type {Dataset | null} */ this.dataset = null;
    /** @type {Episode | null} */ this.episode = null;
    /** @type {Suggestion[]} */ this.suggestions = [];
    this.source = "";
    /** @type {Keep} what stays marked after a pair is added */ this.keep = "p";
    /** @type {number | null} */ this.p = null;
    /** @type {number | null} */ this.q = null;
    this.cursor = 0;
    /** @type {number | null} step under the mouse */ this.hoverStep = null;
    /** @type {Shown | null} pair under the mouse */ this.hoverPair = null;
    /** @type {Shown | null} */ this.selected = null;
    /** @type {[number, number] | null} first and last step of a drag */ this.range = null;
    /** @type {Pair[]} in the order they were added by hand */ this.added = [];
  }

  /** @returns {Dataset} */
  get data() {
    if (!this.dataset) throw new Error("no data set is open");
    return this.dataset;
  }

  /** @returns {Episode} */
  get demo() {
    if (!this.episode) throw new Error("no demonstration is open");
    return this.episode;
  }

  get length() {
    return this.episode?.length ?? 0;
  }

  /** @returns {EditState} */
  get state() {
    return this.demo.state;
  }

  /** A demonstration was opened: nothing is marked on it yet. @param {Episode} episode */
  open(episode) {
    this.episode = episode;
    this.suggestions = [];
    this.p = this.q = this.hoverStep = this.hoverPair = this.selected = this.range = null;
    this.cursor = 0;
    this.added = [];
  }

  /** Which end the next step that is picked becomes. @returns {"p" | "q"} */
  get awaiting() {
    if (this.keep === "q") return this.q === null ? "q" : "p";
    return this.p === null && this.q === null ? "p" : this.p === null ? "p" : "q";
  }

  /** The step being looked at. */
  get looking() {
    return this.hoverStep ?? this.cursor;
  }

  /** The pair that Enter would add: what is marked, with the cursor for the end that is not. @returns {Pair | null} */
  get candidate() {
    const p = this.p ?? (this.q === null ? null : this.cursor);
    const q = this.q ?? (this.p === null ? null : this.cursor);
    return p === null || q === null || p >= q ? null : [p, q];
  }

  /** Open suggestions: neither accepted nor turned down. */
  get openSuggestions() {
    const marked = new Set(this.state.pairs.map(([p, q]) => `${p},${q}`));
    const rejected = new Set(this.state.rejected.filter(([s]) => s === this.source).map(([, p, q]) => `${p},${q}`));
    return this.suggestions.filter(({ p, q }) => !marked.has(`${p},${q}`) && !rejected.has(`${p},${q}`));
  }

  /** @param {number} p @param {number} q how often the pair counts; 0: it is not there */
  multiplicity(p, q) {
    return this.state.pairs.find((pair) => pair[0] === p && pair[1] === q)?.[2] ?? 0;
  }

  /** @param {number} p @param {number} q who suggested the pair, if anybody */
  origin(p, q) {
    return this.state.origins.find((entry) => entry[0] === p && entry[1] === q)?.[2] ?? null;
  }

  /** Let go of what need not stay marked after a pair was added. */
  afterAdding() {
    if (this.keep !== "p") this.p = null;
    if (this.keep !== "q") this.q = null;
  }

  /** The next pair at the same distance as the last two by hand had. @returns {Pair | string} or why there is none */
  get repeated() {
    const last = this.added.at(-1);
    const before = this.added.at(-2);
    if (!last || !before) return "Add two pairs by hand; R then goes on at the same distance.";
    const p = last[0] + (last[0] - before[0]);
    const q = last[1] + (last[1] - before[1]);
    if (p < 0 || p >= q || q >= this.length) return "There is no further step at that distance.";
    return [p, q];
  }

  /** @param {number} step the name of the action taken there */
  action(step) {
    return this.data.actions[this.demo.steps[step]] ?? `action ${this.demo.steps[step]}`;
  }

  /** What the source of a label is called. @param {string} name */
  sourceTitle(name) {
    return this.data.sources.find((source) => source.name === name)?.title ?? name.replace(/^labels:/, "");
  }
}
