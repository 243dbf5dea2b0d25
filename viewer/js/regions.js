// @ts-check
// What is offered where the object that was asked about was not detected: regions without a class.

import { el } from "./dom.js";

/** @import { Send, Trace } from "./types" */
/** @import { State } from "./state.js" */

/** @type {[string, string][]} */
const DETECTORS = [["grid", "Equal cells of the frame"], ["motion", "What moves"]];

export class Regions {
  /**
   * @param {State} state
   * @param {Send} send
   */
  constructor(state, send) {
    this.state = state;
    this.words = el("span", { class: "mv-note" });
    this.buttons = DETECTORS.map(([detector, name]) => el("button", {
      type: "button", class: "mv-button", on: { click: () => send({ do: "detect", detector }) },
    }, name));
    this.root = el("div", { class: "mv-edit mv-regions", hidden: true }, this.words, this.buttons);
  }

  /** @param {Trace} trace */
  load(trace) {
    this.root.hidden = !this.state.server || !trace.undetected.length || !trace.measurable;
    this.words.textContent = "What no detector can name, such as smoke or light, may lie in regions without a class. Run again with:";
  }

  /** @param {boolean} now */
  busy(now) {
    for (const button of this.buttons) button.disabled = now;
  }
}
