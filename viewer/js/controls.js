// @ts-check
// What is measured of a trace as a whole: MACD's choice beside controls, the effect of masking each object
// alone, and regions to mask where the object that was asked about was not detected.

import { button, el, errorLine, scrolled } from "./dom.js";
import { fold } from "./folds.js";
import { controlText } from "./happened.js";
import { compareWithRandom, controlChoice, controlCost, gradientReply, occlusionNote } from "./strings/controls.js";
import { CONTROL_NAMES, HEADS, TEXT } from "./strings/labels.js";
import { isPicture, trackName } from "./strings/parts.js";
import { replyText } from "./strings/verdict.js";
import { signed } from "./text.js";
import { maskedAnswer, verdictOf } from "./verdict.js";

/** @import { OcclusionReport, Send, Trace } from "./types" */
/** @import { State } from "./state.js" */

/** The reply to a question, and the sentence after it. @param {[string, string]} reply */
export const replied = ([reply, text]) => [el("strong", {}, reply), ` ${text}`];

// Did the choice of masks matter? Compares MACD's choice with random masks, trivial ones, and a constant.

export class Controls {
  /** @param {State} state @param {Send} send */
  constructor(state, send) {
    this.state = state;
    this.reply = el("p", { class: "mv-reply" });
    this.text = el("p", { class: "mv-controls-text" });
    this.outcomes = el("div", { class: "mv-draws", role: "img" });
    this.cost = el("p", { class: "mv-note" });
    this.ask = button("", () => send({ do: "controls" }));
    this.error = errorLine();
    this.stale = el("p", { class: "mv-note mv-stale-note", hidden: true });
    this.tried = fold("tried", TEXT.whatWasTried, this.text, this.outcomes, this.cost);
    this.root = el("section", { class: "mv-controls", "data-part": "controls", "aria-label": TEXT.choiceOfMasks },
      el("h3", {}, TEXT.choiceOfMasks), this.stale, this.reply, this.ask, this.error, this.tried);
  }

  /** @param {Trace} trace */
  load(trace) {
    const report = trace.controls;
    const able = this.state.can("controls") && trace.comparable;
    this.root.hidden = !report && !able && !trace.choice_map;
    this.reply.replaceChildren(...replied(replyText(verdictOf(trace, this.state.constants.verdict))));
    const same = !differ(trace); // then it is a question of another kind
    if (same) this.tried.append(this.ask);
    else this.reply.after(this.ask);
    this.tried.hidden = !report && !(same && able);
    this.ask.hidden = Boolean(report) || !able;
    this.ask.textContent = compareWithRandom(trace.controls_ms);
    this.text.textContent = report ? controlText(report) : "";
    this.cost.textContent = report ? controlCost(report.outcomes.length, report.milliseconds) : "";
    this.outcomes.hidden = !report;
    if (!report) return;
    this.outcomes.setAttribute("aria-label", this.text.textContent);
    this.outcomes.replaceChildren(...report.outcomes.map((outcome) => {
      const choice = controlChoice(outcome, report.index === null);
      return el("span", {
        class: `mv-draw${outcome.same ? " mv-draw-same" : ""}`,
        title: `${outcome.name === "random" ? TEXT.randomMask : CONTROL_NAMES[outcome.name]}: ${choice}`,
      }, outcome.name === "random" ? "" : choice);
    }));
  }

  /** @param {Trace} trace */
  measured({ controls, choice_map: map }) {
    return controls ?? map;
  }

  /** @param {boolean} now */
  busy(now) {
    this.ask.disabled = now;
  }
}

/** Whether MACD's answer differs from the baseline's. @param {Trace} trace */
const differ = (trace) => trace.answers.baseline?.text !== maskedAnswer(trace)?.text;

// The occlusion report: the measured effect of masking each object alone, with its gradient.

export class OcclusionPanel {
  /** @param {State} state @param {Send} send */
  constructor(state, send) {
    this.state = state;
    this.ask = button(TEXT.measureEachObject, () => send({ do: "occlusion" }));
    this.body = el("div", {});
    this.error = errorLine();
    this.hint = el("p", { class: "mv-note" },
      TEXT.occlusionHint);
    this.root = el("section", { class: "mv-occlusion", "aria-label": TEXT.measuredEffectOfEachObject },
      el("h3", {}, TEXT.gradientPredicts), this.hint, this.ask, this.error, this.body);
  }

  /** @param {Trace} trace */
  load(trace) {
    const report = trace.occlusion;
    const able = this.state.can("occlusion") && !trace.recorded && trace.final !== null && trace.tracks.length > 0;
    this.root.hidden = !Object.keys(trace.answers).length || (!report && !able);
    this.ask.hidden = Boolean(report) || !able;
    this.hint.hidden = Boolean(report);
    this.body.replaceChildren(...(report ? this.table(trace, report) : []));
  }

  /** @param {boolean} now */
  busy(now) {
    this.ask.disabled = now;
  }

  /** @param {Trace} trace @param {OcclusionReport} report */
  table(trace, report) {
    const widest = Math.max(...report.loss_change.map(Math.abs), 1e-9);
    const head = HEADS.occlusion(trace.approximate);
    return [
      el("p", { class: "mv-reply mv-verdict" }, replied(gradientReply(report))),
      scrolled(TEXT.measuredEffects, "mv-table",
        el("table", {},
          el("thead", {}, el("tr", {}, head.map((h) => el("th", { scope: "col" }, h)))),
          el("tbody", {}, trace.tracks.map((track, k) => el("tr", { "data-track": k },
            el("th", { scope: "row" }, trackName(track)),
            el("td", {}, report.gradient[k] === 0 ? "0 exactly" : signed(report.gradient[k], 4)),
            el("td", {}, el("span", {}, signed(report.loss_change[k], 4),
              differenceBar(report.loss_change[k], widest))),
            el("td", {}, signed(report.odds_change[k]))))))),
      el("p", { class: "mv-note" }, occlusionNote(report.correlation)),
    ];
  }
}

/** A bar around zero: to the right where positive. @param {number} value @param {number} widest */
export function differenceBar(value, widest) {
  return el("span", { class: "mv-diff" }, el("span", {
    class: value >= 0 ? "mv-more" : "mv-less",
    style: { width: `${(50 * Math.abs(value)) / widest}%`, [value >= 0 ? "left" : "right"]: "50%" },
  }));
}

// What is offered where the object that was asked about was not detected: regions without a class.

/** @type {[string, string][]} */
const DETECTORS = [["grid", TEXT.equalCells], ["motion", TEXT.whatMoves]];

export class Regions {
  /** @param {State} state @param {Send} send */
  constructor(state, send) {
    this.state = state;
    this.words = el("span", { class: "mv-note" });
    this.buttons = DETECTORS.map(([detector, name]) => button(name, () => send({ do: "detect", detector })));
    this.root = el("div", { class: "mv-edit mv-regions", hidden: true }, this.words, this.buttons);
  }

  /** @param {Trace} trace */
  load(trace) {
    this.root.hidden = !this.state.can("detect") || !trace.undetected.length || !trace.measurable;
    this.words.textContent = TEXT.regionsHint;
    this.buttons[1].hidden = isPicture(trace); // nothing moves there
  }

  /** @param {boolean} now */
  busy(now) {
    for (const button of this.buttons) button.disabled = now;
  }
}
