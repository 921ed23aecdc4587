// Who is where: the annotation page tells which demonstration it shows, and leads to the table and back.

import { ask } from "./api.js";
import { byId, input, isTyping, make } from "./dom.js";

const LOOK = 1000; // milliseconds after which it is seen that another demonstration is open
const SPEAK = 20_000; // milliseconds after which the page says again that it is there

const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;
const own = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16)).join("");
let told = "";
let spoke = 0;
let annotator = "";

/** @param {boolean} leaving */
function tell(leaving) {
  const field = input("annotator");
  // A name that is being typed is nobody's yet.
  if (NAME.test(field.value) && document.activeElement !== field) annotator = field.value;
  const episode = location.hash.slice(1);
  if (!annotator || !/^\d+$/.test(episode)) return;
  const now = `${annotator} ${episode}`;
  if (!leaving && (document.hidden || now === told) && performance.now() - spoke < SPEAK) return;
  [told, spoke] = [leaving ? "" : now, performance.now()];
  void ask("/api/here", { window: own, annotator, episode: Number(episode), leaving }, { keepalive: true }).catch(() => undefined);
}

/** The table as it was left, at the demonstration that is open. */
function tableAddress() {
  return `/table${sessionStorage.getItem("studio.table") ?? ""}${location.hash}`;
}

byId("to-table").addEventListener("click", () => byId("to-table").setAttribute("href", tableAddress()));
byId("help-keys").append(make("dt", {}, make("kbd", {}, "M")), make("dd", {}, "all demonstrations as a table"));
addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "m" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  byId("to-table").click();
});
setInterval(() => tell(false), LOOK);
addEventListener("pagehide", () => tell(true));
