// The data set as a page: which demonstrations there are, who annotated them, and what is still to be done.

import { ask, Refused } from "./api.js";
import { byId, counted, dialog, input, make, select } from "./dom.js";
import { fillHelp, listen } from "./keys.js";
import { EVERYTHING, Catalogue, NOBODY, PEOPLE } from "./catalogue.js";
import { Many } from "./many.js";
import { Rows } from "./rows.js";
import { many, minutes, percent } from "./words.js";

/** @typedef {import("./catalogue.js").View} View */

const AGAIN = 2000; // milliseconds until the table looks whether something has changed

/** @type {Catalogue} */
let catalogue;
/** @type {View} */
let view = { ...EVERYTHING };

/** @type {import("./rows.js").Column[]} */
const columns = [
  { name: "number", title: "No.", hint: "Sort by number", fill: (cell, episode) => link(cell, episode, String(episode)) },
  { name: "frames", title: "Frames", sort: false, fill: (cell, episode) => link(cell, episode, make("img", { alt: "", draggable: "false" })) },
  { name: "recommended", title: "Recommended", hint: "Sort by what a memory report would have annotated first", fill: fillRecommended },
  { name: "length", title: "Steps", fill: (cell, episode) => (cell.textContent = String(catalogue.table.lengths[episode])) },
  { name: "solved", title: "Solved", fill: (cell, episode) => (cell.textContent = !catalogue.failed ? "…" : catalogue.failed[episode] ? "no" : "yes") },
  { name: "who", title: "Annotated by", fill: fillLabels },
  { name: "pairs", title: "Pairs", fill: (cell, episode) => (cell.textContent = range(catalogue.labels(episode, whose()).map(({ pairs }) => pairs))) },
  { name: "flagged", title: "Flag", fill: (cell, episode) => cell.replaceChildren(...(catalogue.flagged(episode, whose()) ? [make("span", { role: "img", "aria-label": "flagged" }, "⚑")] : [])) },
  { name: "note", title: "Note", fill: (cell, episode) => (cell.textContent = cell.title = catalogue.note(episode, whose())) },
  { name: "time", title: "Time", hint: "Sort by active time", fill: (cell, episode) => (cell.textContent = minutes(catalogue.seconds(episode, whose()))) },
  { name: "agreement", title: "Agree", hint: "Sort by the lowest pair F1 of two annotators", fill: (cell, episode) => (cell.textContent = percent(catalogue.table.agreement[episode])) },
  { name: "assigned", title: "Assigned", fill: (cell, episode) => (cell.textContent = cell.title = catalogue.assignees(episode).join(", ")) },
  { name: "state", title: "State", fill: fillState },
];
const rows = new Rows(columns, {
  sort: (column) => look({ sort: column, down: view.sort === column && !view.down }),
  moved: (episode) => history.replaceState(null, "", `${location.pathname}${location.search}#${episode}`),
  open,
  picture: (episode) => `/api/episodes/${episode}/glance.png?${catalogue.table.launch}`,
});
const several = new Many({ reload: () => load(), banner, pill });

const whose = () => catalogue.whose(view.who);

/** @param {HTMLElement} cell @param {number} episode @param {Node | string} content */
function link(cell, episode, content) {
  const picture = typeof content !== "string";
  cell.replaceChildren(make("a", { href: `/annotate#${episode}`, tabindex: "-1", ...(picture ? { "aria-hidden": "true" } : { "aria-label": `Demonstration ${episode}` }) }, content));
}

/** @param {HTMLElement} cell @param {number} episode who annotated it, and who is there just now */
function fillLabels(cell, episode) {
  const here = catalogue.table.present.filter(([, place]) => place === episode).map(([name]) => make("span", { class: "chip here", title: `${name} is at this demonstration now` }, `${name} is here`));
  const labels = catalogue.labels(episode, whose()).map(({ name }) => make("span", { class: "chip" }, name));
  cell.title = catalogue.labels(episode, whose()).map(({ name, pairs }) => `${name}: ${counted(pairs, "pair")}`).join(", ");
  cell.replaceChildren(...here, ...labels);
}

/** @param {HTMLElement} cell @param {number} episode */
function fillRecommended(cell, episode) {
  const found = catalogue.recommended.get(episode);
  cell.textContent = found ? `${found.rank}${found.reason && " · "}${found.reason}` : "";
  cell.title = found?.reason ?? "";
}

/** @param {HTMLElement} cell @param {number} episode */
function fillState(cell, episode) {
  const state = catalogue.state(episode);
  const text = catalogue.changed[episode] ? "changed since" : state || "–";
  const change = make("button", { tabindex: "-1", class: "state", "data-state": catalogue.changed[episode] ? "changed" : state, "aria-label": `State of demonstration ${episode}: ${text === "–" ? "none" : text}`, title: "Change the state: to review (R), accepted (A), none (C)" }, text);
  change.addEventListener("click", () => void several.setState([episode], state === "" ? "to review" : state === "to review" ? "accepted" : ""));
  cell.replaceChildren(change);
}

