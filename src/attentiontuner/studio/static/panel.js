// Everything around the drawings: the bar at the top, the hint line, and the cards at the side.

import { button, byId, counted, dialog, input, make } from "./dom.js";

/**
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./types.js").Edit} Edit
 * @typedef {{
 *   change: (edit: Edit) => void, undo: () => void, redo: () => void, nothing: () => void, flag: () => void,
 *   neighbour: (change: number) => void, goToNextOpen: () => void, goToNextRecommended: () => void, open: (episode: number) => void,
 *   annotator: (name: string) => void, count: (change: number) => void, remove: () => void,
 *   keep: (keep: import("./model.js").Keep) => void, agreement: () => void, range: () => void, before: () => void,
 *   alike: () => void, repeat: () => void, enter: () => void, somewhere: (somewhere: boolean) => void, focus: () => void
 * }} Actions
 */

const NOTE_PAUSE = 350; // milliseconds without typing after which the note is sent
const SAY = 4500; // milliseconds a message stays
const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;

export class Panel {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.note = /** @type {HTMLTextAreaElement} */ (byId("note"));
    this.noteTimer = 0;
    this.sayTimer = 0;
    this.seen = ""; // the text of the banner that was closed
    /** A change was refused, and the person has not answered to that yet. */
    this.refused = false;
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
    click("next-recommended", on.goToNextRecommended);
    click("fewer", () => on.count(-1));
    click("more", () => on.count(1));
    click("remove-pair", on.remove);
    click("show-agreement", on.agreement);
    click("show-help", () => dialog("help").showModal());
    click("banner-close", () => this.dismiss());
    click("enter", on.enter);
    click("remove-range", on.remove);
    click("mark-range", on.range);
    click("mark-before", on.before);
    click("mark-alike", on.alike);
    click("mark-repeat", on.repeat);
    for (const choice of this.choices("range")) choice.addEventListener("click", () => on.somewhere(choice.dataset.range === "somewhere"));
    for (const choice of this.choices("keep")) choice.addEventListener("click", () => on.keep(/** @type {import("./model.js").Keep} */ (choice.dataset.keep)));
    input("episode").addEventListener("change", () => this.go(on));
    input("episode").addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // or the thumbnail that gets the focus would be pressed by it
      input("episode").blur(); // a number that was changed is gone to by this
      on.focus();
    });
    input("annotator").addEventListener("change", () => this.rename(on));
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

  /** @param {Actions} on */
  go(on) {
    const text = input("episode").value;
    const last = this.model.data.lengths.length - 1;
    const wanted = Number(text);
    if (text !== "" && Number.isInteger(wanted) && wanted >= 0 && wanted <= last) return on.open(wanted);
    this.say(`There is no demonstration ${text || "without a number"}: they are 0 to ${last}.`);
    input("episode").blur();
    this.draw();
  }

  /** Another name was given. What cannot be a name never stays in the field: it would look as if it were used. @param {Actions} on */
  rename(on) {
    const field = input("annotator");
    const [wanted, now] = [field.value.trim(), this.model.data.annotator];
    field.value = now;
    field.blur();
    if (wanted === "" || wanted === now) return;
    if (NAME.test(wanted)) return on.annotator(wanted);
    const possible = wanted.normalize("NFD").replace(/[\u0300-\u036f]/g, "").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[.-]+|-+$/g, "").slice(0, 64);
    const instead = NAME.test(possible) ? ` Try ${possible}.` : "";
    this.banner(`“${wanted.slice(0, 80)}” cannot be a name: it may have A to Z, a to z, digits, “.”, “_” and “-”, no spaces.${instead} You are still annotating as ${now}.`, "bad");
  }

  /** @param {"keep" | "range"} name */
  choices(name) {
    return /** @type {HTMLElement[]} */ ([...document.querySelectorAll(`[data-${name}]`)]);
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
    byId("next-recommended").hidden = !data.recommended.length;
    byId("annotators").replaceChildren(...data.annotators.map((name) => make("option", { value: name })));
  }

  /**
   * The pill and the banner say the same: where something is not saved, why.
   * @param {import("./saver.js").SaveState} state @param {number} waiting @param {string} reason
   */
  saveState(state, waiting, reason) {
    const pill = byId("save-state");
    const banner = byId("banner");
    const shown = state === "saved" && this.refused ? "refused" : state;
    pill.dataset.state = shown;
    pill.textContent = shown === "failed" ? `failed, retrying (${waiting} waiting)` : shown === "refused" ? "not saved" : shown;
    if (state === "failed" && reason.startsWith("the token")) {
      this.banner("The studio was started anew. Open the address it printed, in this browser; what waits here is then saved.", "bad", "failed");
    } else if (state === "failed") {
      this.banner(`Not saved yet: ${reason}. ${counted(waiting, "change")} ${waiting === 1 ? "waits" : "wait"} here, and will be saved when it can be.`, "bad", "failed");
    } else if (state === "saved" && banner.dataset.about === "failed") banner.hidden = true;
  }

  /** A change was refused: pill and banner say so until the person goes on. @param {string} text @param {"wait" | "bad"} tone */
  notSaved(text, tone) {
    this.refused = true;
    this.banner(text, tone, "refused");
  }

  /** The person has seen it. */
  dismiss() {
    byId("banner").hidden = true;
    this.seen = byId("banner-text").textContent ?? "";
    if (!this.refused) return;
    this.refused = false;
    const pill = byId("save-state");
    if (pill.dataset.state === "refused") [pill.dataset.state, pill.textContent] = ["saved", "saved"];
  }

  /** @param {string} text @param {"wait" | "bad" | "good"} tone @param {string} [about] what it is about, for when it is over */
  banner(text, tone, about = "") {
    const banner = byId("banner");
    if (about === "failed" && text === this.seen) return; // it was read and closed, and is as it was
    this.seen = "";
    if (banner.hidden || byId("banner-text").textContent !== text) byId("banner-text").textContent = text;
    banner.dataset.tone = tone;
    banner.dataset.about = about;
    banner.hidden = false;
  }

  /** A short message, beside the hint and not in its place. @param {string} text */
  say(text) {
    const message = byId("message");
    message.textContent = text;
    message.classList.add("shown");
    clearTimeout(this.sayTimer);
    this.sayTimer = setTimeout(() => {
      message.classList.remove("shown");
      message.textContent = "";
    }, SAY);
  }

  draw() {
    const { model } = this;
    if (!model.episode) return;
    const { data, demo, state } = model;
    const number = model.opening ?? demo.episode;
    if (document.activeElement !== input("episode")) input("episode").value = String(number);
    byId("work").classList.toggle("opening", model.opening !== null);
    const said = demo.words ? [demo.words] : [];
    byId("subtitle").textContent = [data.name, ...said, `seed ${demo.seed}`, demo.success ? "solved" : "not solved"].join(" · ");
    input("progress").setAttribute("max", String(data.lengths.length));
    input("progress").setAttribute("value", String(data.annotated.length));
    const recommended = data.recommended.filter(([episode]) => data.annotated.includes(episode)).length;
    const parts = [`${data.annotated.length} annotated`, ...(data.recommended.length ? [`${recommended} of ${data.recommended.length} recommended`] : []), ...(data.flagged.length ? [`${data.flagged.length} flagged`] : [])];
    byId("progress-text").textContent = parts.join(", ");
    button("undo").disabled = !state.canUndo;
    button("redo").disabled = !state.canRedo;
    button("clear").disabled = !state.annotated;
    byId("nothing").setAttribute("aria-pressed", String(state.annotated && state.pairs.length === 0));
    byId("flag").setAttribute("aria-pressed", String(state.flagged));
    if (document.activeElement !== this.note && !this.sendNote) this.note.value = state.note;
    for (const choice of this.choices("keep")) choice.setAttribute("aria-pressed", String(choice.dataset.keep === model.keep));
    for (const choice of this.choices("range")) choice.setAttribute("aria-pressed", String((choice.dataset.range === "somewhere") === model.somewhere));
    byId("mark-range").setAttribute("aria-pressed", String(model.anchor !== null));
    this.drawSummary();
    this.drawHint();
    this.drawReason();
  }

  /** Why what is looked at is suggested. The line keeps its place, so that the thumbnails keep theirs. */
  drawReason() {
    const { model } = this;
    const line = byId("reason");
    line.hidden = !model.facts.reasons.size && !model.data.recommended.length;
    const { reason } = model;
    if (line.textContent !== reason) line.textContent = line.title = reason;
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
    byId("range-tools").hidden = model.anchor === null && (model.p === null || model.q === null) && !chosen?.suggested;
    byId("multiplicity").textContent = `×${marked}`;
    const hint = this.hint();
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
    if (model.opening !== null) return [`Demonstration ${model.opening} is being opened.`];
    if (chosen?.suggested) return [`Suggested: ${model.words(chosen)}. Enter accepts, Delete rejects.`];
    if (chosen) {
      const origin = model.origin(chosen.p, chosen.q);
      return [`Selected: ${model.words(chosen)}`, origin ? `, suggested by ${model.sourceTitle(origin)}.` : "."];
    }
    if (model.anchor !== null && model.range) return [`Steps ${model.range[0]} to ${model.range[1]}: `, this.rangeHint()];
    if (model.p !== null && model.q !== null) {
      return model.p < model.q ? [p(model.p), " → ", q(model.q), " is marked. Enter adds it."] : ["The recalled step p must lie before q."];
    }
    const { spans } = model;
    if (spans.p) return [`Recalled: one step of ${spans.p[0]}~${spans.p[1]}. Click a step that used it, or drag over where it was. Esc lets go.`];
    if (spans.q) return [`Deciding: one step of ${spans.q[0]}~${spans.q[1]}. Click a step it recalled, or drag over where it was. Esc lets go.`];
    if (model.p !== null) return ["Recalled: step ", p(model.p), ". Click the steps that used it, or drag over them. Esc lets go."];
    if (model.q !== null) return ["Deciding: step ", q(model.q), ". Click the steps it recalled, or drag over them. Esc lets go."];
    return model.keep === "q" ? ["Click a step that needed memory, then the steps it recalled."] : ["Click the step that was recalled, then the steps that used it. Press ? for the keys."];
  }

  /** What can be done with a range by keyboard. */
  rangeHint() {
    const { model } = this;
    const kept = model.keep === "q" ? model.q : model.p;
    if (model.somewhere) return kept === null ? "Enter marks one step of them." : "Enter adds a pair with one step of them.";
    return kept === null ? "B pairs each with everything before it, Delete removes their pairs." : "Enter pairs all of them, Delete removes those pairs.";
  }
}
