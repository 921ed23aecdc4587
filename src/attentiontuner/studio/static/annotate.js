// The annotation page: wiring of model, editor, drawings and server.

import { Activity } from "./activity.js";
import { Agreement } from "./agreement.js";
import { ask, Refused } from "./api.js";
import { Arcs } from "./arcs.js";
import { CurvesView } from "./curves.js";
import { byId, counted } from "./dom.js";
import { Editor } from "./editor.js";
import { Listing } from "./listing.js";
import { Matrix } from "./matrix.js";
import { Model } from "./model.js";
import { Panel } from "./panel.js";
import { Saver } from "./saver.js";
import { useKeys } from "./shortcuts.js";
import { Stage } from "./stage.js";
import { Strip } from "./strip.js";
import { Suggestions } from "./suggestions.js";
import { Transport } from "./transport.js";
import { Windows } from "./windows.js";

/** @typedef {import("./types.js").Edit} Edit */

const model = new Model();
const activity = new Activity();
const windows = new Windows();
const panel = new Panel(model);
const saver = new Saver({ show: (state, waiting, reason) => panel.saveState(state, waiting, reason), done: saved, refused });
/** Demonstrations with changes on their way, by annotator and number. @type {Map<string, import("./draft.js").Draft>} */
const drafts = new Map();
const draftKey = (/** @type {string} */ annotator, /** @type {number} */ episode) => `${annotator} ${episode}`;

const on = { change, changed, say: (/** @type {string} */ text) => panel.say(text), next: (/** @type {number} */ direction) => editor.selectNext(direction) };
const suggestions = new Suggestions(model, { ...on, choose: (suggestion) => choose(suggestion) });
const editor = new Editor(model, { ...on, accept: (pairs) => suggestions.accept(pairs), reject: (pairs) => suggestions.reject(pairs) });
const choose = (/** @type {{p: number | null, q: number, suggested?: boolean}} */ pair) => {
  editor.choose(pair);
  strip.follow(false);
};
const strip = new Strip(byId("strip"), model, { pick: (step, fresh) => editor.pick(step, fresh), range: (first, last) => editor.range(first, last), changed });
const stage = new Stage(byId("view-p"), byId("view-q"), model);
const arcs = new Arcs(/** @type {HTMLCanvasElement} */ (byId("arcs")), model, { choose, look: (step) => move(step), changed });
const curves = new CurvesView(byId("curves"), model, { look: (step) => move(step), changed });
const matrix = new Matrix(/** @type {HTMLCanvasElement} */ (byId("matrix")), model, { choose, mark: (p, q) => editor.markBoth(p, q), changed });
const listing = new Listing(model, { ...on, choose });
const transport = new Transport(model, { ...on, move: (step) => move(step), look: (step) => look(step) });
const agreement = new Agreement(model, { open: (episode) => void open(episode), choose: (p, q) => (model.multiplicity(p, q) ? choose({ p, q, suggested: false }) : editor.markBoth(p, q)) });

let frame = 0;
/** Draw everything once, before the next picture. */
function changed() {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    for (const part of [strip, stage, arcs, curves, matrix, suggestions, listing, transport, panel]) part.draw();
  });
}

/** Whether a demonstration is being opened: what is done now would change the one that is left. */
function mustWait() {
  if (model.opening !== null) panel.say(`Demonstration ${model.opening} is being opened: nothing was done.`);
  return model.opening !== null;
}

/** Show one edit and send it. @param {Edit} edit */
function change(edit) {
  if (mustWait()) return;
  const { demo, data } = model;
  if (!demo.draft.try(edit)) return;
  panel.dismiss();
  drafts.set(draftKey(data.annotator, demo.episode), demo.draft);
  model.remember(demo.episode, demo.draft.state);
  const { version } = demo.draft.saved;
  const mark = crypto.getRandomValues(new Uint32Array(4)).join("-");
  saver.push({ annotator: data.annotator, episode: demo.episode, version, edit, seconds: activity.take(), window: windows.name, mark });
  changed();
}

