// @ts-check
// Which two answers the panels show side by side: one of the video alone, and one that
// contrasts it with a second view. Pure functions, no DOM.

/** @import { Answer, Pair, Trace } from "./types" */

/**
 * Whether its tokens were chosen from the logits of two views.
 *
 * @param {Answer} answer
 */
export function isContrast(answer) {
  return answer.tokens.some((t) => t.counter);
}

/**
 * The answers that can be the contrast. MACD's is one before its first token came.
 *
 * @param {Trace} trace
 */
export function contrasts(trace) {
  return Object.values(trace.answers).filter((a) => isContrast(a) || a.method === "macd");
}

/**
 * The answers that can be the reference: those of one view that have tokens.
 *
 * @param {Trace} trace
 */
export function references(trace) {
  return Object.values(trace.answers).filter((a) =>
    a.method === "baseline" || (a.tokens.length > 0 && a.method !== "macd" && !isContrast(a)));
}

/**
 * The names of both: the wished ones where the trace has them, else `baseline` and `macd`, else the
 * first; null where there is none.
 *
 * @param {Trace} trace
 * @param {Pair} wished what the reader chose; null where nothing was chosen
 * @returns {Pair}
 */
export function choosePair(trace, wished) {
  /** @type {(answers: Answer[], wish: string | null, usual: string) => string | null} */
  const pick = (answers, wish, usual) => {
    const names = answers.map((a) => a.method);
    const choice = [wish, usual].find((name) => name !== null && names.includes(name));
    return choice ?? names[0] ?? null;
  };
  return {
    reference: pick(references(trace), wished.reference, "baseline"),
    contrast: pick(contrasts(trace), wished.contrast, "macd"),
  };
}

/**
 * Whether α and β say how an answer was scored; other rules hold the weights of each token.
 *
 * @param {Answer} answer
 */
export function takesAlpha(answer) {
  return answer.rule === "linear" && answer.tokens.every((t) => !t.weights);
}

/**
 * Whether the levels of the trace are those that the answer's second view hides the objects at.
 *
 * @param {Trace} trace
 * @param {Answer | undefined} answer
 */
export function hasLevelsOf(trace, answer) {
  if (!trace.final || !answer) return Boolean(trace.final);
  const { level } = answer.view;
  return answer.method === "macd"
    || (level !== undefined && String(level) === String(trace.final.level));
}

/**
 * The place of the token that ended an answer; -1 where it did not end, or holds no tokens.
 *
 * @param {Answer} answer
 */
export function endOf(answer) {
  return answer.finished ? answer.tokens.length - 1 : -1;
}

/**
 * The first token at which two answers differ, -1 where they agree. Two tokens that end their answers
 * are the same, whatever their ids: no word differs.
 *
 * @param {Answer} one
 * @param {Answer} other
 */
export function divergence(one, other) {
  const shorter = Math.min(one.tokens.length, other.tokens.length);
  for (let i = 0; i < shorter; i++) {
    const ends = [one, other].filter((answer) => i === endOf(answer)).length;
    if (ends === 1 || (!ends && one.tokens[i].token !== other.tokens[i].token)) return i;
  }
  return -1;
}

/**
 * The ids of the tokens that end an answer of the trace.
 *
 * @param {Trace} trace
 * @returns {Set<number>}
 */
export function endTokens(trace) {
  return new Set(Object.values(trace.answers).flatMap((answer) => {
    const end = endOf(answer);
    return end < 0 ? [] : [answer.tokens[end].token];
  }));
}
