// Everything around the drawings: the bar at the top, the hint line, and the cards at the side.

import { button, byId, counted, dialog, input, make } from "./dom.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./types.js").Edit} Edit
 * @typedef {{
 *   change: (edit: Edit) => void, undo: () => void, redo: () => void, nothing: () => void, flag: () => void,
 *   neighbour: (change: number) => void, goToNextOpen: () => void, open: (episode: number) => void,
 *   annotator: (name: string) => void, count: (change: number) => void, remove: () => void,
 *   keep: (keep: import("./model.js").Keep) => void, agreement: () => void
 * }} Actions
 */

const NOTE_PAUSE = 350; // milliseconds without typing after which the note is sent
const SAY = 3500; // milliseconds a message stays

export class Panel {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.note = /** @type {HTMLTextAreaElement} */ (byId("note"));
    this.noteTimer = 0;
    this.sayTimer = 0;
    this.message = "";
    /** @type {(() => void) | null} */ this.sendNote = null;
  }

  /** @param {Actions} on */
  listen(on) {
    const click = (/** @type {string} */ id, /** @type {() => void} */ run) => byId(id).addEventListener("click", run);
    click("undo", on.undo);
    click("redo", on.redo);
    click("nothing", on.nothing);
    click("clear", () => on.change({ kind: "clear" }));
    click("flag", on.flag);
    click("previous", () => on.neighbour(-1));
    click("following", () => on.neighbour(1));
    click("next-open", on.goToNextOpen);
    click("fewer", () => on.count(-1));
    click("more", () => on.count(1));
    click("remove-pair", on.remove);
    click("show-agreement", on.agreement);
    click("show-help", () => dialog("help").showModal());
    click("banner-close", () => (byId("banner").hidden = true));
    for (const choice of this.keeps()) choice.addEventListener("click", () => on.keep(/** @type {import("./model.js").Keep} */ (choice.dataset.keep)));
    input("episode").addEventListener("change", () => {
      const wanted = Number(input("episode").value);
      input("episode").blur();
      if (Number.isInteger(wanted) && wanted >= 0 && wanted < this.model.data.lengths.length) on.open(wanted);
      else this.draw();
    });
    input("annotator").addEventListener("change", () => {
      const field = input("annotator");
      if (!field.value) field.value = this.model.data.annotator;
      if (!field.reportValidity()) return;
      field.blur();
      on.annotator(field.value);
    });
    this.note.addEventListener("input", () => {
      this.saveState("saving", 1, "");
      this.sendNote = () => on.change({ kind: "note", text: this.note.value });
      clearTimeout(this.noteTimer);
      this.noteTimer = setTimeout(() => this.flushNote(), NOTE_PAUSE);
    });
    this.note.addEventListener("blur", () => this.flushNote());
  }

  /** Send a note that is still being typed. */
  flushNote() {
    clearTimeout(this.noteTimer);
    const send = this.sendNote;
    this.sendNote = null;
    send?.();
  }

  /** Show the saved note, whatever is in the field. */
  forgetNote() {
    clearTimeout(this.noteTimer);
    this.sendNote = null;
    if (this.model.episode) this.note.value = this.model.state.note;
  }

  keeps() {
    return /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-keep]")]);
  }

  /** A data set was opened. */
  build() {
    const { data } = this.model;
    byId("title").textContent = data.title;
    byId("subtitle").textContent = data.name;
    document.title = `${data.title} · AttentionTuner studio`;
    byId("episodes").textContent = String(data.lengths.length);
    input("episode").max = String(data.lengths.length - 1);
    input("annotator").value = data.annotator;
    byId("annotators").replaceChildren(...data.annotators.map((name) => make("option", { value: name })));
  }

  /** @param {import("./api.js").SaveState} state @param {number} waiting @param {string} reason */
  saveState(state, waiting, reason) {
    const pill = byId("save-state");
    pill.dataset.state = state;
    pill.textContent = state === "failed" ? `failed, retrying (${waiting} waiting)` : state;
    pill.title = reason;
    if (state === "failed" && reason.startsWith("the token")) {
      this.banner("The studio was started anew. Open the address it printed, in this browser; what waits here is then saved.", "bad");
    } else if (state === "saved" && byId("banner").dataset.tone === "bad") byId("banner").hidden = true;
  }

  /** @param {string} text @param {"wait" | "bad" | "good"} tone */
  banner(text, tone) {
    byId("banner-text").textContent = text;
    byId("banner").dataset.tone = tone;
    byId("banner").hidden = false;
  }

  /** A short message in the place of the hint. @param {string} text */
  say(text) {
    this.message = text;
    clearTimeout(this.sayTimer);
    this.sayTimer = setTimeout(() => {
      this.message = "";
      this.draw();
    }, SAY);
    this.draw();
  }

  draw() {
    const { model } = this;
    if (!model.episode) return;
    const { data, demo, state } = model;
    if (document.activeElement !== input("episode")) input("episode").value = String(demo.episode);
    byId("subtitle").textContent = `${data.name} · seed ${demo.seed} · ${demo.success ? "solved" : "not solved"}`;
    input("progress").setAttribute("max", String(data.lengths.length));
    input("progress").setAttribute("value", String(data.annotated.length));
    byId("progress-text").textContent = `${data.annotated.length} annotated${data.flagged.length ? `, ${data.flagged.length} flagged` : ""}`;
    button("undo").disabled = !state.canUndo;
    button("redo").disabled = !state.canRedo;
    button("clear").disabled = !state.annotated;
    byId("nothing").setAttribute("aria-pressed", String(state.annotated && state.pairs.length === 0));
    byId("flag").setAttribute("aria-pressed", String(state.flagged));
    if (document.activeElement !== this.note && !this.sendNote) this.note.value = state.note;
    for (const choice of this.keeps()) choice.setAttribute("aria-pressed", String(choice.dataset.keep === model.keep));
    this.drawSummary();
    this.drawHint();
  }

  drawSummary() {
    const { state } = this.model;
    const accepted = state.origins.length;
    const parts = !state.annotated
      ? ["Not annotated yet"]
      : state.pairs.length === 0
        ? ["Nothing to remember"]
        : [make("strong", {}, counted(state.pairs.length, "pair")), accepted ? `, ${accepted} of them suggested` : ""];
    byId("summary").replaceChildren(...parts);
  }

  drawHint() {
    const { model } = this;
    const chosen = model.selected;
    const marked = chosen && !chosen.suggested ? model.multiplicity(chosen.p, chosen.q) : 0;
    byId("pair-tools").hidden = !marked;
    byId("multiplicity").textContent = `×${marked}`;
    const hint = this.message ? [this.message] : this.hint();
    const line = byId("hint");
    const text = hint.map((part) => (typeof part === "string" ? part : part.textContent)).join("");
    if (line.textContent !== text) line.replaceChildren(...hint);
  }

  /** What can be done now. @returns {(string | HTMLElement)[]} */
  hint() {
    const { model } = this;
    const p = (/** @type {number} */ step) => make("b", { class: "p" }, String(step));
    const q = (/** @type {number} */ step) => make("b", { class: "q" }, String(step));
    const chosen = model.selected;
    if (chosen?.suggested) return ["Suggested: ", p(chosen.p), " → ", q(chosen.q), ". Enter accepts, Delete rejects."];
    if (chosen) {
      const origin = model.origin(chosen.p, chosen.q);
      return ["Selected: ", p(chosen.p), " → ", q(chosen.q), origin ? `, suggested by ${model.sourceTitle(origin)}.` : "."];
    }
    if (model.p !== null && model.q !== null) {
      return model.p < model.q ? [p(model.p), " → ", q(model.q), " is marked. Enter adds it."] : ["The recalled step p must lie before q."];
    }
    if (model.p !== null) return ["Recalled: step ", p(model.p), ". Click every step that used it, or drag over a range. Esc lets go."];
    if (model.q !== null) return ["Deciding: step ", q(model.q), ". Click every step it recalled, or drag over a range. Esc lets go."];
    return model.keep === "q" ? ["Click a step that needed memory, then the steps it recalled."] : ["Click the step that was recalled, then the steps that used it. Press ? for the keys."];
  }
}
