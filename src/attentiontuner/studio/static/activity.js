// Active seconds and interactions on the demonstration that is open. Idle time is left out.

const IDLE = 10; // seconds without a sign of life after which a person is taken to be away
const MODIFIERS = new Set(["Shift", "Control", "Alt", "Meta", "AltGraph", "CapsLock"]);

export class Activity {
  constructor() {
    this.seconds = 0;
    this.interactions = 0; // on this demonstration
    this.total = 0; // since the page was opened
    this.last = performance.now();
    const alive = () => this.touch();
    for (const kind of ["pointermove", "wheel"]) addEventListener(kind, alive, { passive: true, capture: true });
    addEventListener("pointerdown", () => this.count(), { capture: true });
    addEventListener("keydown", (event) => MODIFIERS.has(event.key) || this.count(), { capture: true });
    this.publish();
  }

  touch() {
    const now = performance.now();
    const gap = (now - this.last) / 1000;
    if (gap < IDLE) this.seconds += gap;
    this.last = now;
  }

  count() {
    this.touch();
    this.interactions += 1;
    this.total += 1;
    this.publish();
  }

  /** The seconds since they were last taken. */
  take() {
    this.touch();
    const seconds = Math.round(this.seconds * 100) / 100;
    this.seconds = 0;
    return seconds;
  }

  /** Another demonstration is open now. */
  restart() {
    this.touch();
    this.seconds = 0;
    this.interactions = 0;
    this.publish();
  }

  publish() {
    document.documentElement.dataset.interactions = String(this.interactions);
    document.documentElement.dataset.totalInteractions = String(this.total);
  }
}
