// @ts-check
// What was masked, which logits moved with it, and what came of it. Read from the trace alone.

import { el } from "./dom.js";
import { isLocked } from "./rescore.js";
import { divergence } from "./state.js";
import { TEXT, levelIndex, logitChanges, lossNote, maskedText, openText, undetectedNote, verdictText } from "./strings.js";

/** @import { Answer, Trace } from "./types" */

export class Headline {
  constructor() {
    this.mechanism = el("p", { class: "mv-mechanism" });
    this.outcome = el("p", { class: "mv-outcome" });
    this.notes = el("div", { class: "mv-headline-notes" });
    this.root = el("section", { class: "mv-headline", "aria-label": TEXT.whatHappened }, this.mechanism, this.notes);
  }

  /** @param {Trace} trace */
  load(trace) {
    const { baseline, macd } = trace.answers;
    const answered = Boolean(baseline && macd && macd.finished);
    const masksOnly = !Object.keys(trace.answers).length, known = Boolean(trace.final || trace.lazy);
    this.outcome.hidden = !known || !answered;
    this.root.hidden = !known || (!answered && !masksOnly);
    if (this.root.hidden) return;
    const masked = trace.final ? [maskedText(trace), answered && masksAny(trace) ? logitText(baseline, macd) : ""] : [];
    this.mechanism.textContent = [...masked, answered ? opened(macd) : ""].filter(Boolean).join(" ");
    this.outcome.replaceChildren(...(answered ? outcome(trace, baseline, macd) : []));
    this.notes.replaceChildren(...notes(trace).map((text) => el("p", { class: "mv-note" }, text)));
  }
}

/** How many of an answer's tokens a contrast can change. @param {Answer} answer */
function opened(answer) {
  return answer.locks ? openText(answer.tokens.filter((step) => !isLocked(answer, step)).length, answer.tokens.length) : "";
}

/** @param {Trace} trace */
function masksAny({ final, levels }) {
  return Boolean(final && [...final.level, ...final.frame_level].some((level) => levelIndex(levels, level) > 0));
}

/**
 * How far masking moved the logits of both choices, at the token where the answers differ.
 * @param {Answer} baseline @param {Answer} macd
 */
function logitText(baseline, macd) {
  const index = divergence(baseline, macd);
  const step = macd.tokens[Math.max(index, 0)], theirs = baseline.tokens[index];
  if (!step || !step.others.length) return "";
  const tokens = [step.token, ...(theirs ? [theirs.token] : [])];
  const [other] = step.others;
  return logitChanges(tokens.flatMap((token) => {
    const at = step.candidates.indexOf(token);
    return at < 0 ? [] : [{ text: step.texts[at], lost: step.base[at] - other[at] }];
  }));
}

/** @param {Trace} trace @param {Answer} baseline @param {Answer} macd */
function outcome(trace, baseline, macd) {
  const same = baseline.text === macd.text;
  const answers = same ? [[TEXT.baselineAndMACD, macd]] : [[TEXT.baseline, baseline], ["MACD", macd]];
  return answers.flatMap(([name, answer], i) => [
    i ? el("span", { class: "mv-arrow", "aria-label": TEXT.becomes }, " → ") : null,
    el("span", {}, `${name}: `), el("strong", {}, /** @type {Answer} */ (answer).text || "∅"),
    verdictMark(/** @type {Answer} */ (answer), trace.truth),
  ].filter((part) => part !== null));
}

/** Right or wrong, where the truth is known. @param {Answer} answer @param {string} truth */
export function verdictMark(answer, truth) {
  if (answer.right === null) return null;
  const verdict = verdictText(answer.right, truth);
  return el("span", { class: answer.right ? "mv-right" : "mv-wrong", role: "img", title: verdict, "aria-label": verdict },
    answer.right ? " ✓" : " ✗");
}

/** What must be known to read the result. @param {Trace} trace */
function notes(trace) {
  const { final } = trace;
  const remarks = [];
  if (final && final.loss !== null && final.base_loss !== null && final.loss <= final.base_loss) {
    remarks.push(lossNote(final.base_loss, final.loss));
  }
  if (trace.undetected.length && !trace.classless) remarks.push(undetectedNote(trace.undetected));
  return remarks;
}
