// The table of demonstrations: what is known of each, which are shown, in which order. No drawing, no server.

import { eachInRanges } from "./ranges.js";

/**
 * @typedef {"" | "to review" | "accepted"} State
 * @typedef {{episodes: number[], pairs: number[], seconds: number[], flagged: number[], notes: Record<string, string>}} Person
 * @typedef {{
 *   stamp: string, name: string, title: string, annotator: string, scripts: string[], launch: string,
 *   sources: {name: string, title: string}[], batches: Record<string, {batch: string, by: string, source: string, episodes: string}[]>,
 *   lengths: number[], failed: number[] | null, people: Record<string, Person>, agreement: (number | null)[],
 *   assigned: Record<string, string>, states: Record<string, string>, recommended: [number, string][], present: [string, number][]
 * }} Table  what the server says
 * @typedef {{show: string, who: string, assigned: string, state: string, numbers: string, text: string, sort: string, down: boolean}} View
 * @typedef {{name: string, pairs: Int32Array, seconds: Float64Array, flagged: Uint8Array, notes: Record<string, string>}} Marks
 *   of one person, by demonstration; `pairs` is -1 where it is not annotated
 * @typedef {{name: string, pairs: number}} Labels
 */

/** @type {View} */
export const EVERYTHING = { show: "all", who: "", assigned: "", state: "", numbers: "", text: "", sort: "number", down: false };

export const PEOPLE = "*people"; // no annotator's name begins with a star
export const NOBODY = "*nobody";

export class Catalogue {
  /** @param {Table} table */
  constructor(table) {
    const count = table.lengths.length;
    this.table = table;
    this.count = count;
    this.names = Object.keys(table.people);
    /** @type {Uint8Array | null} */
    this.failed = table.failed && marked(count, table.failed);
    /** @type {Map<string, Marks>} */
    this.people = new Map();
    for (const [name, person] of Object.entries(table.people)) {
      const pairs = new Int32Array(count).fill(-1);
      const seconds = new Float64Array(count);
      person.episodes.forEach((episode, index) => {
        pairs[episode] = person.pairs[index];
        seconds[episode] = person.seconds[index];
      });
      this.people.set(name, { name, pairs, seconds, flagged: marked(count, person.flagged), notes: person.notes });
    }
    /** @type {Map<string, Uint8Array>} */
    this.assigned = new Map(Object.entries(table.assigned).map(([name, ranges]) => [name, inRanges(count, ranges)]));
    const [review, accepted, changed] = ["to review", "accepted", "changed"].map((state) => inRanges(count, table.states[state] ?? ""));
    this.changed = changed;
    /** Place among those to annotate first, and the reason. @type {Map<number, {rank: number, reason: string}>} */
    this.recommended = new Map(table.recommended.map(([episode, reason], place) => [episode, { rank: place + 1, reason }]));
    /** @param {number} episode @returns {State} */
    this.state = (episode) => (accepted[episode] ? "accepted" : review[episode] ? "to review" : "");
  }

  /** @param {string} who nobody in particular, people, or one name @returns {Marks[]} */
  whose(who) {
    const everybody = [...this.people.values()];
    if (who === PEOPLE) return everybody.filter(({ name }) => !this.table.scripts.includes(name));
    return who ? everybody.filter(({ name }) => name === who) : everybody;
  }

  /** @param {number} episode @param {Marks[]} whose @returns {Labels[]} */
  labels(episode, whose) {
    const found = [];
    for (const { name, pairs } of whose) if (pairs[episode] >= 0) found.push({ name, pairs: pairs[episode] });
    return found;
  }

  /** @param {number} episode @param {Marks[]} whose */
  annotated(episode, whose) {
    for (const { pairs } of whose) if (pairs[episode] >= 0) return true;
    return false;
  }

  /** The most pairs that somebody has; -1 where nobody annotated it. @param {number} episode @param {Marks[]} whose */
  mostPairs(episode, whose) {
    let most = -1;
    for (const { pairs } of whose) if (pairs[episode] > most) most = pairs[episode];
    return most;
  }

  /** @param {number} episode @param {Marks[]} whose */
  flagged(episode, whose) {
    for (const { flagged } of whose) if (flagged[episode]) return true;
    return false;
  }

  /** @param {number} episode @param {Marks[]} whose */
  note(episode, whose) {
    const found = [];
    for (const { name, notes } of whose) if (notes[episode]) found.push({ name, note: notes[episode] });
    return found.length === 1 ? found[0].note : found.map(({ name, note }) => `${name}: ${note}`).join(" · ");
  }

  /** @param {number} episode @param {Marks[]} whose active seconds */
  seconds(episode, whose) {
    let sum = 0;
    for (const { seconds } of whose) sum += seconds[episode];
    return sum;
  }

  /** @param {number} episode @returns {string[]} */
  assignees(episode) {
    return [...this.assigned].filter(([, theirs]) => theirs[episode]).map(([name]) => name);
  }

