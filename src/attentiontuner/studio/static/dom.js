// Finding and making elements.

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element #${id}`);
  return found;
}

/** @param {string} id */
export const button = (id) => /** @type {HTMLButtonElement} */ (byId(id));
/** @param {string} id */
export const input = (id) => /** @type {HTMLInputElement} */ (byId(id));
/** @param {string} id */
export const select = (id) => /** @type {HTMLSelectElement} */ (byId(id));
/** @param {string} id */
export const dialog = (id) => /** @type {HTMLDialogElement} */ (byId(id));

/**
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A number of things: "1 pair", "2 pairs". @param {number} number @param {string} noun */
export const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** Whether keys belong to what is being typed in. @param {EventTarget | null} target */
export function isTyping(target) {
  return (
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement ||
    (target instanceof HTMLInputElement && target.type !== "checkbox")
  );
}

/**
 * Whether a key is the focused button's own: Enter and Space are. A button of a dialog that was closed keeps the focus until the
 * page is drawn again; keys pressed by then are not for it.
 * @param {KeyboardEvent} event
 */
export function isForButton(event) {
  if (event.key !== "Enter" && event.key !== " ") return false;
  return event.target instanceof HTMLButtonElement && event.target.closest("dialog:not([open])") === null;
}