/** @param {number[]} numbers */
function range(numbers) {
  if (!numbers.length) return "";
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  return least === most ? String(least) : `${least}–${most}`;
}

/** Look at something else. @param {Partial<View>} change */
function look(change) {
  view = { ...view, ...change };
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(view)) {
    if (value !== EVERYTHING[/** @type {keyof View} */ (key)]) query.set(key, String(value));
  }
  const search = query.size ? `?${query}` : "";
  history.replaceState(null, "", `${location.pathname}${search}${location.hash}`);
  sessionStorage.setItem("studio.table", search);
  show();
}

function show() {
  const started = performance.now();
  const episodes = catalogue.select(view);
  several.choose(catalogue, episodes);
  rows.show(episodes, view);
  for (const id of ["show", "who", "assigned", "state"]) select(id).value = String(view[/** @type {keyof View} */ (id)]);
  for (const id of ["numbers", "text"]) if (document.activeElement !== byId(id)) input(id).value = String(view[/** @type {keyof View} */ (id)]);
  const people = whose();
  const seconds = episodes.reduce((sum, episode) => sum + catalogue.seconds(episode, people), 0);
  const whole = episodes.length === catalogue.count ? counted(catalogue.count, "demonstration") : `${many(episodes.length)} of ${counted(catalogue.count, "demonstration")}`;
  byId("count").textContent = whole.replace(/\d{4,}/g, (digits) => many(Number(digits)));
  byId("work").textContent = seconds ? `, ${minutes(seconds)} of work` : "";
  byId("with-these").textContent = episodes.length === 1 ? "With this one…" : `With these ${many(episodes.length)}…`;
  /** @type {HTMLButtonElement} */ (byId("with-these")).disabled = !episodes.length;
  document.documentElement.dataset.selectedMs = (performance.now() - started).toFixed(1); // for the benchmark
}

/** Who can be chosen, now that the table is another. */
function fillChoices() {
  const { table } = catalogue;
  const option = (/** @type {string} */ value, /** @type {string} */ text) => make("option", { value }, text);
  select("who").replaceChildren(option("", "anyone"), option(PEOPLE, "people"), ...catalogue.names.map((name) => option(name, name)));
  select("assigned").replaceChildren(option("", "anyone or nobody"), option(NOBODY, "nobody"), ...[...catalogue.assigned.keys()].map((name) => option(name, name)));
  const recommending = table.recommended.length > 0;
  byId("grid").classList.toggle("recommending", recommending);
  byId("grid").setAttribute("aria-colcount", String(recommending ? columns.length : columns.length - 1));
  byId("show-recommended").hidden = !recommending;
  byId("title").textContent = table.title;
  byId("subtitle").textContent = table.name;
  document.title = `${table.title}, table · AttentionTuner studio`;
}

/** @param {[string, number][]} present */
function showPresent(present) {
  catalogue.table.present = present;
  byId("present").replaceChildren(...present.slice(0, 6).map(([name, episode]) => {
    const go = make("button", { class: "chip here", title: `Go to demonstration ${episode}` }, `${name} at ${episode}`);
    go.addEventListener("click", () => goTo(episode));
    return go;
  }));
}

/** @param {number} episode even where it is not among those shown */
function goTo(episode) {
  if (rows.goTo(episode)) return;
  look({ ...EVERYTHING });
  rows.goTo(episode);
}

/** Look what has changed. */
async function load() {
  const annotator = sessionStorage.getItem("studio.annotator");
  const query = new URLSearchParams({ seen: catalogue?.table.stamp ?? "", ...(annotator ? { annotator } : {}) });
  const answer = await ask(`/api/table?${query}`, undefined, { signal: AbortSignal.timeout(60_000) });
  const fresh = "stamp" in answer;
  if (fresh) {
    catalogue = new Catalogue(answer);
    fillChoices();
  }
  const moved = fresh || String(catalogue.table.present) !== String(answer.present);
  if (moved) showPresent(answer.present);
  if (fresh) show();
  else if (moved) rows.refresh();
}

/** The next demonstration of the table, as it is sorted, for which something is true. @param {string} what @param {(episode: number) => unknown} is */
function next(what, is) {
  const { episodes, current } = rows;
  for (let ahead = 1; ahead <= episodes.length; ahead++) {
    const row = (current + ahead) % episodes.length;
    if (is(episodes[row])) return rows.goTo(episodes[row]);
  }
  banner(`No demonstration shown here is ${what}.`, "wait");
}

