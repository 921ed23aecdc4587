// The annotation page: wiring of model, editor, drawings and server.

import { Activity } from "./activity.js";
import { Agreement } from "./agreement.js";
import { ask, Refused, Saver } from "./api.js";
import { Arcs } from "./arcs.js";
import { CurvesView } from "./curves.js";
import { byId, dialog } from "./dom.js";
import { Editor } from "./editor.js";
import { fillHelp, listen } from "./keys.js";
import { Matrix } from "./matrix.js";
import { Model } from "./model.js";
import { Panel } from "./panel.js";
import { Stage } from "./stage.js";
import { Strip } from "./strip.js";
import { Suggestions } from "./suggestions.js";

/** @typedef {import("./types.js").Edit} Edit */

const model = new Model();
const activity = new Activity();
const panel = new Panel(model);
const saver = new Saver((state, waiting, reason) => panel.saveState(state, waiting, reason));

const on = { change, changed, say: (/** @type {string} */ text) => panel.say(text) };
const suggestions = new Suggestions(model, on);
const editor = new Editor(model, { ...on, accept: (pairs) => suggestions.accept(pairs), reject: (pairs) => suggestions.reject(pairs) });
const choose = (/** @type {import("./model.js").Shown} */ pair) => editor.choose(pair);
const strip = new Strip(byId("strip"), model, { pick: (step, fresh) => editor.pick(step, fresh), range: (first, last) => editor.range(first, last), changed });
const stage = new Stage(byId("view-p"), byId("view-q"), model);
const arcs = new Arcs(/** @type {HTMLCanvasElement} */ (byId("arcs")), model, { choose, look: (step) => move(step), changed });
const curves = new CurvesView(byId("curves"), model, { look: (step) => move(step), changed });
const matrix = new Matrix(/** @type {HTMLCanvasElement} */ (byId("matrix")), model, { choose, mark: (p, q) => editor.markBoth(p, q), changed });
const agreement = new Agreement(model, { open: (episode) => void open(episode), choose: (p, q) => (model.multiplicity(p, q) ? editor.choose({ p, q, suggested: false }) : editor.markBoth(p, q)) });

let frame = 0;
/** Draw everything once, before the next picture. */
function changed() {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    for (const part of [strip, stage, arcs, curves, matrix, suggestions, panel]) part.draw();
  });
}

/** Send one edit; the page shows it when it is saved. @param {Edit} edit */
function change(edit) {
  const { demo, data } = model;
  const { annotator } = data; // it may be another one by the time this is sent
  let seconds = 0;
  saver.push({
    path: `/api/episodes/${demo.episode}/change`,
    body: () => {
      seconds += activity.take();
      return { annotator, version: demo.state.version, edit, seconds };
    },
    done: (state) => {
      demo.state = state;
      if (model.dataset === data) remember(demo.episode, state);
      changed();
    },
    refused: (problem) => {
      panel.banner(
        problem.status === 409 ? "This demonstration was changed in another window. Your last change was not saved; this is what is saved now." : `Not saved: ${problem.message}`,
        problem.status === 409 ? "wait" : "bad",
      );
      void refresh();
    },
  });
}

/** @param {number} episode @param {import("./types.js").EditState} state */
function remember(episode, state) {
  for (const [list, member] of /** @type {const} */ ([["annotated", state.annotated], ["flagged", state.flagged]])) {
    const others = model.data[list].filter((number) => number !== episode);
    model.data[list] = member ? [...others, episode] : others;
  }
}

/** Look what is saved now for the demonstration that is open. */
async function refresh() {
  const { demo } = model;
  if (saver.busy) return;
  try {
    const fresh = await ask(episodePath(demo.episode));
    if (model.episode !== demo || saver.busy) return;
    demo.state = fresh.state;
    model.selected = null;
    panel.forgetNote();
    remember(demo.episode, fresh.state);
    changed();
  } catch {
    // The next change will say that the studio does not answer.
  }
}