/** @param {import("./saver.js").Change} change @param {import("./types.js").EditState} answer */
function saved({ annotator, episode, edit }, answer) {
  const draft = drafts.get(draftKey(annotator, episode));
  const undone = (edit.kind === "undo" && !answer.canRedo) || (edit.kind === "redo" && !answer.canUndo);
  draft?.answered(answer);
  if (!draft?.waiting) drafts.delete(draftKey(annotator, episode));
  if (undone) panel.say(`There was nothing more to ${edit.kind}: the studio was started anew since.`);
  if (model.dataset?.annotator === annotator) model.remember(episode, draft?.state ?? answer);
  changed();
}

/** @param {import("./saver.js").Change} change @param {Refused} problem @param {number} lost */
function refused({ annotator, episode }, problem, lost) {
  drafts.delete(draftKey(annotator, episode));
  const what = lost === 1 ? "your last change" : `your last ${lost} changes`;
  const elsewhere = problem.status === 409;
  const reason = elsewhere ? "It was changed in another window." : `${problem.message}.`;
  panel.notSaved(`Demonstration ${episode}: ${what} ${lost === 1 ? "was" : "were"} not saved. ${reason} This is what is saved now.`, elsewhere ? "wait" : "bad");
  if (model.episode?.episode === episode && model.data.annotator === annotator) {
    model.demo.draft.reset(model.demo.draft.saved);
    void refresh();
  }
}

/** Look what is saved now for the demonstration that is open. */
async function refresh() {
  const { demo } = model;
  const busy = () => model.episode !== demo || model.opening !== null || saver.has(model.data.annotator, demo.episode);
  if (busy()) return;
  try {
    const fresh = await ask(episodePath(demo.episode));
    if (busy()) return;
    if (fresh.state.version !== demo.draft.saved.version) model.selected = null;
    if (fresh.state.version !== demo.draft.state.version || fresh.state.canUndo !== demo.draft.state.canUndo) demo.draft.reset(fresh.state);
    if (!panel.sendNote) panel.forgetNote();
    model.remember(demo.episode, fresh.state);
    changed();
  } catch {
    // The next change will say that the studio does not answer.
  }
}

/** @param {number} episode */
function episodePath(episode) {
  return `/api/episodes/${episode}?${new URLSearchParams({ annotator: model.data.annotator, window: windows.name })}`;
}

let latest = 0;
/** Open another demonstration. Of several that are asked for in a row, the last. @param {number} episode @param {boolean} [first] what is said stays */
async function open(episode, first = false) {
  const started = performance.now();
  const turn = ++latest;
  panel.flushNote();
  if (model.opening === null) leave();
  model.opening = episode;
  changed();
  const key = draftKey(model.data.annotator, episode);
  const draft = drafts.get(key);
  try {
    const opened = await ask(episodePath(episode));
    if (turn !== latest) return;
    model.opening = null;
    model.open(opened, draft);
  } catch (problem) {
    if (turn !== latest) return;
    model.opening = null;
    changed();
    panel.banner(`Demonstration ${episode} cannot be opened: ${problem instanceof Refused ? problem.message : problem}`, "bad");
    return;
  }
  activity.restart();
  history.replaceState(null, "", `#${episode}`);
  if (!first && byId("banner").dataset.about !== "failed") panel.dismiss();
  const base = `/api/episodes/${episode}/sprites`;
  strip.build(base);
  stage.build(base);
  transport.build();
  panel.forgetNote();
  changed();
  strip.follow();
  void timeUntilSeen(`${base}/0.png?${model.data.launch}`, started);
  await suggestions.load();
}

/** Note how long it took until the frames were on the screen, for the benchmark. @param {string} url @param {number} started */
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

/** Open the data set as somebody. @param {string} [annotator] */
async function load(annotator) {
  if (model.episode) model.opening = model.demo.episode; // what is done meanwhile is nobody's
  const dataset = await fetchDataset(annotator);
  model.dataset = dataset;
  sessionStorage.setItem("studio.annotator", dataset.annotator);
  sessionStorage.setItem("studio.first", dataset.first);
  panel.dismiss();
  panel.build();
  suggestions.build();
  await takeOver(dataset.folder);
  const wanted = model.episode ? model.demo.episode : Number(location.hash.slice(1) || NaN);
  await open(wanted >= 0 && wanted < model.data.lengths.length ? wanted : model.nextRecommended(-1) ?? model.nextOpen(-1) ?? 0, true);
}