const nextFlagged = (people = whose()) => next("flagged", (episode) => catalogue.flagged(episode, people));
const nextUnannotated = (people = whose()) => next("without an annotation", (episode) => !catalogue.annotated(episode, people));
const nextDisagreeing = () => next("one on which annotators disagree", (episode) => catalogue.disagreeing(episode));

/** @param {number | null} episode */
function open(episode) {
  if (episode !== null) location.assign(`/annotate#${episode}`);
}

/** @param {string} text @param {"wait" | "bad" | "good"} tone @param {() => void} [undo] */
function banner(text, tone, undo) {
  byId("banner-text").textContent = text;
  byId("banner").dataset.tone = tone;
  byId("banner-undo").hidden = !undo;
  byId("banner-undo").onclick = () => {
    byId("banner").hidden = true;
    undo?.();
  };
  byId("banner").hidden = false;
}

/** @param {string} text @param {"saved" | "saving" | "failed"} state */
function pill(text, state) {
  byId("save-state").textContent = text;
  byId("save-state").dataset.state = state;
}

/** @param {import("./catalogue.js").State} state of the row that the keyboard is at */
const mark = (state) => rows.episode !== null && void several.setState([rows.episode], state);

/** @type {import("./keys.js").Key[]} */
const keys = [
  { keys: ["ArrowUp"], shown: ["↑"], text: "one row up", run: () => rows.go(rows.current - 1) },
  { keys: ["ArrowDown"], shown: ["↓"], text: "one row down", run: () => rows.go(rows.current + 1) },
  { keys: ["PageUp"], shown: ["Page ↑"], text: "a screen up", run: () => rows.go(rows.current - rows.page) },
  { keys: ["PageDown"], shown: ["Page ↓"], text: "a screen down", run: () => rows.go(rows.current + rows.page) },
  { keys: ["Home"], shown: ["Home"], text: "first row", run: () => rows.go(0) },
  { keys: ["End"], shown: ["End"], text: "last row", run: () => rows.go(Infinity) },
  { keys: ["Enter"], shown: ["Enter"], text: "open the demonstration", run: () => open(rows.episode) },
  { keys: ["f"], shown: ["F"], text: "next flagged", run: () => nextFlagged() },
  { keys: ["u"], shown: ["U"], text: "next not annotated", run: () => nextUnannotated() },
  { keys: ["d"], shown: ["D"], text: "next on which annotators disagree", run: nextDisagreeing },
  { keys: ["r"], shown: ["R"], text: "state: to review", run: () => mark("to review") },
  { keys: ["a"], shown: ["A"], text: "state: accepted", run: () => mark("accepted") },
  { keys: ["c"], shown: ["C"], text: "state: none", run: () => mark("") },
  { keys: ["w"], shown: ["W"], text: "something with all that are shown", run: () => several.show() },
  { keys: ["/"], shown: ["/"], text: "search", run: () => byId("text").focus() },
  { keys: ["?"], shown: ["?"], text: "what to do here, and all keys", run: () => dialog("help").showModal() },
];

function begin() {
  for (const [key, value] of new URLSearchParams(location.search)) {
    if (key in view) view = { ...view, [key]: key === "down" ? value === "true" : value };
  }
  for (const id of ["show", "who", "assigned", "state"]) select(id).addEventListener("change", () => look({ [id]: select(id).value }));
  for (const id of ["numbers", "text"]) input(id).addEventListener("input", () => look({ [id]: input(id).value }));
  const click = (/** @type {string} */ id, /** @type {() => void} */ run) => byId(id).addEventListener("click", run);
  click("everything", () => look({ ...EVERYTHING, sort: view.sort, down: view.down }));
  click("next-flagged", () => nextFlagged());
  click("next-unannotated", () => nextUnannotated());
  click("next-disagreeing", nextDisagreeing);
  click("with-these", () => several.show());
  click("show-help", () => dialog("help").showModal());
  click("banner-close", () => (byId("banner").hidden = true));
  if (matchMedia("(max-width: 700px)").matches) byId("filters").removeAttribute("open");
  listen(keys, () => !catalogue || document.querySelector("dialog[open]") !== null, () => false);
  fillHelp(keys);
  matchMedia("(max-width: 700px)").addEventListener("change", () => rows.refresh());
}

async function watch() {
  try {
    if (!document.hidden) await load();
    if (byId("save-state").dataset.state === "failed") pill("saved", "saved");
  } catch (problem) {
    pill(problem instanceof Refused ? problem.message : String(problem), "failed");
  }
  setTimeout(() => void watch(), AGAIN);
}

begin();
load()
  .then(() => {
    sessionStorage.setItem("studio.table", location.search);
    if (location.hash) rows.goTo(Number(location.hash.slice(1)));
    addEventListener("focus", () => void load().catch(() => undefined));
    setTimeout(() => void watch(), AGAIN);
  })
  .catch((problem) => banner(`The table cannot be opened: ${problem.message}`, "bad"));
