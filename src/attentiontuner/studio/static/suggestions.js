// The panel of suggested pairs: shown apart, accepted or rejected one by one or all at once.

import { ask, Refused } from "./api.js";
import { button, byId, make, select } from "./dom.js";
import { keyOf } from "./draft.js";
import { steerWithArrows } from "./listing.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./types.js").Edit} Edit
 * @typedef {import("./types.js").Pair} Pair
 */

const LISTED = 200; // rows; more would only be scrolled past

export class Suggestions {
  /** @param {Model} model @param {{change: (edit: Edit) => void, changed: () => void, say: (text: string) => void, choose: (suggestion: {p: number | null, q: number}) => void, next: (direction: number) => void}} on */
  constructor(model, on) {
    this.model = model;
    this.on = on;
    this.list = byId("suggestion-list");
    this.problem = "";
    this.thinking = false;
    /** @type {unknown[]} */ this.drawn = [];
    select("source").addEventListener("change", () => {
      model.source = select("source").value;
      localStorage.setItem(this.chosenFor(), model.source);
      select("source").blur(); // so that the keys work again
      void this.load();
    });
    button("accept-all").addEventListener("click", () => this.acceptAll());
    button("reject-all").addEventListener("click", () => this.rejectAll());
    steerWithArrows(this.list, on.next);
  }

  /** Where the choice is kept: a run or a report that was not there before is looked at first. */
  chosenFor() {
    return `studio.source ${this.model.data.sources[0]?.name ?? ""}`;
  }

  /** The sources of the data set that was opened. */
  build() {
    const { sources } = this.model.data;
    byId("suggestions").hidden = sources.length === 0;
    const kept = localStorage.getItem(this.chosenFor());
    this.model.source = sources.find(({ name }) => name === kept)?.name ?? sources[0]?.name ?? "";
    select("source").replaceChildren(...sources.map(({ name, title }) => make("option", { value: name }, title)));
    select("source").value = this.model.source;
  }

  /** Fetch what the chosen source says about the demonstration that is open. */
  async load() {
    const { model } = this;
    if (!model.episode) return; // it will be loaded when it is open
    const [demo, source] = [model.demo, model.source];
    [model.suggestions, model.deciding] = [[], []];
    this.problem = "";
    this.thinking = source !== "";
    this.on.changed();
    if (source) {
      try {
        const query = new URLSearchParams({ annotator: model.data.annotator, source });
        const answer = await ask(`/api/episodes/${demo.episode}/suggestions?${query}`, undefined, { signal: null });
        if (model.episode !== demo || model.source !== source) return;
        model.suggestions = answer.pairs.map((/** @type {any[]} */ [p, q, weight, count, about, reason]) => ({ p, q, weight, count, about, reason }));
        model.deciding = answer.deciding.map((/** @type {[number, string]} */ [q, reason]) => ({ q, reason }));
      } catch (problem) {
        if (model.episode !== demo || model.source !== source) return;
        this.problem = problem instanceof Refused ? problem.message : String(problem);
      }
    }
    this.thinking = false;
    byId("suggestions").dataset.episode = String(demo.episode);
    this.on.changed();
  }

  /** As they were suggested: with counts and intervals. @param {Pair[]} pairs */
  accept(pairs) {
    const { suggested } = this.model.facts;
    const whole = pairs.map(([p, q]) => suggested.get(keyOf(p, q)));
    const counts = whole.map((one) => one?.count ?? 1);
    const about = whole.map((one) => one?.about ?? null);
    if (pairs.length) this.on.change({ kind: "add", pairs, source: this.model.source, counts, about: about.some(Boolean) ? about : [] });
  }

  /** @param {Pair[]} pairs */
  reject(pairs) {
    if (pairs.length) this.on.change({ kind: "reject", pairs, source: this.model.source });
  }

  acceptAll() {
    const open = this.open();
    if (open.length) this.accept(open);
    else this.on.say(this.thinking ? "The suggestions are not here yet." : "There are no open suggestions.");
  }

