// This window's name, and which other windows of the studio are open in this browser.

const LISTEN = 350; // milliseconds in which every open window has answered
const channel = new BroadcastChannel("attentiontuner-studio");

export class Windows {
  constructor() {
    /** Kept over a reload: undo is the window's own. */
    this.name = sessionStorage.getItem("studio.window") ?? crypto.getRandomValues(new Uint32Array(3)).join("-");
    this.instance = crypto.getRandomValues(new Uint32Array(2)).join("-");
    /** @type {Set<string>} */ this.others = new Set();
    channel.addEventListener("message", ({ data }) => {
      if (data.instance === this.instance) return;
      if (data.asks) channel.postMessage({ name: this.name, instance: this.instance });
      else this.others.add(data.name);
    });
    sessionStorage.setItem("studio.window", this.name);
  }

  /** Which other windows are open. A copy of a window, which has its name, gets one of its own. */
  async look() {
    this.others.clear();
    channel.postMessage({ asks: true, instance: this.instance });
    await new Promise((resume) => setTimeout(resume, LISTEN));
    if (this.others.has(this.name)) {
      this.name = this.instance;
      sessionStorage.setItem("studio.window", this.name);
    }
    return this.others;
  }
}
