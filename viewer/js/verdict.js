// @ts-check
// Did the choice of masks matter? core/whatif/verdict.py says it of a trace; here it is said of what is on
// show, which a browser may have changed. Pure functions, no DOM.

import { choicesDo, constantDoes, moreThanAThird, openQuestion, randomMasksDo } from "./strings/verdict.js";
import { capitalized } from "./strings/parts.js";
import { TEXT } from "./strings/labels.js";

/** @import { Answer, Constants, Trace } from "./types" */
/** @typedef {"yes" | "no" | "cannot be said"} Reply to a question of the page */
/**
 * reason: the figures that decide, in a sentence; first: the first of them, or all where none decides, as a part of one. measured:
 * whether anything was.
 * @typedef {{ reply: Reply, reason: string, first: string, measured: boolean }} Verdict
 */

/** The answer whose masks are the trace's own. @param {Trace} trace @returns {Answer | undefined} */
export const maskedAnswer = ({ answers }) => answers.macd ?? answers["macd-measured"];

/** @param {Trace} trace @param {Constants["verdict"]} rule @returns {Verdict} */
export function verdictOf(trace, { small_constant: small, most, few, best }) {
  const { baseline } = trace.answers, macd = maskedAnswer(trace);
  if (!baseline || !macd) return { reply: "cannot be said", reason: TEXT.noTwoAnswers, first: "", measured: false };
  const tokens = [baseline, macd].map((answer) => answer.tokens.map(({ token }) => token).join(" "));
  if (tokens[0] === tokens[1] && baseline.text === macd.text) return { reply: "no", reason: TEXT.sameAnswers, first: "", measured: true };
  const { controls, choices } = trace, [layer] = choices?.layers ?? [];
  /** @type {[number, number, string][]} how many do it, of how many, in words */
  const tried = [];
  const random = controls?.outcomes.filter(({ name }) => name === "random") ?? [], same = random.filter((one) => one.same).length;
  if (random.length) tried.push([same, random.length, randomMasksDo(same, random.length)]);
  if (layer) tried.push([layer.same.length, layer.places.length, choicesDo(layer.same.length, layer.places.length)]);
  tried.sort((a, b) => Number(a[0] <= few * a[1]) - Number(b[0] <= few * b[1])); // what is against it first
  const constant = macd.constant_amount ?? null, known = constant !== null || !macd.constant;
  /** @type {(reply: Reply, reasons: string[]) => Verdict} */
  const verdict = (reply, reasons) => ({
    reply, reason: reasons.length ? `${capitalized(reasons.join("; "))}.` : TEXT.notMeasured, first: reasons[0] ?? "", measured: reasons.length > 0,
  });
  if (constant !== null && Math.abs(constant) < small) return verdict("no", [constantDoes(constant, macd.constant_of ?? "")]);
  const by = tried.filter(([does, of]) => does >= most * of), words = tried.map(([does, of, text]) => does > few * of ? moreThanAThird(text) : text);
  if (by.length) return verdict("no", by.map(([, , text]) => text));
  const own = layer && layer.macd !== null ? layer.places.indexOf(layer.macd) : -1;
  const chosen = own >= 0 && layer ? layer.same.includes(layer.places[own]) && (layer.ranks[own] - 1) / layer.places.length <= best : false;
  const rare = tried.every(([does, of]) => does <= few * of);
  if (controls && known && chosen && rare) return verdict("yes", words);
  if (!rare || !tried.length) return verdict("cannot be said", words);
  const rank = own >= 0 && layer ? /** @type {[number, number]} */ ([layer.ranks[own], layer.places.length]) : null;
  return verdict("cannot be said", [[...words, openQuestion(!!layer, !!controls, known, rank)].join("; ")]);
}