  rejectAll() {
    const open = this.open();
    if (open.length) this.reject(open);
    else this.on.say(this.thinking ? "The suggestions are not here yet." : "There are no open suggestions.");
  }

  /** @returns {Pair[]} */
  open() {
    return this.model.openSuggestions.map(({ p, q }) => [p, q]);
  }

  draw() {
    const { model } = this;
    if (!model.episode) return;
    const { undecided, openSuggestions: open } = model;
    const content = [model.demo, model.source, this.problem, this.thinking, open, undecided];
    if (content.some((value, place) => value !== this.drawn[place])) {
      this.drawn = content;
      button("accept-all").disabled = button("reject-all").disabled = open.length === 0;
      button("accept-all").replaceChildren(open.length ? `Accept all ${open.length} ` : "Accept all ", make("kbd", {}, "A"));
      const rows = open.slice(0, LISTED).map((suggestion) => this.row(suggestion));
      rows.push(...undecided.slice(0, LISTED).map((deciding) => this.decidingRow(deciding)));
      const more = open.length + undecided.length - rows.length;
      if (!rows.length) rows.push(make("li", { class: "none" }, this.problem || this.nothingOpen()));
      if (more) rows.push(make("li", { class: "none" }, `and ${more} more`));
      this.list.replaceChildren(...rows);
    }
    const shown = model.hoverPair ?? model.selected;
    const asked = shown === null && model.chosen ? String(model.chosen.q) : "";
    for (const row of /** @type {Iterable<HTMLElement>} */ (this.list.children)) {
      const linked = (!!shown?.suggested && row.dataset.pair === `${shown.p},${shown.q}`) || (asked !== "" && row.dataset.deciding === asked);
      if (linked && !row.classList.contains("linked")) row.scrollIntoView({ block: "nearest" });
      row.classList.toggle("linked", linked);
    }
  }

  nothingOpen() {
    if (this.thinking) return this.model.source === "run" ? "The run looks at this demonstration. The first one takes some seconds." : "Looking for suggestions …";
    if (this.model.suggestions.length || this.model.deciding.length) return "All of them are dealt with.";
    return this.model.source.startsWith("before") ? "Nothing was marked on an earlier demonstration yet." : "It suggests nothing here.";
  }

  /** @param {import("./types.js").Suggestion} suggestion */
  row({ p, q, weight, reason }) {
    const pair = { p, q, suggested: true };
    const accept = make("button", { "aria-label": `Accept ${p} to ${q}`, title: "Accept", tabindex: "-1" }, "✓");
    const reject = make("button", { "aria-label": `Reject ${p} to ${q}`, title: "Reject", tabindex: "-1" }, "✕");
    const row = make("li", { "data-pair": `${p},${q}` }, make("span", { class: "pair" }, this.model.words(pair)));
    if (weight < 1) row.append(make("span", { class: "weight" }, weight.toFixed(2)));
    row.append(accept, reject);
    if (reason) row.append(make("span", { class: "reason" }, reason));
    accept.addEventListener("click", () => this.accept([[p, q]]));
    reject.addEventListener("click", () => this.reject([[p, q]]));
    row.addEventListener("pointerenter", () => {
      this.model.hoverPair = pair;
      this.on.changed();
    });
    row.addEventListener("pointerleave", () => {
      this.model.hoverPair = null;
      this.on.changed();
    });
    return row;
  }

  /** A step of which only that it recalls something is known: chosen, it is marked as q, and p is looked for. @param {import("./types.js").Deciding} deciding */
  decidingRow({ q, reason }) {
    const mark = make("button", { class: "pair", "aria-label": `Mark step ${q} as deciding`, title: "Mark it as q; then choose what it recalled", tabindex: "-1" }, `? → ${q}`);
    mark.addEventListener("click", () => this.on.choose({ p: null, q }));
    return make("li", { "data-deciding": String(q) }, mark, make("span", { class: "reason" }, reason));
  }
}