/** @param {number} episode */
function episodePath(episode) {
  return `/api/episodes/${episode}?${new URLSearchParams({ annotator: model.data.annotator })}`;
}

/** Open another demonstration. @param {number} episode */
async function open(episode) {
  const started = performance.now();
  panel.flushNote();
  leave();
  try {
    const opened = await ask(episodePath(episode));
    model.open(opened);
  } catch (problem) {
    panel.banner(`Demonstration ${episode} cannot be opened: ${problem instanceof Refused ? problem.message : problem}`, "bad");
    return;
  }
  activity.restart();
  history.replaceState(null, "", `#${episode}`);
  const url = `/api/episodes/${episode}/sprites.png?${model.data.launch}`;
  strip.build(url);
  stage.build(url);
  panel.forgetNote();
  changed();
  strip.follow();
  void timeUntilSeen(url, started);
  await suggestions.load();
}

/** Note how long it took until all frames were on the screen, for the benchmark. @param {string} url @param {number} started */
async function timeUntilSeen(url, started) {
  const sheet = new Image();
  sheet.src = url;
  await sheet.decode().catch(() => undefined);
  requestAnimationFrame(() => setTimeout(() => (document.documentElement.dataset.openedMs = (performance.now() - started).toFixed(1))));
}

/** Hand in the active seconds of the demonstration that is left. */
function leave() {
  if (!model.episode) return;
  const seconds = activity.take();
  if (seconds < 0.05) return;
  const body = { annotator: model.data.annotator, seconds };
  void ask(`/api/episodes/${model.demo.episode}/time`, body, { keepalive: true }).catch(() => undefined);
}

/** @param {string} [annotator] */
async function load(annotator) {
  const kept = annotator ?? sessionStorage.getItem("studio.annotator");
  const query = kept ? `?${new URLSearchParams({ annotator: kept })}` : "";
  model.dataset = await ask(`/api/dataset${query}`);
  panel.build();
  suggestions.build();
  const wanted = model.episode ? model.demo.episode : Number(location.hash.slice(1) || NaN);
  const first = nextOpen(-1);
  await open(wanted >= 0 && wanted < model.data.lengths.length ? wanted : first ?? 0);
}

/** The next demonstration that is not annotated, from the start again at the end. @param {number} after */
function nextOpen(after) {
  const count = model.data.lengths.length;
  const annotated = new Set(model.data.annotated);
  for (let ahead = 1; ahead <= count; ahead++) {
    const episode = (after + ahead + count) % count;
    if (!annotated.has(episode)) return episode;
  }
  return null;
}

function goToNextOpen() {
  // What is being saved right now may annotate the demonstration that is open: N never comes back to it by mistake.
  const next = nextOpen(model.demo.episode);
  if (next === null || (next === model.demo.episode && model.data.lengths.length > 1)) panel.say("Every other demonstration is annotated.");
  else void open(next);
}

/** @param {number} change in the number of the demonstration */
function neighbour(change) {
  const episode = model.demo.episode + change;
  if (episode >= 0 && episode < model.data.lengths.length) void open(episode);
  else panel.say(change < 0 ? "This is the first demonstration." : "This is the last demonstration.");
}

/** @param {number} step put the cursor there */
function move(step) {
  editor.look(step);
  strip.follow();
}

const nothing = () => change({ kind: "nothing" });
const flag = () => change({ kind: "flag", flagged: !model.state.flagged });
const undo = () => change({ kind: "undo" });
const redo = () => change({ kind: "redo" });
const by = (/** @type {KeyboardEvent} */ event) => (event.shiftKey ? 10 : 1);