/** @param {string} [annotator] @returns {Promise<import("./types.js").Dataset>} */
async function fetchDataset(annotator) {
  const kept = annotator ?? sessionStorage.getItem("studio.annotator");
  if (!kept) return ask("/api/dataset");
  try {
    const found = await ask(`/api/dataset?${new URLSearchParams({ annotator: kept })}`);
    // The name this window had under another `--annotator` is not who was named now.
    const first = sessionStorage.getItem("studio.first");
    return annotator || !first || first === found.first ? found : ask("/api/dataset");
  } catch (problem) {
    if (annotator || !(problem instanceof Refused) || problem.status !== 400) throw problem;
    return ask("/api/dataset");
  }
}

/** Save what windows that were closed, or crashed, have left waiting in this browser. @param {string} folder */
async function takeOver(folder) {
  if (saver.shelf) return;
  const looked = windows.look();
  if (!Saver.anythingLeft(folder)) {
    saver.use(folder, windows.name);
    void looked.then(() => saver.use(folder, windows.name)); // a copied window has another name now
    return;
  }
  const found = saver.adopt(folder, windows.name, await looked);
  if (!found) return;
  const were = `${counted(found, "change")} that had waited in this browser`;
  panel.banner(`${were} ${found === 1 ? "is" : "are"} being saved.`, "wait", "failed");
  await saver.idle();
  if (!saver.queue.length && !panel.refused) panel.banner(`${were} ${found === 1 ? "is" : "are"} saved.`, "good", "failed");
}

const going = () => model.opening ?? model.demo.episode;

function goToNextOpen() {
  const next = model.nextOpen(going());
  if (next === null || (next === going() && model.data.lengths.length > 1)) panel.say("Every other demonstration is annotated.");
  else void open(next);
}

function goToNextRecommended() {
  const { recommended } = model.data;
  const next = model.nextRecommended(going());
  if (!recommended.length) panel.say("No memory report was given: annotate DIR --suggest REPORT.");
  else if (next === null) panel.say(`All ${recommended.length} recommended demonstrations are annotated.`);
  else if (next === going()) panel.say("Every other recommended demonstration is annotated.");
  else void open(next);
}

/** @param {number} difference in the number of the demonstration */
function neighbour(difference) {
  const episode = going() + difference;
  if (episode >= 0 && episode < model.data.lengths.length) void open(episode);
  else panel.say(difference < 0 ? "This is the first demonstration." : "This is the last demonstration.");
}

/** Put the cursor on a step, and leave the focus where it is. @param {number} step */
function look(step) {
  editor.look(step);
  strip.follow(false);
}

/** @param {number} step put the cursor there */
function move(step) {
  editor.look(step);
  strip.follow();
}

/** @param {string} name */
function annotateAs(name) {
  panel.flushNote();
  leave();
  load(name).catch((problem) => {
    model.opening = null;
    panel.banner(`Nobody can annotate as ${name}: ${problem.message}. You are still annotating as ${model.data.annotator}.`, "bad");
  });
}

const actions = {
  change, neighbour, goToNextOpen, goToNextRecommended, move,
  open: (/** @type {number} */ episode) => void open(episode),
  undo: () => change({ kind: "undo" }),
  redo: () => change({ kind: "redo" }),
  nothing: () => change({ kind: "nothing" }),
  flag: () => change({ kind: "flag", flagged: !model.state.flagged }),
  annotator: annotateAs,
  count: (/** @type {number} */ difference) => editor.count(difference),
  remove: () => editor.remove(),
  keep: (/** @type {import("./model.js").Keep} */ keep) => editor.setKeep(keep),
  agreement: () => void agreement.show(),
  range: () => editor.beginRange(),
  enter: () => editor.enter(),
  before: () => editor.before(),
  alike: () => editor.alike(),
  repeat: () => editor.repeat(false),
  somewhere: (/** @type {boolean} */ wanted) => wanted !== model.somewhere && editor.toggleSomewhere(),
  focus: () => strip.follow(),
};
useKeys(model, { editor, suggestions, transport, strip, ...actions }, mustWait);
panel.listen(actions);

const keptChoice = localStorage.getItem("studio.keep");
if (keptChoice === "p" || keptChoice === "q" || keptChoice === "none") model.keep = keptChoice;
addEventListener("pagehide", () => {
  panel.flushNote();
  leave();
});
addEventListener("focus", () => model.episode && void refresh());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
load().catch((problem) => panel.banner(`The studio cannot be opened: ${problem.message}`, "bad"));