  /** @param {number} episode */
  disagreeing(episode) {
    const agreement = this.table.agreement[episode];
    return agreement !== null && agreement < 1;
  }

  /** The demonstrations of a view, in its order. @param {View} view @returns {number[]} */
  select(view) {
    const whose = this.whose(view.who);
    const shown = SHOWN[view.show] ?? SHOWN.all;
    const numbers = view.numbers.trim() ? inRanges(this.count, view.numbers) : null;
    const words = view.text.toLowerCase().split(/\s+/).filter(Boolean);
    const assigned = view.assigned && view.assigned !== NOBODY ? this.assigned.get(view.assigned) ?? new Uint8Array(this.count) : null;
    const found = [];
    for (let episode = 0; episode < this.count; episode++) {
      if (numbers && !numbers[episode]) continue;
      if (assigned && !assigned[episode]) continue;
      if (view.assigned === NOBODY && [...this.assigned.values()].some((theirs) => theirs[episode])) continue;
      if (view.state === "changed" ? !this.changed[episode] : view.state && this.state(episode) !== (view.state === "none" ? "" : view.state)) continue;
      if (!shown(this, episode, whose)) continue;
      if (words.length && !this.matches(episode, whose, words)) continue;
      found.push(episode);
    }
    return this.sorted(found, view, whose);
  }

  /** @param {number} episode @param {Marks[]} whose @param {string[]} words all of which must be there */
  matches(episode, whose, words) {
    const text = `${episode} ${this.note(episode, whose)} ${this.labels(episode, whose).map(({ name }) => name).join(" ")} ${this.assignees(episode).join(" ")} ${this.state(episode)} ${this.recommended.get(episode)?.reason ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }

  /** @param {number[]} episodes in order of their numbers @param {View} view @param {Marks[]} whose */
  sorted(episodes, view, whose) {
    if (view.sort === "number") return view.down ? episodes.reverse() : episodes;
    const key = KEYS[view.sort] ?? KEYS.number;
    /** @type {(number | string | null)[]} */
    const keys = new Array(this.count);
    for (const episode of episodes) keys[episode] = key(this, episode, whose);
    const sign = view.down ? -1 : 1;
    return episodes.sort((one, other) => {
      const a = keys[one];
      const b = keys[other];
      if (a === b) return one - other;
      if (a === null) return 1; // what is not known stands last, whichever way is up
      if (b === null) return -1;
      return a < b ? -sign : sign;
    });
  }
}

/** @type {Record<string, (catalogue: Catalogue, episode: number, whose: Marks[]) => boolean | number | undefined>} */
const SHOWN = {
  all: () => true,
  annotated: (catalogue, episode, whose) => catalogue.annotated(episode, whose),
  unannotated: (catalogue, episode, whose) => !catalogue.annotated(episode, whose),
  flagged: (catalogue, episode, whose) => catalogue.flagged(episode, whose),
  disagreeing: (catalogue, episode) => catalogue.disagreeing(episode),
  noted: (catalogue, episode, whose) => catalogue.note(episode, whose) !== "",
  failed: (catalogue, episode) => catalogue.failed?.[episode],
  recommended: (catalogue, episode) => catalogue.recommended.has(episode),
};

/** What a column is sorted by; null stands last. @type {Record<string, (catalogue: Catalogue, episode: number, whose: Marks[]) => number | string | null>} */
const KEYS = {
  number: (_, episode) => episode,
  recommended: (catalogue, episode) => catalogue.recommended.get(episode)?.rank ?? null,
  length: (catalogue, episode) => catalogue.table.lengths[episode],
  solved: (catalogue, episode) => (catalogue.failed ? catalogue.failed[episode] : null),
  who: (catalogue, episode, whose) => catalogue.labels(episode, whose).map(({ name }) => name).join(" ") || null,
  pairs: (catalogue, episode, whose) => catalogue.mostPairs(episode, whose),
  flagged: (catalogue, episode, whose) => (catalogue.flagged(episode, whose) ? 0 : 1),
  note: (catalogue, episode, whose) => catalogue.note(episode, whose).toLowerCase() || null,
  time: (catalogue, episode, whose) => catalogue.seconds(episode, whose) || null,
  agreement: (catalogue, episode) => catalogue.table.agreement[episode],
  assigned: (catalogue, episode) => catalogue.assignees(episode).join(" ") || null,
  state: (catalogue, episode) => catalogue.state(episode) || null,
};

/** @param {number} count @param {number[]} numbers */
function marked(count, numbers) {
  const found = new Uint8Array(count);
  for (const number of numbers) found[number] = 1;
  return found;
}

/** @param {number} count @param {string} ranges */
function inRanges(count, ranges) {
  const found = new Uint8Array(count);
  eachInRanges(ranges, count, (number) => (found[number] = 1));
  return found;
}
