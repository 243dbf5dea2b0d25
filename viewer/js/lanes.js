// @ts-check
// The timeline under the picture: one lane per object, and one for the frame mask.

import { all, el } from "./dom.js";
import { levelsAt } from "./masks.js";

/** @import { State } from "./state.js" */

export class Lanes {
  /** @param {State} state */
  constructor(state) {
    this.state = state;
    /** @type {number | null} the frame that is marked */
    this.marked = null;
    /** @type {number | null} the step whose frame levels are shown */
    this.step = null;
    this.strip = el("div", { class: "mv-cells" });
    this.root = el("div", { class: "mv-lanes" });
  }

  load() {
    const { shown: trace, constants: { states: names } } = this.state;
    const rows = trace.tracks.map((track, k) =>
      el("div", { class: "mv-lane", "data-track": k },
        el("span", { class: "mv-lane-name" }, `${track.id} ${track.label}`),
        el("div", { class: "mv-cells" }, this.cells((i) =>
          el("span", {
            class: `mv-cell mv-${names[track.state[i]]}`, "data-frame": i,
            style: { "--object": track.colour },
            title: `${track.label}, frame ${i + 1}: ${names[track.state[i]]}`,
          })))));
    this.root.replaceChildren(...rows, el("div", { class: "mv-lane" },
      el("span", { class: "mv-lane-name mv-sign" }, "frame mask"), this.strip));
    this.fillStrip();
  }

  /** @param {(i: number) => HTMLElement} make */
  cells(make) {
    return this.state.shown.times.map((_, i) => {
      const cell = make(i);
      cell.addEventListener("click", () => this.state.set({ frame: i, playing: false }));
      return cell;
    });
  }

  // The frame mask's level of each frame; a pattern, because a cell may be too narrow for a number.
  fillStrip() {
    const { shown: trace, step } = this.state;
    this.step = step;
    this.marked = null;
    this.strip.replaceChildren(...this.cells((i) => {
      const level = levelsAt(trace, i, step).frame;
      return el("span", {
        class: `mv-cell mv-frame-level ${level === 1 ? "mv-full" : level ? "mv-half" : ""}`,
        "data-frame": i, title: `frame ${i + 1}: ${level ? `masked at ${Number(level.toFixed(3))}` : "kept"}`,
      });
    }));
  }

  draw() {
    const { frame, track, hover, step } = this.state;
    if (step !== this.step) this.fillStrip();
    if (frame !== this.marked) { // the cells of two frames change, not all
      for (const cell of all(this.root, ".mv-now")) cell.classList.remove("mv-now");
      for (const cell of all(this.root, `[data-frame="${frame}"]`)) cell.classList.add("mv-now");
      this.marked = frame;
    }
    for (const lane of all(this.root, "[data-track]")) {
      const k = Number(lane.dataset.track);
      lane.classList.toggle("mv-dim", track !== null && k !== track);
      lane.classList.toggle("mv-lit", hover === k);
    }
  }
}
