// What the drawings share: a canvas in device pixels, a layer that is drawn once, and the page's colours.

/**
 * Make the canvas as sharp as the screen and clear it.
 * @param {HTMLCanvasElement} canvas
 * @returns {{ink: CanvasRenderingContext2D, width: number, height: number}} sizes in CSS pixels
 */
export function prepare(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  return { ink: sharpen(canvas, width, height), width, height };
}

/** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
function sharpen(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const ink = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  ink.clearRect(0, 0, width, height);
  return ink;
}

/** A drawing that changes seldom, kept as a picture: moving about in a long demonstration must not draw it again. */
export class Layer {
  constructor() {
    this.canvas = document.createElement("canvas");
    /** @type {any[]} */ this.made = [];
  }

  /**
   * Put the layer on a canvas; it is drawn anew where one of `content` is another than the last time.
   * @param {CanvasRenderingContext2D} onto @param {number} width @param {number} height @param {any[]} content
   * @param {(ink: CanvasRenderingContext2D) => void} draw
   */
  show(onto, width, height, content, draw) {
    const now = [width, height, devicePixelRatio, colour("ink"), ...content];
    if (now.length !== this.made.length || now.some((value, place) => value !== this.made[place])) {
      this.made = now;
      draw(sharpen(this.canvas, width, height));
    }
    if (width && height) onto.drawImage(this.canvas, 0, 0, width, height);
  }
}

/** @type {Map<string, string>} */
const colours = new Map();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => colours.clear());

/** @param {string} name of a colour in base.css, without the dashes */
export function colour(name) {
  let value = colours.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    colours.set(name, value);
  }
  return value;
}

/** Steps between two labelled ticks: 1, 2 or 5 times a power of ten. @param {number} span steps in view @param {number} most labels there is room for */
export function tickDistance(span, most) {
  let power = 1;
  for (;;) {
    for (const times of [1, 2, 5]) if (span / (times * power) <= most) return times * power;
    power *= 10;
  }
}
