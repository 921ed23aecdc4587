// The keys of the annotation page: one table for what they do and for the help that lists them.

import { byId, isForButton, isTyping, make } from "./dom.js";

/**
 * @typedef {{keys: string[], shown: string[], text: string, run: (event: KeyboardEvent) => void, shift?: boolean,
 *            ctrl?: boolean, always?: boolean}} Key
 *   `shift`: true or false where it matters whether Shift is held; `ctrl`: only with Ctrl; `always`: while a
 *   demonstration is being opened, too
 */

/**
 * @param {Key[]} table
 * @param {() => boolean} blocked whether a dialog is open
 * @param {() => boolean} opening whether the keys that change something must wait; it says so
 */
export function listen(table, blocked, opening) {
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isTyping(event.target)) {
      /** @type {HTMLElement} */ (event.target).blur();
      return;
    }
    if (blocked() || isTyping(event.target) || event.isComposing || event.altKey) return;
    const ctrl = event.ctrlKey || event.metaKey;
    if (ctrl && !["z", "y"].includes(event.key.toLowerCase())) return;
    // Enter and Space belong to a focused button, except on the thumbnails, where Enter adds.
    if (isForButton(event) && !(/** @type {HTMLElement} */ (event.target).classList.contains("step"))) return;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const found = table.find(
      (key) => key.keys.includes(name) && (key.shift === undefined || key.shift === event.shiftKey) && (!key.ctrl || ctrl),
    );
    if (!found) return;
    event.preventDefault();
    // The next demonstration is on its way: what is pressed now was meant for it, and would change the one being left.
    if (!found.always && opening()) return;
    found.run(event);
  });
}

/** @param {Key[]} table */
export function fillHelp(table) {
  const rows = table.flatMap(({ shown, text }) => [make("dt", {}, ...shown.map((key) => make("kbd", {}, key))), make("dd", {}, text)]);
  byId("help-keys").replaceChildren(...rows);
}
