// Showing one step of a demonstration, from its sprite sheets, as a background.

/** @typedef {import("./types.js").Sprites} Sprites */

/** @param {HTMLElement} element @param {string} base address of the sheets @param {string} launch @param {Sprites} sprites @param {number} step */
export function showSprite(element, base, launch, sprites, step) {
  const { columns: most, perSheet, count } = sprites;
  const cell = sprites.cells[step];
  const sheet = Math.floor(cell / perSheet);
  const place = cell % perSheet;
  const onSheet = Math.min(perSheet, count - sheet * perSheet);
  const columns = Math.min(most, onSheet);
  const rows = Math.ceil(onSheet / columns);
  const x = columns > 1 ? ((place % columns) / (columns - 1)) * 100 : 0;
  const y = rows > 1 ? (Math.floor(place / columns) / (rows - 1)) * 100 : 0;
  element.style.backgroundImage = `url("${base}/${sheet}.png?${launch}")`;
  element.style.backgroundSize = `${columns * 100}% ${rows * 100}%`;
  element.style.backgroundPosition = `${x}% ${y}%`;
}
