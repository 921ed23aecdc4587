// Going through a demonstration: playback with a speed, a slider, a field to jump to a step, and zoom.

import { button, byId, input, select } from "./dom.js";

/** @typedef {import("./model.js").Model} Model */

export class Transport {
  /** @param {Model} model @param {{move: (step: number) => void, look: (step: number) => void, changed: () => void, say: (text: string) => void}} on */
  constructor(model, on) {
    this.model = model;
    this.on = on;
    this.timer = 0;
    button("play-back").addEventListener("click", () => this.toggle());
    select("speed").value = localStorage.getItem("studio.speed") ?? "4";
    select("speed").addEventListener("change", () => {
      localStorage.setItem("studio.speed", select("speed").value);
      if (this.timer) this.start();
      select("speed").blur(); // so that the keys work again
    });
    input("scrub").addEventListener("input", () => {
      this.stop();
      on.look(Number(input("scrub").value));
    });
    input("scrub").addEventListener("pointerup", () => on.move(model.cursor)); // the keys go on from there
    input("step").addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // or the thumbnail that gets the focus would be pressed by it
      this.jump();
    });
    input("step").addEventListener("blur", () => this.draw());
    button("zoom-in").addEventListener("click", () => this.zoom(1));
    button("zoom-out").addEventListener("click", () => this.zoom(-1));
  }

  /** Another demonstration was opened. */
  build() {
    this.stop();
    for (const id of ["scrub", "step"]) input(id).max = String(this.model.length - 1);
    byId("steps-in-all").textContent = `of ${this.model.length}`;
  }

  toggle() {
    if (this.timer) this.stop();
    else this.start();
  }

  start() {
    clearInterval(this.timer);
    if (this.model.cursor >= this.model.length - 1) this.on.move(0);
    this.timer = window.setInterval(() => this.tick(), 1000 / Number(select("speed").value));
    this.draw();
  }

  tick() {
    this.on.move(this.model.cursor + 1);
    if (this.model.cursor >= this.model.length - 1) this.stop();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.draw();
  }

  /** J: go to a step by its number. */
  ask() {
    input("step").focus();
    input("step").select();
  }

  jump() {
    const wanted = Number(input("step").value);
    input("step").blur();
    if (Number.isInteger(wanted) && wanted >= 0 && wanted < this.model.length) this.on.move(wanted);
    else this.on.say(`There is no step ${wanted}: the steps are 0 to ${this.model.length - 1}.`);
  }

  /** @param {number} change */
  zoom(change) {
    if (!this.model.zoomBy(change)) this.on.say(change > 0 ? "It cannot be larger." : "All of it is shown.");
    this.on.changed();
  }

  draw() {
    const { model } = this;
    if (!model.episode) return;
    input("scrub").value = String(model.cursor);
    if (document.activeElement !== input("step")) input("step").value = String(model.cursor);
    const playing = this.timer !== 0;
    button("play-back").textContent = playing ? "❚❚" : "▶";
    button("play-back").setAttribute("aria-label", playing ? "Pause" : "Play");
    button("zoom-out").disabled = model.zoom === 0;
  }
}
