// The keys of the annotation page: one table for what they do and for the help that lists them.

import { byId, isTyping, make } from "./dom.js";

/**
 * @typedef {{keys: string[], shown: string[], text: string, run: (event: KeyboardEvent) => void, shift?: boolean}} Key
 *   `shift`: true or false where it matters whether Shift is held
 */

/** @param {Key[]} table @param {() => boolean} blocked whether a dialog is open */
export function listen(table, blocked) {
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isTyping(event.target)) {
      /** @type {HTMLElement} */ (event.target).blur();
      return;
    }
    if (blocked() || isTyping(event.target) || event.altKey) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() !== "z") return;
    // Enter and Space belong to a focused button, except on the thumbnails, where Enter adds.
    const onButton = event.target instanceof HTMLButtonElement && !event.target.classList.contains("step");
    if (onButton && (event.key === "Enter" || event.key === " ")) return;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const found = table.find(({ keys, shift }) => keys.includes(name) && (shift === undefined || shift === event.shiftKey));
    if (!found) return;
    event.preventDefault();
    found.run(event);
  });
}

/** @param {Key[]} table */
export function fillHelp(table) {
  const rows = table.flatMap(({ shown, text }) => [make("dt", {}, ...shown.map((key) => make("kbd", {}, key))), make("dd", {}, text)]);
  byId("help-keys").replaceChildren(...rows);
}
