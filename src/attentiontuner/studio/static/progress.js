// How far the work is, on a page that can be printed.

import { ask } from "./api.js";
import { button, byId, make } from "./dom.js";
import { EVERYTHING, Catalogue, PEOPLE } from "./catalogue.js";
import { many, minutes, percent } from "./words.js";

const LISTED = 100; // flagged demonstrations; more would fill pages

/** @param {Catalogue} catalogue */
function report(catalogue) {
  const { table } = catalogue;
  const select = (/** @type {Partial<import("./catalogue.js").View>} */ view) => catalogue.select({ ...EVERYTHING, ...view }).length;
  const people = catalogue.whose(PEOPLE);
  const [count, annotated, flagged] = [catalogue.count, select({ show: "annotated", who: PEOPLE }), select({ show: "flagged" })];
  const [accepted, changed, review] = [select({ state: "accepted" }), select({ state: "changed" }), select({ state: "to review" })];
  const seconds = people.reduce((sum, { seconds }) => sum + seconds.reduce((a, b) => a + b, 0), 0);
  const both = table.agreement.filter((value) => value !== null);
  const figure = (/** @type {string} */ value, /** @type {string} */ text) => make("div", {}, make("strong", {}, value), make("span", {}, text));
  return [
    make("p", { class: "quiet" }, `${table.title}, ${table.name}, ${new Date().toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" })}`),
    make("div", { class: "figures" },
      figure(many(count), "demonstrations"), figure(many(annotated), "annotated by people"), figure(many(review), "to review"),
      figure(many(accepted), changed ? `accepted, ${many(changed)} changed since` : "accepted"), figure(many(flagged), "flagged"), figure(minutes(seconds) || "–", "of work"),
      figure(both.length ? percent(both.reduce((a, b) => Number(a) + Number(b), 0) / both.length) : "–", `agreement, ${many(both.length)} by two or more`)),
    share(count, annotated, accepted),
    make("h2", {}, "Who"),
    whoTable(catalogue),
    make("h2", {}, "Flagged"),
    flaggedTable(catalogue, flagged),
  ];
}

/** @param {number} count @param {number} annotated @param {number} accepted */
function share(count, annotated, accepted) {
  const bar = make("div", { class: "share", role: "img", "aria-label": `${percent(annotated / count)} annotated by people, ${percent(accepted / count)} accepted` });
  for (const [name, part] of /** @type {const} */ ([["accepted", accepted], ["annotated", Math.max(0, annotated - accepted)]])) {
    const piece = make("i", { class: name });
    piece.style.width = `${(100 * part) / count}%`;
    bar.append(piece);
  }
  const legend = make("p", { class: "legend" }, make("i", { class: "accepted" }), "accepted", make("i", { class: "annotated" }), "annotated by people", make("i", { class: "open" }), "open");
  return make("div", {}, bar, legend);
}

/** @param {Catalogue} catalogue */
function whoTable(catalogue) {
  const names = [...new Set([...catalogue.names, ...catalogue.assigned.keys()])].sort();
  const rows = names.map((name) => {
    const person = catalogue.table.people[name];
    const mine = catalogue.assigned.get(name);
    const assigned = mine ? mine.reduce((sum, one) => sum + one, 0) : 0;
    const done = mine ? mine.reduce((sum, one, episode) => sum + (one && (catalogue.people.get(name)?.pairs[episode] ?? -1) >= 0 ? 1 : 0), 0) : 0;
    const seconds = person?.seconds.reduce((a, b) => a + b, 0) ?? 0;
    const timed = person?.seconds.filter(Boolean).length ?? 0;
    return [
      catalogue.table.scripts.includes(name) ? `${name} (no person)` : name, many(person?.episodes.length ?? 0), many(person?.pairs.reduce((a, b) => a + b, 0) ?? 0),
      assigned ? `${many(done)} of ${many(assigned)}` : "", minutes(seconds), timed ? minutes(seconds / timed) : "", many(person?.flagged.length ?? 0),
    ];
  });
  return tableOf(["Name", "Annotated", "Pairs", "Assigned, done", "Time", "each", "Flagged"], rows);
}

/** @param {Catalogue} catalogue @param {number} count */
function flaggedTable(catalogue, count) {
  if (!count) return make("p", { class: "quiet" }, "Nothing is flagged.");
  const shown = catalogue.select({ ...EVERYTHING, show: "flagged" }).slice(0, LISTED);
  const everybody = catalogue.whose("");
  const rows = shown.map((episode) => {
    const by = everybody.filter(({ flagged }) => flagged[episode]).map(({ name }) => name);
    return [make("a", { href: `/annotate#${episode}` }, String(episode)), by.join(", "), catalogue.note(episode, everybody)];
  });
  const more = count > shown.length ? [make("p", { class: "quiet" }, `and ${many(count - shown.length)} more`)] : [];
  return make("div", {}, tableOf(["No.", "By", "Note"], rows, 0), ...more);
}

/** @param {string[]} heads @param {(string | Node)[][]} rows @param {number} [words] columns of words before those of figures */
function tableOf(heads, rows, words = 1) {
  const kind = (/** @type {number} */ index) => ({ class: words && index >= words ? "figure" : "" });
  const head = make("tr", {}, ...heads.map((text, index) => make("th", { scope: "col", ...kind(index) }, text)));
  const lines = rows.map((row) => make("tr", {}, ...row.map((content, index) => make("td", kind(index), content))));
  return make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": heads[0] === "Name" ? "Who" : "Flagged" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines)));
}

button("print").addEventListener("click", () => print());
byId("to-table").setAttribute("href", `/table${sessionStorage.getItem("studio.table") ?? ""}`);
ask("/api/table", undefined, { signal: AbortSignal.timeout(60_000) })
  .then((table) => {
    const catalogue = new Catalogue(table);
    byId("title").textContent = `${table.title}: progress`;
    byId("subtitle").textContent = table.name;
    document.title = `${table.title}, progress · AttentionTuner studio`;
    byId("report").replaceChildren(...report(catalogue));
  })
  .catch((problem) => byId("report").replaceChildren(make("p", {}, `The progress cannot be shown: ${problem.message}`)));
