// @ts-check
// What was masked, which logits moved with it, and what came of it. Read from the trace alone.

import { el } from "./dom.js";
import { divergence } from "./state.js";
import { visible } from "./text.js";

/** @import { Answer, TokenStep, Trace } from "./types" */

export class Headline {
  constructor() {
    this.mechanism = el("p", { class: "mv-mechanism" });
    this.outcome = el("p", { class: "mv-outcome" });
    this.notes = el("div", { class: "mv-headline-notes" });
    this.root = el("section", { class: "mv-headline", "aria-label": "What happened" },
      this.mechanism, this.outcome, this.notes);
  }

  /** @param {Trace} trace */
  load(trace) {
    const { baseline, macd } = trace.answers;
    this.root.hidden = !trace.final || !baseline || !macd || !macd.finished;
    if (this.root.hidden || !trace.final) return;
    this.mechanism.textContent = [maskedText(trace), masksAny(trace) ? logitText(baseline, macd) : ""].filter(Boolean).join(" ");
    this.outcome.replaceChildren(...outcome(trace, baseline, macd));
    this.notes.replaceChildren(...notes(trace).map((text) => el("p", { class: "mv-note" }, text)));
  }
}

/**
 * Names in one phrase: "a", "a and b", "a, b and c".
 *
 * @param {string[]} names
 */
export function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;
}

/**
 * Which objects and frames the counterfactual masks, as a sentence.
 *
 * @param {Trace} trace
 */
export function maskedText(trace) {
  const { final, tracks, groups } = trace;
  if (!final) return "";
  /** @param {(level: number) => boolean} of */
  const named = (of) => tracks.filter((_, k) => of(final.level[k])).map((t) => `the ${t.label}`);
  const whole = named((level) => level === 1);
  const partly = named((level) => level > 0 && level < 1);
  const frames = final.frame_level.reduce((n, level, g) => n + (level > 0 ? groups[g].length : 0), 0);
  const parts = [];
  if (whole.length) parts.push(`${listed(whole)} ${whole.length > 1 ? "were" : "was"} masked`);
  if (partly.length) parts.push(`${listed(partly)} ${partly.length > 1 ? "were" : "was"} partly masked`);
  if (frames) parts.push(`outside the objects, ${frames} of ${trace.times.length} frames were masked`);
  const text = parts.join("; ") || "nothing was masked";
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

/** @param {Trace} trace */
function masksAny({ final }) {
  return Boolean(final && [...final.level, ...final.frame_level].some((level) => level > 0));
}

/**
 * How far masking moved the logits of both choices, at the token where the answers differ.
 *
 * @param {Answer} baseline
 * @param {Answer} macd
 */
function logitText(baseline, macd) {
  const index = divergence(baseline, macd);
  const step = macd.tokens[Math.max(index, 0)];
  if (!step || !step.others.length) return "";
  const tokens = [step.token, ...(index < 0 ? [] : [baseline.tokens[index].token])];
  const moved = tokens.map((token) => change(step, token)).filter((text) => text !== "");
  return moved.length ? `Under the mask ${listed(moved)}.` : "";
}

/**
 * @param {TokenStep} step
 * @param {number} token
 */
function change(step, token) {
  const at = step.candidates.indexOf(token);
  if (at < 0 || !step.others.length) return "";
  const lost = step.base[at] - step.others[0][at];
  return `“${visible(step.texts[at])}” ${lost >= 0 ? "loses" : "gains"} ${Math.abs(lost).toFixed(1)} logits`;
}

/**
 * @param {Trace} trace
 * @param {Answer} baseline
 * @param {Answer} macd
 */
function outcome(trace, baseline, macd) {
  const same = baseline.text === macd.text;
  const answers = same ? [["Baseline and MACD", macd]] : [["Baseline", baseline], ["MACD", macd]];
  return answers.flatMap(([name, answer], i) => [
    i ? el("span", { class: "mv-arrow", "aria-label": "becomes" }, " → ") : null,
    el("span", {}, `${name}: `), el("strong", {}, /** @type {Answer} */ (answer).text || "∅"),
    verdictMark(/** @type {Answer} */ (answer), trace.truth),
  ].filter((part) => part !== null));
}

/**
 * Right or wrong, where the truth is known.
 *
 * @param {Answer} answer
 * @param {string} truth
 */
export function verdictMark(answer, truth) {
  if (answer.right === null) return null;
  const verdict = answer.right ? "right" : `wrong: the true answer is ${truth}`;
  return el("span", { class: answer.right ? "mv-right" : "mv-wrong", role: "img", title: verdict, "aria-label": verdict },
    answer.right ? " ✓" : " ✗");
}

/**
 * What must be known to read the result.
 *
 * @param {Trace} trace
 */
function notes(trace) {
  const { final } = trace;
  const remarks = [];
  if (final && final.loss !== null && final.base_loss !== null && final.loss <= final.base_loss) {
    remarks.push(`This mask did not raise the query loss (${final.base_loss.toFixed(3)} with the video, `
      + `${final.loss.toFixed(3)} with the mask), although the ascent climbs it.`);
  }
  if (trace.undetected.length) {
    remarks.push(`The question names ${listed(trace.undetected.map((noun) => `“${noun}”`))}, which no track `
      + "is called: it was not detected, or is not there, so no mask can be chosen for it.");
  }
  return remarks;
}
