// The rows of the table that are in view, and no others: ten thousand demonstrations are as quick as ten.

import { byId, make } from "./dom.js";

/**
 * @typedef {import("./catalogue.js").Catalogue} Catalogue
 * @typedef {import("./catalogue.js").View} View
 * @typedef {{name: string, title: string, hint?: string, sort?: boolean, fill: (cell: HTMLElement, episode: number) => void}} Column
 */

const AROUND = 5; // rows drawn above and below those in view
const SETTLE = 90; // milliseconds a row stays before its pictures are fetched

export class Rows {
  /**
   * @param {Column[]} columns
   * @param {{sort: (column: string) => void, moved: (episode: number) => void, open: (episode: number) => void, picture: (episode: number) => string}} on
   */
  constructor(columns, on) {
    this.columns = columns;
    this.on = on;
    this.grid = byId("grid");
    this.body = byId("body");
    this.inner = make("div", { class: "inner", role: "presentation" });
    this.body.append(this.inner);
    /** @type {number[]} */ this.episodes = [];
    /** @type {number} the row that the keyboard is at; -1 where there is none */ this.current = -1;
    /** @type {Map<number, HTMLElement>} row → its element */ this.drawn = new Map();
    /** @type {HTMLElement[]} elements that show no row just now */ this.spare = [];
    this.frame = 0;
    this.settling = 0;
    byId("head").append(...columns.map((column) => this.header(column)));
    this.body.addEventListener("scroll", () => this.later(), { passive: true });
    new ResizeObserver(() => this.later()).observe(this.body);
    this.inner.addEventListener("click", (event) => {
      const line = event.target instanceof Element ? event.target.closest(".line") : null;
      if (line instanceof HTMLElement) this.go(Number(line.dataset.row), false);
    });
    this.inner.addEventListener("dblclick", (event) => {
      const line = event.target instanceof Element ? event.target.closest(".line") : null;
      if (line instanceof HTMLElement) on.open(Number(line.dataset.episode));
    });
  }

  /** @param {Column} column */
  header({ name, title, hint, sort }) {
    const label = sort === false ? title : make("button", { class: "plain", title: hint ?? `Sort by ${title.toLowerCase()}` }, title);
    if (label instanceof HTMLElement) label.addEventListener("click", () => this.on.sort(name));
    return make("div", { role: "columnheader", class: `cell ${name}`, "data-column": name }, label);
  }

  /** Show other demonstrations, or the same ones anew. @param {number[]} episodes @param {View} view */
  show(episodes, view) {
    const kept = this.episode;
    this.episodes = episodes;
    this.current = kept === null ? -1 : episodes.indexOf(kept);
    this.grid.setAttribute("aria-rowcount", String(episodes.length + 1));
    this.inner.style.height = `${episodes.length * this.height()}px`; // at once: somebody may go to a row before the next picture
    for (const header of byId("head").children) {
      const column = /** @type {HTMLElement} */ (header).dataset.column;
      if (column === view.sort) header.setAttribute("aria-sort", view.down ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    }
    this.refresh();
  }

  /** The demonstration the keyboard is at. @returns {number | null} */
  get episode() {
    return this.episodes[this.current] ?? null;
  }

  /** Draw every row in view again. */
  refresh() {
    for (const [row, line] of this.drawn) this.put(row, line);
    this.later();
  }

  later() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  height() {
    return parseFloat(getComputedStyle(this.grid).getPropertyValue("--row")) || 52;
  }

  draw() {
    const height = this.height();
    this.inner.style.height = `${this.episodes.length * height}px`; // rows may be higher than before, on a narrower page
    const first = Math.max(0, Math.floor(this.body.scrollTop / height) - AROUND);
    const last = Math.min(this.episodes.length, Math.ceil((this.body.scrollTop + this.body.clientHeight) / height) + AROUND);
    for (const [row, line] of this.drawn) {
      if (row >= first && row < last) continue;
      this.drawn.delete(row);
      this.spare.push(line);
    }
    for (let row = first; row < last; row++) {
      let line = this.drawn.get(row);
      if (line) {
        line.style.transform = `translateY(${row * height}px)`;
        continue;
      }
      line = this.spare.pop() ?? this.made();
      this.drawn.set(row, line);
      line.style.transform = `translateY(${row * height}px)`;
      this.put(row, line);
      line.hidden = false;
      if (!line.parentElement) this.inner.append(line);
    }
    for (const line of this.spare) line.hidden = true;
    this.mark();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.fetchPictures(), SETTLE);
    document.documentElement.dataset.drawnMs = performance.now().toFixed(1); // for the benchmark
  }

  made() {
    const line = make("div", { role: "row", class: "line" });
    line.append(...this.columns.map(({ name }) => make("div", { role: "gridcell", class: `cell ${name}` })));
    return line;
  }

  /** @param {number} row @param {HTMLElement} line the element that shows it from now on */
  put(row, line) {
    const episode = this.episodes[row];
    if (episode === undefined) {
      line.hidden = true;
      return;
    }
    line.id = `row-${row}`;
    line.dataset.row = String(row);
    line.setAttribute("aria-rowindex", String(row + 2));
    const other = line.dataset.episode !== String(episode);
    line.dataset.episode = String(episode);
    this.columns.forEach(({ name, fill }, index) => {
      if (name !== "frames" || other) fill(/** @type {HTMLElement} */ (line.children[index]), episode);
    });
  }

  /** Pictures of rows that stay in view; those that are only scrolled past are never asked for. */
  fetchPictures() {
    for (const line of this.drawn.values()) {
      const picture = line.querySelector("img");
      const source = this.on.picture(Number(line.dataset.episode));
      if (picture && !line.hidden && picture.getAttribute("src") !== source) picture.src = source;
    }
  }

  /** Show which row the keyboard is at. */
  mark() {
    for (const [row, line] of this.drawn) line.setAttribute("aria-selected", String(row === this.current));
    if (this.drawn.has(this.current)) this.grid.setAttribute("aria-activedescendant", `row-${this.current}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  /** Go to a row, as near as there is one. @param {number} row @param {boolean} [focus] */
  go(row, focus = true) {
    if (!this.episodes.length) return;
    this.current = Math.min(Math.max(row, 0), this.episodes.length - 1);
    const [height, { scrollTop, clientHeight }] = [this.height(), this.body];
    const top = this.current * height;
    if (top < scrollTop) this.body.scrollTop = top;
    else if (top + height > scrollTop + clientHeight) this.body.scrollTop = top + height - clientHeight;
    if (focus) this.grid.focus({ preventScroll: true });
    this.draw();
    this.on.moved(this.episodes[this.current]);
  }

  /** Go to a demonstration, if it is shown. @param {number} episode @param {boolean} [focus] */
  goTo(episode, focus = true) {
    const row = this.episodes.indexOf(episode);
    if (row < 0) return false;
    this.body.scrollTop = Math.max(0, row * this.height() - this.body.clientHeight / 3);
    this.go(row, focus);
    return true;
  }

  /** Rows on one screen. */
  get page() {
    return Math.max(1, Math.floor(this.body.clientHeight / this.height()) - 1);
  }
}
