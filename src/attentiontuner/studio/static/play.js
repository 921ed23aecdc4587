// Playing an episode: one step per key press, unless the studio was started in real time.

import { Activity } from "./activity.js";
import { ask, Refused } from "./api.js";
import { button, byId, counted, dialog, input, isForButton, isTyping, make } from "./dom.js";

/**
 * @typedef {{
 *   seed: number, step: number, maxSteps: number, lastAction: string | null, ended: boolean, success: boolean, resumed: boolean,
 *   saved: number, savedSeeds: number[], comingSeeds: number[], frame: string
 * }} Play
 * @typedef {{title: string, actions: string[], keys: Record<string, number>, image: boolean, stepsPerSecond: number | null}} Game
 */

const KEY_NAMES = /** @type {Record<string, string>} */ ({ ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "Space" });

const activity = new Activity();
/** @type {Game & Play | null} */
let game = null;
/** One request after the other, in the order of the keys. @type {Promise<void>} */
let line = Promise.resolve();
/** @type {number | null} the action of the key that is held, in real time */
let held = null;
/** Whether a request is under way; a held key does not pile up steps behind a slow one. */
let working = false;

/** @param {string} text @param {string} state */
function pill(text, state) {
  byId("save-state").textContent = text;
  byId("save-state").dataset.state = state;
}

/** Ask before something is lost; a dialog that is closed means no. @param {string} title @param {string} text @param {string} yes @returns {Promise<boolean>} */
function sure(title, text, yes) {
  const box = dialog("sure");
  byId("sure-heading").textContent = title;
  byId("sure-text").textContent = text;
  button("sure-yes").textContent = yes;
  held = null;
  answered(false); // whoever still asks
  if (!box.open) box.showModal();
  return new Promise((resume) => (answered = resume));
}

/** @type {(yes: boolean) => void} */
let answered = () => undefined;
button("sure-yes").addEventListener("click", () => answered(true));
button("sure-no").addEventListener("click", () => answered(false));
// `close` comes late, when another question may be open by then; `cancel` comes at once, but not always.
dialog("sure").addEventListener("cancel", () => answered(false));
dialog("sure").addEventListener("close", () => dialog("sure").open || answered(false));

/** Whether what has been played may go: at once where that is nothing. @param {string} what will happen */
async function mayDrop(what) {
  await line;
  if (!game || !game.step) return true;
  const played = counted(game.step, "step");
  const state = game.ended ? `This episode has ended (${game.success ? "solved" : "not solved"}) and is not saved.` : "This episode is not over.";
  return sure(what, `${state} Its ${played} will be gone.`, "Drop the episode");
}

/** @param {() => Promise<Partial<Play>>} work */
function enqueue(work) {
  working = true;
  line = line.then(async () => {
    working = true;
    try {
      game = /** @type {Game & Play} */ ({ ...game, ...(await work()) });
      if (byId("save-state").dataset.state === "failed") pill("ready", "saved");
      draw();
    } catch (problem) {
      const refused = problem instanceof Refused ? problem : new Refused(0, String(problem));
      if (refused.status === 409) game = await ask("/api/play");
      else pill(refused.message, "failed");
      draw();
    }
    working = false;
  });
  return line;
}

/** @param {number} action */
function act(action) {
  return enqueue(async () => (game && !game.ended ? ask("/api/play/step", { action, made: game.step }) : {}));
}

/** @param {number | null} seed */
async function start(seed) {
  if (!(await mayDrop(seed === null ? "Go to the next seed?" : `Start seed ${seed}?`))) return;
  activity.restart();
  return enqueue(() => ask("/api/play/start", seed === null ? {} : { seed }));
}

async function discard() {
  if (!(await mayDrop("Start over?"))) return;
  activity.restart();
  return enqueue(() => ask("/api/play/discard", {}));
}

let saving = false;
/** Save the ended episode: sent again until the studio answers, and made once. */
async function save() {
  if (!game?.ended || saving) return;
  const why = "The task was not solved. Training leaves such episodes out unless it is told to include them.";
  if (!game.success && !(await sure("Save a failed episode?", why, "Save it"))) return;
  saving = true;
  const body = { seconds: activity.take(), seed: game.seed, made: game.step };
  pill("saving", "saving");
  await enqueue(() => saveUntilAnswered(body));
  saving = false;
}

