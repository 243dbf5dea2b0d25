// @ts-check
// The occlusion report: the measured effect of masking each object alone, with its gradient.

import { el } from "./dom.js";
import { signed } from "./text.js";

/** @import { OcclusionReport, Send, Trace } from "./types" */
/** @import { State } from "./state.js" */

export class OcclusionPanel {
  /**
   * @param {State} state
   * @param {Send} send
   */
  constructor(state, send) {
    this.state = state;
    this.ask = el("button", {
      type: "button", class: "mv-button", on: { click: () => send({ do: "occlusion" }) },
    }, "Measure each object");
    this.body = el("div", {});
    this.error = el("p", { class: "mv-error", role: "alert", hidden: true });
    this.hint = el("p", { class: "mv-note" },
      "Hides one object after the other and measures what changes: one pass of the model.");
    this.root = el("section", { class: "mv-occlusion", "aria-label": "Measured effect of each object" },
      el("h3", {}, "Does the gradient predict the effect?"), this.hint, this.ask, this.error, this.body);
  }

  /** @param {Trace} trace */
  load(trace) {
    const report = trace.occlusion;
    const able = this.state.server && !trace.recorded && trace.final !== null && trace.tracks.length > 0;
    this.root.hidden = !Object.keys(trace.answers).length || (!report && !able);
    this.ask.hidden = Boolean(report) || !able;
    this.hint.hidden = Boolean(report);
    this.body.replaceChildren(...(report ? this.table(trace, report) : []));
  }

  /** @param {boolean} now */
  busy(now) {
    this.ask.disabled = now;
  }

  /**
   * @param {Trace} trace
   * @param {OcclusionReport} report
   */
  table(trace, report) {
    const widest = Math.max(...report.loss_change.map(Math.abs), 1e-9);
    const rho = report.correlation === null ? "" : ` Rank correlation of gradient and measured change: ${signed(report.correlation)}.`;
    const head = ["object", trace.approximate ? "≈ gradient" : "gradient", "query loss when masked", "log-odds of the answer"];
    return [
      el("p", { class: "mv-verdict" }, report.verdict[0].toUpperCase() + report.verdict.slice(1) + "."),
      el("div", { class: "mv-scroll mv-table", tabindex: "0", role: "region", "aria-label": "Measured effects" },
        el("table", {},
          el("thead", {}, el("tr", {}, head.map((h) => el("th", { scope: "col" }, h)))),
          el("tbody", {}, trace.tracks.map((track, k) => el("tr", { "data-track": k },
            el("th", { scope: "row" }, `${track.id} ${track.label}`),
            el("td", {}, report.gradient[k] === 0 ? "0 exactly" : signed(report.gradient[k], 4)),
            el("td", {}, el("span", {}, signed(report.loss_change[k], 4),
              differenceBar(report.loss_change[k], widest))),
            el("td", {}, signed(report.odds_change[k]))))))),
      el("p", { class: "mv-note" }, `Natural logarithms; the answer is the baseline's.${rho}`),
    ];
  }
}

/**
 * A bar around zero: to the right where positive.
 *
 * @param {number} value
 * @param {number} widest
 */
export function differenceBar(value, widest) {
  return el("span", { class: "mv-diff" }, el("span", {
    class: value >= 0 ? "mv-more" : "mv-less",
    style: { width: `${(50 * Math.abs(value)) / widest}%`, [value >= 0 ? "left" : "right"]: "50%" },
  }));
}
