// @ts-check
// The timeline under the picture: one lane per object, and one for the frame mask.

import { all, el } from "./dom.js";
import { groupOf, levelsAt } from "./masks.js";
import { TEXT } from "./strings/labels.js";
import { levelIndex, trackName, weakText } from "./strings/parts.js";
import { frameMaskText, laneText } from "./strings/runs.js";

/** @import { Weak } from "./overlap.js" */
/** @import { State } from "./state.js" */

// The timeline under the picture: one lane per object, and one for the frame mask.

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
    const { loaded: trace, constants: { states: names } } = this.state;
    const rows = trace.tracks.map((track, k) =>
      el("div", { class: "mv-lane", "data-track": k },
        el("span", { class: "mv-lane-name", title: trackName(track) }, trackName(track)),
        el("div", { class: "mv-cells" }, this.cells((i) =>
          el("span", {
            class: `mv-cell mv-${names[track.state[i]]}${trace.cuts.includes(i) ? " mv-cut" : ""}`, "data-frame": i,
            style: { "--object": track.colour },
            title: laneText(track.label, i, names[track.state[i]], trace.cuts.includes(i)),
          })))));
    this.root.replaceChildren(...rows, el("div", { class: "mv-lane" },
      el("span", { class: "mv-lane-name mv-sign" }, TEXT.frameMask), this.strip));
    this.fillStrip();
  }

  /** Marks the objects of a frame whose masks are weakened by others. @param {number} frame @param {(Weak | null)[]} weak */
  weaken(frame, weak) {
    const { tracks } = this.state.loaded;
    weak.forEach((one, k) => {
      const [cell] = all(this.root, `[data-track="${k}"] [data-frame="${frame}"]`);
      if (!one || !cell) return;
      cell.classList.add("mv-weak");
      cell.style.setProperty("--mean", one.mean.toFixed(2));
      cell.title += weakText(one.mean, one.others.map((j) => tracks[j]));
    });
  }

  /** @param {(i: number) => HTMLElement} make */
  cells(make) {
    return this.state.loaded.times.map((_, i) => {
      const cell = make(i);
      cell.addEventListener("click", () => this.state.set({ frame: i, playing: false }));
      return cell;
    });
  }

  // The frame mask's level of each frame; a pattern, because a cell may be too narrow for a number.
  fillStrip() {
    const { loaded: trace, step } = this.state;
    this.step = step;
    this.marked = null;
    this.strip.replaceChildren(...this.cells((i) => {
      const level = levelsAt(trace, i, step).frame;
      return el("span", {
        class: `mv-cell mv-frame-level ${["", "mv-half", "mv-full"][levelIndex(trace.levels, level)]}${trace.cuts.includes(i) ? " mv-cut" : ""}`,
        "data-frame": i, title: frameMaskText(i, trace.levels, level, step === null && Boolean(trace.final?.frame_by_hand[groupOf(trace, i)])),
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
