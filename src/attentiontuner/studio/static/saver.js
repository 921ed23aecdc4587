// The queue that saves every change at once and in order. What waits in it outlives the page, in the browser's storage.

import { ask, Refused } from "./api.js";

/**
 * @typedef {import("./types.js").Edit} Edit
 * @typedef {import("./types.js").EditState} EditState
 * @typedef {{annotator: string, episode: number, version: string, edit: Edit, seconds: number, window: string, mark: string}} Change
 * @typedef {"saved" | "saving" | "failed" | "refused"} SaveState
 * @typedef {{
 *   show: (state: SaveState, waiting: number, reason: string) => void,
 *   done: (change: Change, answer: EditState) => void,
 *   refused: (change: Change, problem: Refused, lost: number) => void
 * }} Hooks
 */

const SHELF = "studio.waiting."; // then the data set's mark, a dot, and the window's name

/** Sends changes one after the other. While the studio does not answer they wait here and are sent again. */
export class Saver {
  /** @param {Hooks} on */
  constructor(on) {
    this.on = on;
    /** @type {Change[]} */
    this.queue = [];
    this.busy = false;
    this.shelf = "";
    /** Whether what waits is kept by the browser, too. */
    this.kept = true;
    /** @type {(() => void)[]} */
    this.idlers = [];
    addEventListener("beforeunload", (event) => {
      if (this.queue.length) event.preventDefault();
    });
  }

  /** Whether changes to this demonstration are on their way. @param {string} annotator @param {number} episode */
  has(annotator, episode) {
    return this.queue.some((change) => change.annotator === annotator && change.episode === episode);
  }

  /** Whether any window has left changes waiting. @param {string} folder the data set's mark */
  static anythingLeft(folder) {
    return Object.keys(localStorage).some((key) => key.startsWith(`${SHELF}${folder}.`));
  }

  /** Where this window keeps what waits. @param {string} folder @param {string} name */
  use(folder, name) {
    const shelf = `${SHELF}${folder}.${name}`;
    if (shelf === this.shelf) return;
    this.shelf = shelf;
    this.keep();
  }

  /**
   * Take over what windows that are closed by now have left waiting. How many changes that were.
   * @param {string} folder the data set's mark @param {string} name this window's @param {Set<string>} open other windows
   */
  adopt(folder, name, open) {
    this.shelf = `${SHELF}${folder}.${name}`;
    const prefix = `${SHELF}${folder}.`;
    const left = Object.keys(localStorage).filter((key) => key.startsWith(prefix) && !open.has(key.slice(prefix.length)));
    for (const key of left) {
      try {
        this.queue.push(...JSON.parse(localStorage.getItem(key) ?? "[]"));
      } catch {
        // Not ours, or cut short: there is nothing in it that could be saved.
      }
      if (key !== this.shelf) localStorage.removeItem(key);
    }
    this.keep();
    const found = this.queue.length;
    if (found && !this.busy) void this.work();
    return found;
  }

  /** @param {Change} change */
  push(change) {
    this.queue.push(change);
    this.keep();
    if (!this.busy) void this.work();
  }

  /** Write down what waits. */
  keep() {
    try {
      if (this.queue.length) localStorage.setItem(this.shelf, JSON.stringify(this.queue));
      else localStorage.removeItem(this.shelf);
      this.kept = true;
    } catch {
      this.kept = false; // the browser has no room: the page itself still has it
    }
  }

  /** When nothing is being sent, or the studio does not answer. */
  idle() {
    return this.busy ? new Promise((/** @type {(value?: unknown) => void} */ resume) => this.idlers.push(resume)) : Promise.resolve();
  }

  async work() {
    this.busy = true;
    let pause = 250;
    while (this.queue.length) {
      const change = this.queue[0];
      if (pause === 250) this.on.show("saving", this.queue.length, "");
      try {
        const { episode, ...body } = change;
        const answer = await ask(`/api/episodes/${episode}/change`, body);
        this.queue.shift();
        for (const later of this.queue) if (sameDemonstration(later, change)) later.version = answer.version;
        this.keep();
        pause = 250;
        this.on.done(change, answer);
      } catch (problem) {
        const refused = problem instanceof Refused ? problem : new Refused(0, String(problem));
        if (refused.status === 0 || refused.status === 401 || refused.status >= 500) {
          pause = Math.min(pause * 2, 4000);
          this.on.show("failed", this.queue.length, refused.message);
          this.release();
          await new Promise((resume) => setTimeout(resume, pause));
        } else this.refuse(change, refused);
      }
    }
    this.busy = false;
    this.on.show("saved", 0, "");
    this.release();
  }

  /** Later changes to the same demonstration were made on top of the refused one; those to others go on. @param {Change} change @param {Refused} problem */
  refuse(change, problem) {
    const before = this.queue.length;
    this.queue = this.queue.filter((other) => !sameDemonstration(other, change));
    this.keep();
    this.on.refused(change, problem, before - this.queue.length);
  }

  release() {
    for (const resume of this.idlers.splice(0)) resume();
  }
}

/** @param {Change} a @param {Change} b */
const sameDemonstration = (a, b) => a.episode === b.episode && a.annotator === b.annotator;
