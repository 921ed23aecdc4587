// What to do here: the task in a few sentences, with a pair in pictures. Shown at first, and under "?".

import { ask } from "./api.js";
import { byId, dialog, isTyping, make } from "./dom.js";

const READ = "studio.instructed"; // the tasks whose instructions this browser's owner has read

/** @typedef {{task: string, title: string, goal: string, p: string, q: string, advice: string, example: {p: number, q: number} | null}} Told */

/** @param {Told} told */
function page({ title, goal, p, q, advice, example }) {
  const moment = (/** @type {"p" | "q"} */ end, /** @type {string} */ text) => {
    const step = example && `Step ${example[end]} of an example`;
    const picture = step ? [make("img", { src: `/api/instructions/${end}.png`, alt: step })] : [];
    const caption = [make("span", { class: `mark ${end}` }, end), ` ${text}`, ...(step ? [make("span", { class: "quiet" }, ` ${step}.`)] : [])];
    return make("figure", {}, ...picture, make("figcaption", {}, ...caption));
  };
  return make(
    "section",
    { class: "instructions", "aria-labelledby": "instructions-heading" },
    make("h2", { id: "instructions-heading" }, `What to do here: ${title}`),
    make("p", {}, goal),
    make("div", { class: "moments" }, moment("p", p), moment("q", q)),
    ...(advice ? [make("p", { class: "advice" }, advice)] : []),
  );
}

/** The page for playing has no dialog of keys: one is made, with a button for it. */
function ownDialog() {
  const keys = make("ul", { class: "keylist", "aria-label": "Keys" });
  const close = make("button", { autofocus: "" }, "Close ", make("kbd", {}, "Esc"));
  document.body.append(make("dialog", { id: "help", "aria-labelledby": "instructions-heading" }, keys, make("form", { method: "dialog" }, close)));
  const show = make("button", { class: "icon", id: "show-help", "aria-label": "What to do here", title: "What to do here  (?)" }, "?");
  show.addEventListener("click", open);
  document.querySelector(".tools")?.append(show);
  addEventListener("keydown", (event) => {
    if (event.key === "?" && !isTyping(event.target) && !document.querySelector("dialog[open]")) open();
  });
  // What is pressed here is not played. (Just after it is closed the focus is still in it.)
  byId("help").addEventListener("keydown", (event) => dialog("help").open && event.stopPropagation());
}

function open() {
  const keys = [...document.querySelectorAll("#keys [data-key]")].map((key) => make("li", {}, ...[...key.childNodes].map((node) => node.cloneNode(true))));
  document.querySelector("#help .keylist")?.replaceChildren(...keys);
  dialog("help").showModal();
}

/** @returns {string[]} */
function read() {
  try {
    return JSON.parse(localStorage.getItem(READ) ?? "[]");
  } catch {
    return [];
  }
}

async function begin() {
  /** @type {Told} */
  const told = await ask("/api/instructions", undefined, { signal: AbortSignal.timeout(60_000) });
  if (!document.getElementById("help")) ownDialog();
  byId("help").prepend(page(told));
  const known = read();
  if (known.includes(told.task) || known.includes("*") || document.querySelector("dialog[open]")) return;
  open();
  dialog("help").addEventListener("close", () => localStorage.setItem(READ, JSON.stringify([...read(), told.task])), { once: true });
}

// Without instructions everything else works.
begin().catch(() => undefined);
