// What the two drawings share: a canvas in device pixels, and the page's colours.

/**
 * Make the canvas as sharp as the screen and clear it.
 * @param {HTMLCanvasElement} canvas
 * @returns {{ink: CanvasRenderingContext2D, width: number, height: number}} sizes in CSS pixels
 */
export function prepare(canvas) {
  colours.clear(); // light may have become dark since the last drawing
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const ink = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  ink.clearRect(0, 0, width, height);
  return { ink, width, height };
}

/** @type {Map<string, string>} */
const colours = new Map();

/** @param {string} name of a colour in base.css, without the dashes */
export function colour(name) {
  let value = colours.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    colours.set(name, value);
  }
  return value;
}

/** @param {number} length @returns {number} steps between two labelled ticks */
export function tickDistance(length) {
  return length <= 30 ? 5 : length <= 90 ? 10 : length <= 220 ? 20 : Math.ceil(length / 10 / 50) * 50;
}
