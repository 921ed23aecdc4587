// What is done with all demonstrations that are shown: assigned, given a state, labelled, exported. And taken back.

import { ask, Refused } from "./api.js";
import { button, byId, counted, dialog, input, make, select } from "./dom.js";
import { eachInRanges, formatRanges } from "./ranges.js";
import { many } from "./words.js";

/**
 * @typedef {import("./catalogue.js").Catalogue} Catalogue
 * @typedef {import("./catalogue.js").State} State
 * @typedef {{
 *   reload: () => Promise<void>, banner: (text: string, tone: "wait" | "bad" | "good", undo?: () => void) => void,
 *   pill: (text: string, state: "saved" | "saving" | "failed") => void
 * }} On
 */

const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;

export class Many {
  /** @param {On} on */
  constructor(on) {
    this.on = on;
    /** @type {Catalogue | null} */ this.catalogue = null;
    /** @type {number[]} those that are shown */ this.episodes = [];
    button("assign").addEventListener("click", () => void this.assign(false));
    button("unassign").addEventListener("click", () => void this.assign(true));
    button("accept").addEventListener("click", () => void this.accept());
    for (const choice of byId("many").querySelectorAll("[data-state]")) {
      const state = /** @type {State} */ (/** @type {HTMLElement} */ (choice).dataset.state);
      choice.addEventListener("click", () => void this.setState(this.episodes, state));
    }
    for (const choice of byId("many").querySelectorAll("[data-form]")) {
      choice.addEventListener("click", () => void this.save(String(/** @type {HTMLElement} */ (choice).dataset.form)));
    }
  }

  /** @param {Catalogue} catalogue @param {number[]} episodes */
  choose(catalogue, episodes) {
    this.catalogue = catalogue;
    this.episodes = episodes;
  }

  get table() {
    if (!this.catalogue) throw new Error("there is no table yet");
    return this.catalogue.table;
  }

  /** "1,234 demonstrations". @param {number[]} episodes */
  named(episodes) {
    return episodes.length === 1 ? `demonstration ${episodes[0]}` : `${many(episodes.length)} demonstrations`;
  }

  show() {
    if (!this.catalogue || !this.episodes.length) return;
    const { sources, people, assigned, batches } = this.table;
    const name = this.named(this.episodes);
    byId("many-heading").textContent = `With ${this.episodes.length === this.catalogue.count ? "all " : ""}${name}`;
    byId("many-problem").textContent = "";
    byId("names").replaceChildren(...[...new Set([...Object.keys(people), ...Object.keys(assigned), this.table.annotator])].map((value) => make("option", { value })));
    byId("accept-section").hidden = sources.length === 0;
    select("accept-source").replaceChildren(...sources.map((source) => make("option", { value: source.name }, source.title)));
    if (!input("accept-name").value) input("accept-name").value = "accepted";
    button("accept").textContent = `Accept for ${many(this.episodes.length)}`;
    const made = Object.entries(batches).flatMap(([annotator, list]) => list.map((entry) => ({ annotator, ...entry })));
    const joined = new Map(made.map((entry) => [entry.batch, { ...entry, episodes: made.filter(({ batch }) => batch === entry.batch).map(({ episodes }) => episodes).join(",") }]));
    byId("batches").replaceChildren(...[...joined.values()].reverse().map((entry) => this.batch(entry)));
    if (!dialog("many").open) dialog("many").showModal();
  }

  /** @param {{annotator: string, batch: string, by: string, source: string, episodes: string}} entry */
  batch({ annotator, batch, by, source, episodes }) {
    let count = 0;
    eachInRanges(episodes, this.catalogue?.count ?? 0, () => (count += 1));
    const undo = make("button", { class: "plain" }, "Take back");
    undo.addEventListener("click", () => void this.takeBack(annotator, batch));
    return make("li", {}, `${by} accepted ${source.replace(/^labels:/, "labels of ")} as ${annotator}: ${this.count(count)}`, undo);
  }

  /** @param {number} count */
  count(count) {
    return counted(count, "demonstration").replace(/^\d+/, many(count));
  }

  /** Do something, say so, and show what came of it. @template T @param {() => Promise<T>} work @returns {Promise<T | null>} */
  async attempt(work) {
    this.on.pill("saving", "saving");
    byId("many-problem").textContent = "";
    try {
      const answer = await work();
      this.on.pill("saved", "saved");
      dialog("many").close();
      return answer;
    } catch (problem) {
      const refused = problem instanceof Refused ? problem : new Refused(0, String(problem));
      this.on.pill(refused.status === 0 || refused.status >= 500 ? "not saved" : "saved", refused.status === 0 || refused.status >= 500 ? "failed" : "saved");
      if (dialog("many").open) byId("many-problem").textContent = `Not done: ${refused.message}.`;
      else this.on.banner(`Not done: ${refused.message}.`, "bad");
      return null;
    } finally {
      await this.on.reload().catch(() => undefined);
    }
  }

