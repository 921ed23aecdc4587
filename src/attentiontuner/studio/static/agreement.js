// How far two annotators agree, and where they differ.

import { ask } from "./api.js";
import { byId, dialog, input, make, select } from "./dom.js";

/** @typedef {import("./model.js").Model} Model */

export class Agreement {
  /** @param {Model} model @param {{open: (episode: number) => void, choose: (p: number, q: number) => void}} on */
  constructor(model, on) {
    this.model = model;
    this.on = on;
    this.asked = 0;
    for (const id of ["agree-a", "agree-b", "agree-tolerance"]) byId(id).addEventListener("change", () => void this.load());
  }

  async show() {
    const { data } = this.model;
    data.annotators = await this.names();
    const { annotators, annotator } = data;
    const chosen = [select("agree-a").value || annotator, select("agree-b").value || (annotators.find((name) => name !== annotator) ?? annotator)];
    ["agree-a", "agree-b"].forEach((id, index) => {
      select(id).replaceChildren(...annotators.map((name) => make("option", { value: name }, name)));
      select(id).value = chosen[index];
    });
    dialog("agreement").showModal();
    await this.load();
  }

  /** @returns {Promise<string[]>} everybody who has annotated by now */
  async names() {
    const { annotators } = await ask(`/api/dataset?${new URLSearchParams({ annotator: this.model.data.annotator })}`);
    return annotators;
  }

  async load() {
    const query = new URLSearchParams({
      a: select("agree-a").value,
      b: select("agree-b").value,
      tolerance: String(Math.max(0, Math.round(Number(input("agree-tolerance").value) || 0))),
      episode: String(this.model.demo.episode),
    });
    // Answers may overtake each other: only the one to the latest question counts.
    const question = ++this.asked;
    try {
      const found = await ask(`/api/agreement?${query}`);
      if (question === this.asked) this.fill(found);
    } catch (problem) {
      if (question === this.asked) byId("agree-result").textContent = String(problem instanceof Error ? problem.message : problem);
    }
  }

  /** @param {any} found what the server says */
  fill(found) {
    const result = byId("agree-result");
    if (!found.common) {
      result.replaceChildren(make("p", { class: "agree-figures quiet" }, "There is no demonstration that both have annotated."));
      return;
    }
    const figures = make("div", { class: "agree-figures" });
    const add = (/** @type {string} */ text, /** @type {string} */ label) => figures.append(make("div", {}, make("strong", {}, text), make("br"), make("span", {}, label)));
    add(percent(found.f1), `pair F1 over ${found.common} demonstration${found.common === 1 ? "" : "s"}`);
    add(String(found.matched), "pairs in common");
    add(`${found.onlyFirst} / ${found.onlySecond}`, `only ${select("agree-a").value} / only ${select("agree-b").value}`);
    const lists = make("div", { class: "agree-lists" });
    if (found.here) {
      lists.append(make("p", {}, `Demonstration ${this.model.demo.episode}: F1 ${percent(found.here.f1)}`));
      lists.append(this.pairs(`Only ${select("agree-a").value}:`, found.here.onlyFirst));
      lists.append(this.pairs(`Only ${select("agree-b").value}:`, found.here.onlySecond));
      if (found.here.counts.length) lists.append(this.counts(found.here.counts));
    } else lists.append(make("p", { class: "quiet" }, "This demonstration is not annotated by both."));
    if (found.worst.length) {
      const chips = found.worst.map((/** @type {{episode: number, f1: number}} */ { episode, f1 }) => this.chip(`${episode} (${percent(f1)})`, () => this.on.open(episode)));
      lists.append(make("p", {}, "Least agreement: ", ...chips));
    }
    result.replaceChildren(figures, lists);
  }

  /** @param {string} title @param {[number, number][]} pairs */
  pairs(title, pairs) {
    if (!pairs.length) return make("p", { class: "quiet" }, `${title} none`);
    const chips = pairs.slice(0, 60).map(([p, q]) => this.chip(`${p} → ${q}`, () => this.on.choose(p, q)));
    return make("p", {}, `${title} `, ...chips, pairs.length > 60 ? ` and ${pairs.length - 60} more` : "");
  }

  /** Pairs that both have, but not as often. @param {[number, number, number, number][]} counts */
  counts(counts) {
    const chips = counts.slice(0, 60).map(([p, q, here, there]) => this.chip(`${p} → ${q} ×${here} / ×${there}`, () => this.on.choose(p, q)));
    return make("p", {}, "Counted differently: ", ...chips);
  }

  /** @param {string} text @param {() => void} run */
  chip(text, run) {
    const chip = make("button", { class: "chip" }, text);
    chip.addEventListener("click", () => {
      dialog("agreement").close();
      run();
    });
    return chip;
  }
}

/** @param {number} share */
function percent(share) {
  return `${(share * 100).toFixed(share === 1 || share === 0 ? 0 : 1)} %`;
}
