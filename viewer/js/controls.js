// @ts-check
// Would any mask do the same? Compares MACD's choice with random masks, trivial ones, and a constant.

import { CONTROL_NAMES, reportText } from "./control-text.js";
import { el } from "./dom.js";
import { visible } from "./text.js";

/** @import { Send, Trace } from "./types" */
/** @import { State } from "./state.js" */

export class Controls {
  /**
   * @param {State} state
   * @param {Send} send
   */
  constructor(state, send) {
    this.state = state;
    this.text = el("p", { class: "mv-controls-text" });
    this.draws = el("div", { class: "mv-draws", role: "img" });
    this.cost = el("p", { class: "mv-note" });
    this.ask = el("button", {
      type: "button", class: "mv-button", on: { click: () => send({ do: "controls" }) },
    });
    this.error = el("p", { class: "mv-error", role: "alert", hidden: true });
    this.root = el("section", { class: "mv-controls", "aria-label": "Did the choice of masks matter?" },
      el("h3", {}, "Did the choice of masks matter?"), this.text, this.draws, this.ask, this.error, this.cost);
  }

  /** @param {Trace} trace */
  load(trace) {
    const report = trace.controls;
    const able = this.state.server && trace.comparable;
    this.root.hidden = !report && !able;
    this.ask.hidden = Boolean(report) || !able;
    const seconds = trace.controls_ms === null ? "" : ` (about ${(trace.controls_ms / 1000).toFixed(1)} s)`;
    this.ask.textContent = `Compare with random masks${seconds}`;
    this.text.textContent = report ? reportText(report) : "";
    this.cost.textContent = report
      ? `${report.outcomes.length} control views in ${(report.milliseconds / 1000).toFixed(1)} s; each is`
        + " decoded with MACD's α and β up to this token." : "";
    this.draws.hidden = !report;
    if (!report) return;
    this.draws.setAttribute("aria-label", this.text.textContent);
    this.draws.replaceChildren(...report.outcomes.map((outcome) => {
      // where the answers agree, the last token compared is the end token, which says nothing
      const choice = report.index === null && outcome.same ? "the same answer" : visible(outcome.text);
      return el("span", {
        class: `mv-draw${outcome.same ? " mv-draw-same" : ""}`,
        title: `${outcome.name === "random" ? "random mask" : CONTROL_NAMES[outcome.name]}: ${choice}`,
      }, outcome.name === "random" ? "" : choice);
    }));
  }

  /** @param {boolean} now */
  busy(now) {
    this.ask.disabled = now;
  }
}