/** @type {import("./keys.js").Key[]} */
const keys = [
  { keys: ["ArrowLeft"], shown: ["←"], text: "one step back, with Shift ten", run: (event) => move(model.cursor - by(event)) },
  { keys: ["ArrowRight"], shown: ["→"], text: "one step on, with Shift ten", run: (event) => move(model.cursor + by(event)) },
  { keys: ["ArrowUp"], shown: ["↑"], text: "one row up", run: () => move(model.cursor - (strip.perRow ?? 1)) },
  { keys: ["ArrowDown"], shown: ["↓"], text: "one row down", run: () => move(model.cursor + (strip.perRow ?? 1)) },
  { keys: ["Home"], shown: ["Home"], text: "first step", run: () => move(0) },
  { keys: ["End"], shown: ["End"], text: "last step", run: () => move(model.length - 1) },
  { keys: ["p"], shown: ["P"], text: "mark the step that was recalled", run: () => editor.mark("p") },
  { keys: ["q"], shown: ["Q"], text: "mark the step that used it", run: () => editor.mark("q") },
  { keys: ["Enter"], shown: ["Enter"], text: "add the pair; accept a selected suggestion", run: () => editor.enter() },
  { keys: ["Delete", "Backspace"], shown: ["Delete"], text: "remove the pair; reject a selected suggestion", run: () => editor.remove() },
  { keys: ["r"], shown: ["R"], text: "one more pair at the same distance", run: () => editor.repeat() },
  { keys: ["Escape"], shown: ["Esc"], text: "let go of what is marked", run: () => editor.release() },
  { keys: ["["], shown: ["["], text: "select the previous pair", run: () => editor.selectNext(-1) },
  { keys: ["]"], shown: ["]"], text: "select the next pair", run: () => editor.selectNext(1) },
  { keys: ["-"], shown: ["−"], text: "the selected pair counts once less", run: () => editor.count(-1) },
  { keys: ["+", "="], shown: ["+"], text: "the selected pair counts once more", run: () => editor.count(1) },
  { keys: ["z"], shift: false, shown: ["Z"], text: "undo", run: undo },
  { keys: ["z"], shift: true, shown: ["Shift", "Z"], text: "redo", run: redo },
  { keys: ["a"], shown: ["A"], text: "accept all suggestions", run: () => suggestions.acceptAll() },
  { keys: ["x"], shown: ["X"], text: "reject all suggestions", run: () => suggestions.rejectAll() },
  { keys: ["0"], shown: ["0"], text: "nothing to remember here", run: nothing },
  { keys: ["k"], shown: ["K"], text: "keep p, q or neither after adding", run: () => editor.cycleKeep() },
  { keys: ["f"], shown: ["F"], text: "flag this demonstration", run: flag },
  { keys: ["t"], shown: ["T"], text: "write a note", run: () => byId("note").focus() },
  { keys: ["n"], shown: ["N"], text: "next demonstration that is not annotated", run: goToNextOpen },
  { keys: [","], shown: [","], text: "previous demonstration", run: () => neighbour(-1) },
  { keys: ["."], shown: ["."], text: "next demonstration", run: () => neighbour(1) },
  { keys: ["g"], shown: ["G"], text: "compare two annotators", run: () => void agreement.show() },
  { keys: ["?"], shown: ["?"], text: "all keys", run: () => dialog("help").showModal() },
];

listen(keys, () => !model.episode || document.querySelector("dialog[open]") !== null);
fillHelp(keys);
panel.listen({ change, undo, redo, nothing, flag, neighbour, goToNextOpen, open: (episode) => void open(episode), annotator: (name) => {
  sessionStorage.setItem("studio.annotator", name);
  leave();
  void load(name).catch((problem) => panel.banner(String(problem.message), "bad"));
}, count: (difference) => editor.count(difference), remove: () => editor.remove(), keep: (keep) => editor.setKeep(keep), agreement: () => void agreement.show() });

const keptChoice = localStorage.getItem("studio.keep");
if (keptChoice === "p" || keptChoice === "q" || keptChoice === "none") model.keep = keptChoice;
addEventListener("pagehide", leave);
addEventListener("focus", () => model.episode && void refresh());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
load().catch((problem) => panel.banner(`The studio cannot be opened: ${problem.message}`, "bad"));
