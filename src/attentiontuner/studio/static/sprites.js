// Showing one step of the sprite sheet as a background.

/** @typedef {import("./types.js").Sprites} Sprites */

/** @param {HTMLElement} element @param {string} url @param {Sprites} sprites @param {number} step */
export function showSprite(element, url, sprites, step) {
  const cell = sprites.cells[step];
  const column = cell % sprites.columns;
  const row = Math.floor(cell / sprites.columns);
  const x = sprites.columns > 1 ? (column / (sprites.columns - 1)) * 100 : 0;
  const y = sprites.rows > 1 ? (row / (sprites.rows - 1)) * 100 : 0;
  element.style.backgroundImage = `url("${url}")`;
  element.style.backgroundSize = `${sprites.columns * 100}% ${sprites.rows * 100}%`;
  element.style.backgroundPosition = `${x}% ${y}%`;
}
