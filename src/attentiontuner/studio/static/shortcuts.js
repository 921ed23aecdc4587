// The keys of the annotation page.

import { byId, dialog } from "./dom.js";
import { fillHelp, listen } from "./keys.js";

/**
 * @typedef {{
 *   editor: import("./editor.js").Editor, suggestions: import("./suggestions.js").Suggestions,
 *   transport: import("./transport.js").Transport, strip: import("./strip.js").Strip,
 *   move: (step: number) => void, neighbour: (difference: number) => void, goToNextOpen: () => void, goToNextRecommended: () => void, undo: () => void,
 *   redo: () => void, nothing: () => void, flag: () => void, agreement: () => void
 * }} Parts
 */

/** @param {import("./model.js").Model} model @param {Parts} parts @param {() => boolean} mustWait */
export function useKeys(model, parts, mustWait) {
  const { editor, suggestions, transport, strip, move } = parts;
  const by = (/** @type {KeyboardEvent} */ event) => (event.shiftKey ? 10 : 1);
  const go = (/** @type {number} */ step) => {
    transport.stop();
    move(step);
  };
  /** @type {import("./keys.js").Key[]} */
  const keys = [
    { keys: ["ArrowLeft"], shown: ["←"], text: "one step back, with Shift ten", run: (event) => go(model.cursor - by(event)) },
    { keys: ["ArrowRight"], shown: ["→"], text: "one step on, with Shift ten", run: (event) => go(model.cursor + by(event)) },
    { keys: ["ArrowUp"], shown: ["↑"], text: "one row up", run: () => go(model.cursor - strip.perRow) },
    { keys: ["ArrowDown"], shown: ["↓"], text: "one row down", run: () => go(model.cursor + strip.perRow) },
    { keys: ["Home"], shown: ["Home"], text: "first step", run: () => go(0) },
    { keys: ["End"], shown: ["End"], text: "last step", run: () => go(model.length - 1) },
    { keys: ["j"], shown: ["J"], text: "jump to a step by its number", run: () => transport.ask() },
    { keys: ["v"], shown: ["V"], text: "play and pause", run: () => transport.toggle() },
    { keys: ["i"], shown: ["I"], text: "zoom in", run: () => transport.zoom(1) },
    { keys: ["o"], shown: ["O"], text: "zoom out", run: () => transport.zoom(-1) },
    { keys: ["p"], shown: ["P"], text: "mark the step that was recalled", run: () => editor.mark("p") },
    { keys: ["q"], shown: ["Q"], text: "mark the step that used it", run: () => editor.mark("q") },
    { keys: ["Enter"], shown: ["Enter"], text: "add the pair or the range; accept a selected suggestion", run: () => editor.enter() },
    { keys: ["Delete", "Backspace"], shown: ["Delete"], text: "remove the pair or the range; reject a selected suggestion", run: () => editor.remove() },
    { keys: ["s"], shown: ["S"], text: "begin a range of steps; the arrows widen it", run: () => editor.beginRange() },
    { keys: ["b"], shown: ["B"], text: "everything before this step, or before each of the range", run: () => editor.before() },
    { keys: ["l"], shown: ["L"], text: "every step that looks like this one", run: () => editor.alike() },
    { keys: ["h"], shown: ["H"], text: "a range is one step somewhere here, or every step", run: () => editor.toggleSomewhere() },
    { keys: ["r"], shift: false, shown: ["R"], text: "one more pair at the same distance", run: () => editor.repeat(false) },
    { keys: ["r"], shift: true, shown: ["Shift", "R"], text: "the same to the end", run: () => editor.repeat(true) },
    { keys: ["Escape"], shown: ["Esc"], text: "let go of what is marked", run: () => editor.release() },
    { keys: ["["], shown: ["["], text: "select the previous pair", run: () => editor.selectNext(-1) },
    { keys: ["]"], shown: ["]"], text: "select the next pair", run: () => editor.selectNext(1) },
    { keys: ["-"], shown: ["−"], text: "the selected or last pair counts once less", run: () => editor.count(-1) },
    { keys: ["+", "="], shown: ["+"], text: "the selected or last pair counts once more", run: () => editor.count(1) },
    { keys: ["z"], shift: false, shown: ["Z"], text: "undo", run: parts.undo },
    { keys: ["z"], shift: true, shown: ["Shift", "Z"], text: "redo, as Ctrl+Y", run: parts.redo },
    { keys: ["y"], ctrl: true, shown: [], text: "", run: parts.redo },
    { keys: ["a"], shown: ["A"], text: "accept all suggestions", run: () => suggestions.acceptAll() },
    { keys: ["x"], shown: ["X"], text: "reject all suggestions", run: () => suggestions.rejectAll() },
    { keys: ["0"], shown: ["0"], text: "nothing to remember here", run: parts.nothing },
    { keys: ["k"], shown: ["K"], text: "keep p, q or neither after adding", run: () => editor.cycleKeep() },
    { keys: ["f"], shown: ["F"], text: "flag this demonstration", run: parts.flag },
    { keys: ["t"], shown: ["T"], text: "write a note", run: () => byId("note").focus() },
    { keys: ["n"], always: true, shown: ["N"], text: "next demonstration that is not annotated", run: parts.goToNextOpen },
    { keys: ["e"], always: true, shown: ["E"], text: "next demonstration of those a memory report recommends", run: parts.goToNextRecommended },
    { keys: [","], always: true, shown: [","], text: "previous demonstration", run: () => parts.neighbour(-1) },
    { keys: ["."], always: true, shown: ["."], text: "next demonstration", run: () => parts.neighbour(1) },
    { keys: ["g"], shown: ["G"], text: "compare two annotators", run: parts.agreement },
    { keys: ["?"], always: true, shown: ["?"], text: "all keys", run: () => dialog("help").showModal() },
  ];
  listen(keys, () => !model.episode || document.querySelector("dialog[open]") !== null, mustWait);
  fillHelp(keys.filter(({ shown }) => shown.length));
}
