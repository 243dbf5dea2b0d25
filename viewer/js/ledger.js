// @ts-check
// The causal ledger: what hiding each object alone does, measured, beside what its gradient said.

import { el } from "./dom.js";
import { signed } from "./text.js";

/** @import { Ledger, Send, Trace } from "./types" */
/** @import { State } from "./state.js" */

export class LedgerPanel {
  /**
   * @param {State} state
   * @param {Send} send
   */
  constructor(state, send) {
    this.state = state;
    this.ask = el("button", {
      type: "button", class: "mv-button", on: { click: () => send({ do: "ledger" }) },
    }, "Measure each object");
    this.body = el("div", {});
    this.error = el("p", { class: "mv-error", role: "alert", hidden: true });
    this.hint = el("p", { class: "mv-note" },
      "Hides one object after the other and reads what truly changes: one pass of the model.");
    this.root = el("section", { class: "mv-ledger", "aria-label": "Causal ledger" },
      el("h3", {}, "Does the gradient predict the effect?"), this.hint, this.ask, this.error, this.body);
  }

  /** @param {Trace} trace */
  load(trace) {
    const known = trace.ledger;
    const able = this.state.server && trace.final !== null && trace.tracks.length > 0;
    this.root.hidden = !known && !able;
    this.ask.hidden = Boolean(known) || !able;
    this.hint.hidden = Boolean(known);
    this.body.replaceChildren(...(known ? this.table(trace, known) : []));
  }

  /** @param {boolean} now */
  busy(now) {
    this.ask.disabled = now;
  }

  /**
   * @param {Trace} trace
   * @param {Ledger} ledger
   */
  table(trace, ledger) {
    const widest = Math.max(...ledger.loss_change.map(Math.abs), 1e-9);
    const rho = ledger.correlation === null ? "" : ` Rank correlation of gradient and measured change: ${signed(ledger.correlation)}.`;
    const head = ["object", trace.approximate ? "≈ gradient" : "gradient", "query loss when masked", "log-odds of the answer"];
    return [
      el("p", { class: "mv-verdict" }, ledger.verdict[0].toUpperCase() + ledger.verdict.slice(1) + "."),
      el("div", { class: "mv-scroll mv-table", tabindex: "0", role: "region", "aria-label": "Measured effects" },
        el("table", {},
          el("thead", {}, el("tr", {}, head.map((h) => el("th", { scope: "col" }, h)))),
          el("tbody", {}, trace.tracks.map((track, k) => el("tr", { "data-track": k },
            el("th", { scope: "row" }, `${track.id} ${track.label}`),
            el("td", {}, ledger.gradient[k] === 0 ? "0 exactly" : signed(ledger.gradient[k], 4)),
            el("td", {}, el("span", {}, signed(ledger.loss_change[k], 4),
              differenceBar(ledger.loss_change[k], widest))),
            el("td", {}, signed(ledger.odds_change[k]))))))),
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