  /** @param {boolean} takeAway */
  async assign(takeAway) {
    const name = input("assignee").value.trim();
    if (!NAME.test(name)) {
      byId("many-problem").textContent = "A name has letters, digits, '.', '_' and '-'.";
      return;
    }
    const had = this.catalogue?.assigned.get(name);
    const others = this.episodes.filter((episode) => Boolean(had?.[episode]) === takeAway);
    const send = (/** @type {boolean} */ away) => this.attempt(() => ask("/api/assign", { name, episodes: formatRanges(others), take_away: away }));
    if ((await send(takeAway)) === null) return;
    const text = takeAway ? `${this.named(others)} no longer assigned to ${name}.` : `${this.named(others)} assigned to ${name}.`;
    this.on.banner(text.replace(/^d/, "D"), "good", () => void send(!takeAway));
  }

  /** @param {number[]} episodes @param {State} state */
  async setState(episodes, state) {
    const { catalogue } = this;
    if (!catalogue) return;
    const by = this.table.annotator;
    /** @type {Map<State, number[]>} */
    const before = new Map([["", []], ["to review", []], ["accepted", []]]);
    for (const episode of episodes) before.get(catalogue.state(episode))?.push(episode);
    const seen = Object.fromEntries([...before].filter(([known]) => known).map(([known, numbers]) => [known, formatRanges(numbers)]));
    if ((await this.attempt(() => ask("/api/state", { by, episodes: formatRanges(episodes), state, seen }))) === null) return;
    if (episodes.length === 1) return; // one key undoes it
    this.on.banner(`${this.named(episodes)}: ${state || "no state"}.`, "good", () => void this.attempt(async () => {
      for (const [known, numbers] of before) {
        if (!numbers.length || known === state) continue;
        const now = state ? { [state]: formatRanges(numbers) } : {};
        await ask("/api/state", { by, episodes: formatRanges(numbers), state: known, seen: now });
      }
    }));
  }

  /** Accept suggestions a part at a time, so that it can be seen how far it is. */
  async accept() {
    const [name, source] = [input("accept-name").value.trim(), select("accept-source").value];
    const by = this.table.annotator;
    const batch = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const waiting = [...this.episodes].sort((a, b) => a - b);
    const sum = { labelled: 0, pairs: 0, before: 0, nothing: 0 };
    button("accept").disabled = true;
    const done = await this.attempt(async () => {
      while (waiting.length && dialog("many").open) {
        const answer = await ask("/api/accept", { by, name, source, episodes: formatRanges(waiting), batch }, { signal: AbortSignal.timeout(600_000) });
        waiting.splice(0, answer.done);
        for (const key of /** @type {const} */ (["labelled", "pairs", "before", "nothing"])) sum[key] += answer[key];
        button("accept").textContent = `${many(waiting.length)} to go; Esc stops`;
      }
    });
    button("accept").disabled = false;
    button("accept").textContent = `Accept for ${many(this.episodes.length)}`;
    if (done === null && !sum.labelled) return;
    const left = [sum.before ? `${this.count(sum.before)} had labels of ${name} before` : "", sum.nothing ? `${this.count(sum.nothing)} without suggestions` : "", waiting.length ? `${this.count(waiting.length)} not looked at` : ""].filter(Boolean).join("; ");
    const text = `Accepted ${counted(sum.pairs, "pair").replace(/^\d+/, many(sum.pairs))} on ${this.count(sum.labelled)} as ${name}${left ? ` (${left})` : ""}.`;
    this.on.banner(text, "good", sum.labelled ? () => void this.takeBack(name, batch) : undefined);
  }

  /** @param {string} name @param {string} batch */
  async takeBack(name, batch) {
    const answer = await this.attempt(() => ask("/api/take-back", { name, batch }));
    if (answer) this.on.banner(`Taken back: ${this.count(answer.removed)}${answer.changed ? `; ${answer.changed} stay, which were changed since` : ""}.`, "good");
  }

  /** @param {string} form of the file */
  async save(form) {
    const body = JSON.stringify({ episodes: formatRanges(this.episodes), form });
    await this.attempt(async () => {
      const response = await fetch("/api/handout", { method: "POST", headers: { "Content-Type": "application/json" }, body });
      if (!response.ok) throw new Refused(response.status, (await response.json()).reason);
      const address = URL.createObjectURL(await response.blob());
      make("a", { href: address, download: `${this.table.name}.${form}` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    });
  }
}