/** @param {{seconds: number, seed: number, made: number}} body */
async function saveUntilAnswered(body) {
  for (let pause = 500; ; pause = Math.min(pause * 2, 4000)) {
    try {
      const answer = await ask("/api/play/save", body);
      pill(`saved as demonstration ${answer.episode}`, "saved");
      activity.restart();
      return answer;
    } catch (problem) {
      const status = problem instanceof Refused ? problem.status : 0;
      if (status && status !== 401 && status < 500) throw problem;
      pill(status === 401 ? "The studio was started anew: open the address it printed. Then this episode is saved." : "failed, retrying: the studio does not answer", "failed");
      await new Promise((resume) => setTimeout(resume, pause));
    }
  }
}

function draw() {
  if (!game) return;
  /** @type {HTMLImageElement} */ (byId("frame")).src = game.frame;
  byId("frame").classList.toggle("smooth", !game.image);
  const screen = /** @type {HTMLElement} */ (byId("frame").parentElement);
  screen.className = `screen ${game.ended ? (game.success ? "won" : "lost") : ""}`;
  const doing = game.resumed ? "This is where you were when the studio ended." : game.lastAction ? `Last action: ${game.lastAction}.` : "Press a key to begin.";
  byId("status").textContent = game.ended
    ? `${game.success ? "Solved" : "Not solved"} after ${counted(game.step, "step")}.`
    : `Step ${game.step} of at most ${game.maxSteps}. ${doing}`;
  byId("ended").hidden = !game.ended;
  byId("subtitle").textContent = `seed ${game.seed}`;
  if (document.activeElement !== input("seed")) input("seed").value = String(game.seed);
  byId("seeds").replaceChildren(...game.comingSeeds.map((seed) => make("option", { value: String(seed) })));
  byId("saved").textContent = `${game.saved} episode${game.saved === 1 ? "" : "s"}`;
  byId("saved-seeds").textContent = game.savedSeeds.length ? `Latest seeds: ${game.savedSeeds.join(", ")}` : "An episode is saved only when you say so.";
  byId("annotate").hidden = game.saved === 0;
  document.documentElement.dataset.step = String(game.step);
  document.documentElement.dataset.ended = String(game.ended);
}

function build() {
  if (!game) return;
  byId("title").textContent = `Play ${game.title}`;
  document.title = `Play ${game.title} · AttentionTuner studio`;
  const rows = Object.entries(game.keys).map(([key, action]) => {
    const cap = make("button", { "data-key": key }, make("kbd", {}, KEY_NAMES[key] ?? key.toUpperCase()), game?.actions[action] ?? String(action));
    cap.addEventListener("click", () => {
      void act(action);
      cap.blur();
    });
    return make("li", {}, cap);
  });
  byId("keys").replaceChildren(...rows);
  byId("pace").textContent = game.stepsPerSecond ? `Real time: ${counted(game.stepsPerSecond, "step")} a second while a key is held.` : "One press is one step; take all the time you need.";
}

/** @param {string} key @param {boolean} down */
function press(key, down) {
  for (const cap of document.querySelectorAll("[data-key]")) {
    if (/** @type {HTMLElement} */ (cap).dataset.key === key) cap.classList.toggle("pressed", down);
  }
}

addEventListener("keydown", (event) => {
  if (!game || dialog("sure").open || isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  const action = game.keys[event.key] ?? game.keys[event.key.toLowerCase()];
  if (isForButton(event)) return;
  if (action !== undefined) {
    event.preventDefault();
    press(event.key, true);
    if (event.repeat) return;
    if (game.stepsPerSecond) held = action;
    void act(action);
  } else if (event.key === "Enter" && game.ended) void save();
  else if (event.key === "Backspace") void discard();
  else if (event.key.toLowerCase() === "n") void start(null);
  else return;
  event.preventDefault();
});

addEventListener("keyup", (event) => {
  press(event.key, false);
  if (game && (game.keys[event.key] ?? game.keys[event.key.toLowerCase()]) === held) held = null;
});

button("save").addEventListener("click", () => void save());
button("discard").addEventListener("click", () => void discard());
button("restart").addEventListener("click", (event) => {
  void discard();
  /** @type {HTMLElement} */ (event.currentTarget).blur();
});
button("skip").addEventListener("click", (event) => {
  void start(null);
  /** @type {HTMLElement} */ (event.currentTarget).blur();
});
button("start").addEventListener("click", (event) => {
  const seed = Number(input("seed").value);
  if (Number.isInteger(seed) && seed >= 0) void start(seed);
  /** @type {HTMLElement} */ (event.currentTarget).blur();
});
input("seed").addEventListener("keydown", (event) => {
  if (event.key === "Enter") button("start").click();
});

void enqueue(() => ask("/api/play")).then(() => {
  build();
  if (game?.stepsPerSecond) setInterval(() => held !== null && !working && void act(held), 1000 / game.stepsPerSecond);
});
