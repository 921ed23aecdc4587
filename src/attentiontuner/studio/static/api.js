// Talking to the server, and the queue that saves every change at once and in order.

/** An answer that is not a success. `status` 0: no answer at all. */
export class Refused extends Error {
  /** @param {number} status @param {string} reason */
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

const PATIENCE = 8000; // milliseconds without an answer that count as none

/**
 * @param {string} path
 * @param {unknown} [body] sent as JSON with POST; without one it is a GET
 * @param {RequestInit} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, body, options = {}) {
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE),
      ...options,
    });
  } catch {
    throw new Refused(0, "the studio does not answer");
  }
  const answer = await response.json().catch(() => ({ reason: "the answer was not understood" }));
  if (!response.ok) throw new Refused(response.status, answer.reason ?? `status ${response.status}`);
  return answer;
}

/**
 * @typedef {{path: string, body: any, done: (answer: any) => void, refused: (problem: Refused) => void}} Waiting
 * @typedef {"saved" | "saving" | "failed"} SaveState
 */

/** Sends changes one after the other. While the studio does not answer they wait here and are sent again. */
export class Saver {
  /** @param {(state: SaveState, waiting: number, reason: string) => void} show */
  constructor(show) {
    this.show = show;
    /** @type {Waiting[]} */
    this.queue = [];
    this.busy = false;
    addEventListener("beforeunload", (event) => {
      if (this.queue.length) event.preventDefault();
    });
  }

  /** @param {Waiting} change */
  push(change) {
    this.queue.push(change);
    if (!this.busy) void this.work();
  }

  async work() {
    this.busy = true;
    let pause = 250;
    while (this.queue.length) {
      const change = this.queue[0];
      if (pause === 250) this.show("saving", this.queue.length, "");
      try {
        const answer = await ask(change.path, typeof change.body === "function" ? change.body() : change.body);
        this.queue.shift();
        pause = 250;
        change.done(answer);
      } catch (problem) {
        const refused = problem instanceof Refused ? problem : new Refused(0, String(problem));
        if (refused.status === 0 || refused.status === 401 || refused.status >= 500) {
          pause = Math.min(pause * 2, 4000);
          this.show("failed", this.queue.length, refused.message);
          await new Promise((resume) => setTimeout(resume, pause));
        } else {
          this.queue.length = 0; // later changes were made on top of the refused one
          this.finish();
          change.refused(refused);
          return;
        }
      }
    }
    this.finish();
  }

  finish() {
    this.busy = false;
    this.show("saved", 0, "");
  }
}
