// @ts-check
// Would any mask do the same? Compares MACD's choice with random masks, trivial ones, and a constant.

import { el } from "./dom.js";
import { listed } from "./headline.js";
import { signed, visible } from "./text.js";

/** @import { ControlReport, Send, Trace } from "./types" */
/** @import { State } from "./state.js" */

/** @type {Record<string, string>} */
const NAMES = { "mask-all": "masking every object", reversed: "the reversed gradient", blank: "a blank video" };

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
        title: `${outcome.name === "random" ? "random mask" : NAMES[outcome.name]}: ${choice}`,
      }, outcome.name === "random" ? "" : choice);
    }));
  }

  /** @param {boolean} now */
  busy(now) {
    this.ask.disabled = now;
  }
}

/**
 * The report in words; the same for the screen and for a screen reader.
 *
 * @param {ControlReport} report
 */
export function reportText(report) {
  const random = report.outcomes.filter((outcome) => outcome.name === "random");
  const same = random.filter((outcome) => outcome.same).length;
  const named = report.outcomes.filter((outcome) => outcome.name !== "random");
  /** @param {boolean} agree */
  const of = (agree) => named.filter((outcome) => outcome.same === agree).map((outcome) => NAMES[outcome.name]);
  const also = of(true), not = of(false);
  if (report.index === null) {
    const changed = random.length - same;
    return `MACD's masks do not change the answer. Of ${random.length} random masks of the same area,`
      + ` ${changed || "none"} would${not.length ? `; ${listed(not)} would` : ""}.`;
  }
  const token = `“${visible(report.macd)}”`;
  const constant = `Adding ${signed(report.constant)} to the logit of ${token} does it without any mask.`;
  return `${same} of ${random.length} random masks of the same area also give ${token}`
    + `${also.length ? `, and so ${also.length > 1 ? "do" : "does"} ${listed(also)}` : ""}`
    + `${not.length ? `; ${listed(not)} ${not.length > 1 ? "do" : "does"} not` : ""}. ${constant}`;
}
