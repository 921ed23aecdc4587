// The panel of suggested pairs: shown apart, accepted or rejected one by one or all at once.

import { ask, Refused } from "./api.js";
import { button, byId, make, select } from "./dom.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./types.js").Edit} Edit
 * @typedef {import("./types.js").Pair} Pair
 */

const LISTED = 200; // rows; more would only be scrolled past

export class Suggestions {
  /** @param {Model} model @param {{change: (edit: Edit) => void, changed: () => void, say: (text: string) => void}} on */
  constructor(model, on) {
    this.model = model;
    this.on = on;
    this.list = byId("suggestion-list");
    this.problem = "";
    this.drawn = "";
    select("source").addEventListener("change", () => {
      model.source = select("source").value;
      localStorage.setItem("studio.source", model.source);
      select("source").blur(); // so that the keys work again
      void this.load();
    });
    button("accept-all").addEventListener("click", () => this.acceptAll());
    button("reject-all").addEventListener("click", () => this.rejectAll());
  }

  /** The sources of the data set that was opened. */
  build() {
    const { sources } = this.model.data;
    byId("suggestions").hidden = sources.length === 0;
    const kept = localStorage.getItem("studio.source");
    this.model.source = sources.find(({ name }) => name === kept)?.name ?? sources[0]?.name ?? "";
    select("source").replaceChildren(...sources.map(({ name, title }) => make("option", { value: name }, title)));
    select("source").value = this.model.source;
  }

  /** Fetch what the chosen source says about the demonstration that is open. */
  async load() {
    const { model } = this;
    const [demo, source] = [model.demo, model.source];
    model.suggestions = [];
    this.problem = "";
    if (source) {
      try {
        const query = new URLSearchParams({ annotator: model.data.annotator, source });
        const answer = await ask(`/api/episodes/${demo.episode}/suggestions?${query}`, undefined, { signal: null });
        if (model.episode !== demo || model.source !== source) return;
        model.suggestions = answer.pairs.map((/** @type {number[]} */ [p, q, weight]) => ({ p, q, weight }));
      } catch (problem) {
        if (model.episode !== demo || model.source !== source) return;
        this.problem = problem instanceof Refused ? problem.message : String(problem);
      }
    }
    byId("suggestions").dataset.episode = String(demo.episode);
    this.on.changed();
  }

  /** @param {Pair[]} pairs */
  accept(pairs) {
    if (pairs.length) this.on.change({ kind: "add", pairs, source: this.model.source });
  }

  /** @param {Pair[]} pairs */
  reject(pairs) {
    if (pairs.length) this.on.change({ kind: "reject", pairs, source: this.model.source });
  }

  acceptAll() {
    const open = this.open();
    if (open.length) this.accept(open);
    else this.on.say("There are no open suggestions.");
  }

  rejectAll() {
    const open = this.open();
    if (open.length) this.reject(open);
    else this.on.say("There are no open suggestions.");
  }

  /** @returns {Pair[]} */
  open() {
    return this.model.openSuggestions.map(({ p, q }) => [p, q]);
  }

  draw() {
    const { model } = this;
    if (!model.episode) return;
    const open = model.openSuggestions;
    const content = JSON.stringify([model.demo.episode, model.source, this.problem, model.suggestions.length, open]);
    if (content !== this.drawn) {
      this.drawn = content;
      button("accept-all").disabled = button("reject-all").disabled = open.length === 0;
      button("accept-all").replaceChildren(open.length ? `Accept all ${open.length} ` : "Accept all ", make("kbd", {}, "A"));
      const rows = open.slice(0, LISTED).map((suggestion) => this.row(suggestion));
      if (!open.length) rows.push(make("li", { class: "none" }, this.problem || this.nothingOpen()));
      if (open.length > LISTED) rows.push(make("li", { class: "none" }, `and ${open.length - LISTED} more`));
      this.list.replaceChildren(...rows);
    }
    const shown = model.hoverPair ?? model.selected;
    for (const row of this.list.children) {
      row.classList.toggle("linked", !!shown?.suggested && row instanceof HTMLElement && row.dataset.pair === `${shown.p},${shown.q}`);
    }
  }

  nothingOpen() {
    if (this.model.suggestions.length) return "All of them are dealt with.";
    return this.model.source.startsWith("before") ? "Nothing was marked on an earlier demonstration yet." : "It suggests nothing here.";
  }

  /** @param {import("./types.js").Suggestion} suggestion */
  row({ p, q, weight }) {
    const accept = make("button", { "aria-label": `Accept ${p} to ${q}`, title: "Accept" }, "✓");
    const reject = make("button", { "aria-label": `Reject ${p} to ${q}`, title: "Reject" }, "✕");
    const row = make("li", { "data-pair": `${p},${q}` }, make("span", { class: "pair" }, `${p} → ${q}`));
    if (weight < 1) row.append(make("span", { class: "weight" }, weight.toFixed(2)));
    row.append(accept, reject);
    accept.addEventListener("click", () => this.accept([[p, q]]));
    reject.addEventListener("click", () => this.reject([[p, q]]));
    row.addEventListener("pointerenter", () => {
      this.model.hoverPair = { p, q, suggested: true };
      this.on.changed();
    });
    row.addEventListener("pointerleave", () => {
      this.model.hoverPair = null;
      this.on.changed();
    });
    return row;
  }
}
