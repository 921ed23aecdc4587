// What the page knows, and what follows from it. No drawing, no server.

import { Draft, keyOf } from "./draft.js";

/**
 * @typedef {import("./types.js").Dataset} Dataset
 * @typedef {import("./types.js").Episode} Episode
 * @typedef {import("./types.js").EditState} EditState
 * @typedef {import("./types.js").About} About
 * @typedef {import("./types.js").Pair} Pair
 * @typedef {import("./types.js").Suggestion} Suggestion
 * @typedef {import("./types.js").Deciding} Deciding
 * @typedef {"p" | "q" | "none"} Keep
 * @typedef {[number, number]} Span  first and last step
 * @typedef {{p: number, q: number, suggested: boolean}} Shown  a pair under the mouse or selected
 */

const CLOSEST = 12; // steps on the timeline at the largest zoom
const EDGE = 0.1; // share of the timeline from its ends at which it follows the cursor

export class Model {
  constructor() {
    /** @type {Dataset | null} */ this.dataset = null;
    /** @type {Episode | null} */ this.episode = null;
    /** @type {number | null} the demonstration that is being fetched: nothing can be changed meanwhile */ this.opening = null;
    /** @type {Suggestion[]} */ this.suggestions = [];
    /** @type {Deciding[]} */ this.deciding = [];
    this.source = "";
    /** @type {Keep} what stays marked after a pair is added */ this.keep = "p";
    /** A range is one step somewhere in it, rather than every step. */
    this.somewhere = false;
    /** @type {number | null} */ this.p = null;
    /** @type {number | null} */ this.q = null;
    /** @type {{p: Span | null, q: Span | null}} where a marked end is one step of several */ this.spans = { p: null, q: null };
    this.cursor = 0;
    /** @type {number | null} step under the mouse */ this.hoverStep = null;
    /** @type {Shown | null} pair under the mouse */ this.hoverPair = null;
    /** @type {Shown | null} */ this.selected = null;
    /** @type {number | null} where a range by keyboard began */ this.anchor = null;
    /** @type {Span | null} the steps of a drag or of a range by keyboard */ this.range = null;
    /** @type {Pair[]} in the order they were added by hand */ this.added = [];
    /** @type {Pair | null} the distance of the last two pairs by hand, in an earlier demonstration too */ this.stride = null;
    this.zoom = 0;
    this.viewFrom = 0;
    /** @type {any[]} */ this.knownFor = [];
    /** @type {any} */ this.known = null;
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

  /** What is shown: what is saved, and the changes that are on their way. @returns {EditState} */
  get state() {
    return this.demo.draft.state;
  }

  /** A demonstration was opened: nothing is marked on it yet. @param {Episode} episode @param {Draft} [draft] with changes on their way */
  open(episode, draft) {
    this.episode = episode;
    episode.draft = draft ?? new Draft(episode.state);
    this.suggestions = [];
    this.deciding = [];
    this.hoverStep = this.hoverPair = null;
    this.letGo();
    this.cursor = this.zoom = this.viewFrom = 0;
    this.added = [];
  }

  /** Nothing is marked or selected any more. */
  letGo() {
    this.p = this.q = this.selected = this.range = this.anchor = null;
    this.spans = { p: null, q: null };
  }

  /** Which end the next step that is picked becomes. @returns {"p" | "q"} */
  get awaiting() {
    if (this.keep === "q") return this.q === null ? "q" : "p";
    return this.p === null ? "p" : "q";
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

  /** What follows from the present state, worked out once for each. */
  get facts() {
    const { state, suggestions, deciding, source } = this;
    const now = [state.pairs, state.rejected, state.about, state.origins, suggestions, deciding, source];
    if (this.known && now.every((value, place) => value === this.knownFor[place])) return this.known;
    /** @type {Map<number, [number, number, number]>} */ const marked = new Map(state.pairs.map((row) => [keyOf(row[0], row[1]), row]));
    const rejected = new Set(state.rejected.filter(([name]) => name === source).map(([, p, q]) => keyOf(p, q)));
    const open = suggestions.filter(({ p, q }) => !marked.has(keyOf(p, q)) && !rejected.has(keyOf(p, q)));
    const recalls = groupBy(state.pairs, 1, 0);
    const undecided = deciding.filter(({ q }) => !recalls.has(q));
    this.knownFor = now;
    this.known = {
      marked,
      open,
      recalledAt: groupBy(state.pairs, 0, 1),
      recalls,
      undecided,
      suggested: new Map(suggestions.map((one) => [keyOf(one.p, one.q), one])),
      suggestedSteps: new Set([...open.flatMap(({ p, q }) => [p, q]), ...undecided.map(({ q }) => q)]),
      reasons: reasonsOf(suggestions, deciding),
      about: new Map(state.about.map(([p, q, ...known]) => [keyOf(p, q), known])),
      origins: new Map(state.origins.map(([p, q, source]) => [keyOf(p, q), source])),
    };
    return this.known;
  }

  /** Open suggestions: neither accepted nor turned down. @returns {Suggestion[]} */
  get openSuggestions() {
    return this.facts.open;
  }

  /** Steps that need a memory, of what is not known, and that have no pair yet. @returns {Deciding[]} */
  get undecided() {
    return this.facts.undecided;
  }

  /** The open suggestion, or the deciding step, that is selected now. @returns {{p: number | null, q: number} | null} */
  get chosen() {
    if (this.selected) return this.selected;
    return this.p === null && this.q !== null ? { p: null, q: this.q } : null;
  }

  /** @param {number} p @param {number} q how often the pair counts; 0: it is not there */
  multiplicity(p, q) {
    return this.facts.marked.get(keyOf(p, q))?.[2] ?? 0;
  }

  /** How often a pair counts, or would. @param {Shown} pair @returns {number} */
  count({ p, q, suggested }) {
    return suggested ? this.facts.suggested.get(keyOf(p, q))?.count ?? 1 : this.multiplicity(p, q);
  }

  /** A pair in words, as in the files: `8~11 → 20 ×2`. @param {Shown} pair */
  words(pair) {
    const about = this.about(pair);
    const ends = about ? [endWords(pair.p, about[0], about[1]), endWords(pair.q, about[2], about[3])] : [pair.p, pair.q];
    const count = this.count(pair);
    return `${ends[0]} → ${ends[1]}${count > 1 ? ` ×${count}` : ""}`;
  }

  /** @param {number} p @param {number} q who suggested the pair, if anybody @returns {string | null} */
  origin(p, q) {
    return this.facts.origins.get(keyOf(p, q)) ?? null;
  }

  /** What is known less of a marked or suggested pair. @param {Shown} pair @returns {About | null} */
  about({ p, q, suggested }) {
    if (!suggested) return this.facts.about.get(keyOf(p, q)) ?? null;
    return this.facts.suggested.get(keyOf(p, q))?.about ?? null;
  }

  /** Why a pair is suggested; "" where nobody said. @param {number} p @param {number} q @returns {string} */
  why(p, q) {
    return this.facts.suggested.get(keyOf(p, q))?.reason ?? "";
  }

  /** Why what is looked at is suggested: the pair, the step, or else the demonstration. */
  get reason() {
    const pair = this.hoverPair ?? (this.hoverStep === null ? this.selected : null);
    const ofPair = pair ? this.why(pair.p, pair.q) : "";
    if (pair && ofPair) return `${this.words(pair)}: ${ofPair}`;
    const step = pair ? pair.q : this.hoverStep ?? this.q ?? this.cursor;
    const ofStep = this.facts.reasons.get(step);
    if (ofStep) return `Step ${step}: ${ofStep}`;
    const { recommended } = this.data;
    const rank = recommended.findIndex(([episode]) => episode === this.demo.episode);
    if (rank < 0) return "";
    return `No. ${rank + 1} of the ${recommended.length} to annotate first${recommended[rank][1] && ": "}${recommended[rank][1]}`;
  }

  /** Let go of what need not stay marked after a pair was added. */
  afterAdding() {
    if (this.keep !== "p") this.p = this.spans.p = null;
    if (this.keep !== "q") this.q = this.spans.q = null;
  }

  /** The next pair at the same distance as the last two by hand had. @returns {Pair | string} or why there is none */
  get repeated() {
    const last = this.added.at(-1);
    const before = this.added.at(-2);
    const stride = last && before ? [last[0] - before[0], last[1] - before[1]] : this.stride;
    if (!last || !stride) return "Add two pairs by hand; R then goes on at the same distance.";
    const p = last[0] + stride[0];
    const q = last[1] + stride[1];
    if (p < 0 || p >= q || q >= this.length || (!stride[0] && !stride[1])) return "There is no further step at that distance.";
    return [p, q];
  }

  /** The steps on the timeline: the first, and the one after the last. @returns {Span} */
  get view() {
    const span = Math.max(Math.min(CLOSEST, this.length), this.length / 2 ** this.zoom);
    let from = Math.min(Math.max(this.viewFrom, 0), this.length - span);
    const margin = span * EDGE;
    if (this.zoom && this.cursor < from + margin) from = Math.max(0, this.cursor - margin);
    if (this.zoom && this.cursor + 1 > from + span - margin) from = Math.min(this.length - span, this.cursor + 1 - span + margin);
    this.viewFrom = from;
    return [from, from + span];
  }

  /** @param {number} change in zoom; whether there was room for it */
  zoomBy(change) {
    const zoom = this.zoom + change;
    if (zoom < 0 || (change > 0 && this.length / 2 ** this.zoom <= CLOSEST)) return false;
    const [from, to] = this.view;
    const at = (this.cursor + 0.5 - from) / (to - from); // the cursor stays where it is on the screen
    this.zoom = zoom;
    this.viewFrom = this.cursor + 0.5 - (at * this.length) / 2 ** zoom;
    return true;
  }

  /** The next demonstration that is not annotated, from the start again at the end. @param {number} after */
  nextOpen(after) {
    const count = this.data.lengths.length;
    const annotated = new Set(this.data.annotated);
    for (let ahead = 1; ahead <= count; ahead++) {
      const episode = (after + ahead + count) % count;
      if (!annotated.has(episode)) return episode;
    }
    return null;
  }

  /** The first demonstration to annotate, of those recommended, after one of them and then from the start; null where all are done. @param {number} after */
  nextRecommended(after) {
    const order = this.data.recommended.map(([episode]) => episode);
    const annotated = new Set(this.data.annotated);
    const from = order.indexOf(after) + 1;
    return [...order.slice(from), ...order.slice(0, from)].find((episode) => !annotated.has(episode)) ?? null;
  }

  /** Whether a demonstration is annotated and flagged now. @param {number} episode @param {EditState} state */
  remember(episode, state) {
    for (const [list, member] of /** @type {const} */ ([["annotated", state.annotated], ["flagged", state.flagged]])) {
      const others = this.data[list].filter((number) => number !== episode);
      this.data[list] = member ? [...others, episode] : others;
    }
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

/** An end of a pair in words: a step, or an interval as in the files. @param {number} step @param {number} [first] @param {number} [last] */
function endWords(step, first = step, last = step) {
  return first === last ? String(step) : `${first}~${last}`;
}

/** What is said of each deciding step. @param {Suggestion[]} suggestions @param {Deciding[]} deciding @returns {Map<number, string>} */
function reasonsOf(suggestions, deciding) {
  const reasons = new Map();
  for (const { q, reason } of [...deciding, ...suggestions]) {
    if (reason) reasons.set(q, reasons.has(q) ? `${reasons.get(q)}; ${reason}` : reason);
  }
  return reasons;
}

/** @param {number[][]} rows @param {number} key @param {number} value @returns {Map<number, number[]>} */
function groupBy(rows, key, value) {
  const groups = new Map();
  for (const row of rows) {
    const group = groups.get(row[key]);
    if (group) group.push(row[value]);
    else groups.set(row[key], [row[value]]);
  }
  return groups;
}
