// @ts-check
// What the page says of a run, as data: a function of the trace, of α and β in hand, and of the two answers
// that are looked at. `happened.js` makes a sentence of each. Pure functions, no DOM.

import { isLocked, rescore } from "./rescore.js";
import { divergence, endOf, endTokens, hasLevelsOf } from "./state.js";

/** @import { Answer, Rule, Trace } from "./types" */

/**
 * What is looked at.
 * @typedef {object} Shown
 * @property {Answer | undefined} reference @property {Answer | undefined} contrast
 * @property {Rule | null} rule α and β in hand; null where the contrast's answer is not scored again
 * @property {boolean} running whether the run goes on
 */
/**
 * The first token that α and β in hand choose otherwise. What follows it is not known.
 * @typedef {object} Turn
 * @property {number} index @property {string} text of the token that is chosen now
 * @property {boolean} ends whether the answer ends there now @property {boolean} ended whether it ended there
 */
/** @typedef {{ id: number, label: string, level: number }} ByHand an object whose level was set by hand */
/**
 * Which objects and frames the second view masks. full, partly: tracks whose level the ascent chose;
 * frames: how many are masked outside the objects, by frame masks that the ascent chose.
 * @typedef {object} Masked
 * @property {number[]} full @property {number[]} partly places of tracks
 * @property {{ full: number, partly: number, of: number }} frames
 * @property {ByHand[]} byHand @property {{ group: number, level: number }[]} framesByHand
 * @property {number} edits changes by hand to objects, other than levels and names
 */
/** @typedef {{ token: number, method: string, partner: boolean, changes: { text: string, lost: number }[] }} Logits lost: logit given the video less that given the second view; partner: whether that is another clip */
/** @typedef {{ open: number, tokens: number, title: string, beta: number | null }} Open tokens that a contrast can change; beta: in hand, where it is not the answer's own */
/** @typedef {{ method: string, title: string, text: string, cut: number | null, right: boolean | null }} Said cut: tokens of an answer that did not end */
/** @typedef {{ reference: Said, contrast: Said, same: boolean, at: Rule | null, turn: Turn | null }} Outcome at: α and β in hand, where they are not the answer's own */
/** @typedef {{ text: string, whole: boolean, same: boolean }} Alone whole: nothing follows the text; same: it is the answer itself */
/** @typedef {{ base: number, masked: number, byHand: boolean }} Loss the query loss that did not rise */

/** Whether α or β in hand are not those that the contrast's answer was decoded with. @param {Shown} shown */
export function isMoved({ rule, contrast }) {
  return Boolean(rule && contrast && (rule.alpha !== contrast.alpha || rule.beta !== contrast.beta));
}

/**
 * The first token of the contrast's answer that α and β in hand choose otherwise; null: none, or it is not known.
 * @param {Trace} trace @param {Shown} shown @returns {Turn | null}
 */
export function turnOf(trace, { contrast: answer, rule }) {
  if (!answer || !rule || trace.decode.search !== "greedy") return null;
  const ends = endTokens(trace);
  for (const [index, step] of answer.tokens.entries()) {
    if (!step.others.length) continue;
    const { rows, chosen } = rescore(step, rule.alpha, rule.beta, answer.head);
    const { id, text } = rows[chosen], ended = index === endOf(answer);
    if (id === step.token || (ends.has(id) && ended)) continue; // it ends either way
    if (wasNotBest(answer, step)) continue;
    return { index, text, ends: ends.has(id), ended };
  }
  return null;
}

/**
 * Whether another token had the highest score from the start, as in answers that another program decoded.
 * @param {Answer} answer @param {import("./types").TokenStep} step
 */
function wasNotBest({ alpha, beta, head }, step) {
  const { rows, chosen } = rescore(step, alpha, beta, head);
  return rows[chosen].id !== step.token;
}

/**
 * What is masked where the contrast's second view is that of the trace's levels; null elsewhere.
 * @param {Trace} trace @param {Answer | undefined} contrast @returns {Masked | null}
 */
export function maskedOf(trace, contrast) {
  const { final, tracks, groups, levels, times } = trace;
  if (!final || (contrast && !hasLevelsOf(trace, contrast))) return null;
  const top = levels[2].value, bottom = levels[0].value;
  /** @type {(values: number[], byHand: boolean[] | undefined, full: boolean) => number[]} places at full level, or between */
  const places = (values, byHand, full) => values.flatMap((level, k) =>
    !byHand?.[k] && level !== bottom && (level === top) === full ? [k] : []);
  /** @type {(full: boolean) => number} */
  const frames = (full) => places(final.frame_level, final.frame_by_hand, full).reduce((n, g) => n + groups[g].length, 0);
  return {
    full: places(final.level, final.by_hand, true), partly: places(final.level, final.by_hand, false),
    frames: { full: frames(true), partly: frames(false), of: times.length },
    byHand: tracks.flatMap(({ id, label }, k) => (final.by_hand?.[k] ? [{ id, label, level: final.level[k] }] : [])),
    framesByHand: final.frame_level.flatMap((level, group) => (final.frame_by_hand?.[group] ? [{ group, level }] : [])),
    edits: (trace.edits ?? []).filter(({ kind }) => !["level", "frames", "label"].includes(kind)).length,
  };
}

/** Whether the second view hides anything. @param {Masked} masked */
export function hidesAny({ full, partly, frames, byHand, framesByHand }) {
  return Boolean(full.length || partly.length || frames.full || frames.partly
    || [...byHand, ...framesByHand].some(({ level }) => level > 0));
}

/**
 * What the clip is called that an answer is contrasted with; null where its second view is none of another clip.
 * @param {Answer | undefined} answer @returns {string | null}
 */
export function partnerOf(answer) {
  const view = answer?.second_views[0]?.view;
  return view?.kind === "pair" ? view.caption ?? "" : null;
}

/**
 * How far the second view moves the logits of both choices, at the token where the answers differ, or
 * where α and β in hand choose otherwise if that comes before; null where there is no such token.
 * @param {Shown} shown @param {Turn | null} turn @returns {Logits | null}
 */
export function logitsOf({ reference, contrast }, turn) {
  if (!reference || !contrast) return null;
  const parts = divergence(reference, contrast);
  const index = turn && (parts < 0 || turn.index <= parts) ? turn.index : parts;
  const step = contrast.tokens[Math.max(index, 0)], theirs = reference.tokens[index];
  if (!step || !step.others.length) return null;
  const [other] = step.others;
  const tokens = new Set([step.token, ...(theirs ? [theirs.token] : [])]);
  const changes = [...tokens].flatMap((token) => {
    const at = step.candidates.indexOf(token);
    return at < 0 ? [] : [{ text: step.texts[at], lost: step.base[at] - other[at] }];
  });
  return changes.length ? { token: Math.max(index, 0), method: contrast.method, partner: partnerOf(contrast) !== null, changes } : null;
}

/**
 * How many of an answer's tokens a contrast can change under β in hand; null where its cut does not tell,
 * or where the tokens themselves are others by now.
 * @param {Shown} shown @param {Turn | null} turn @returns {Open | null}
 */
export function openOf(shown, turn) {
  const { contrast, rule } = shown;
  if (!contrast || !contrast.locks || turn) return null;
  const beta = rule ? rule.beta : contrast.beta;
  const end = endOf(contrast), words = contrast.tokens.filter((_, i) => i !== end); // the token that ends it has no words
  const open = words.filter((step) => !isLocked({ ...contrast, beta }, step)).length;
  if (!words.length) return null;
  return { open, tokens: words.length, title: contrast.title, beta: beta === contrast.beta ? null : beta };
}

/** @param {Answer} answer @returns {Said} */
function said({ method, title, text, finished, tokens, right }) {
  return { method, title, text, cut: finished ? null : tokens.length, right };
}

/**
 * Both answers; null until both are there.
 * @param {Trace} trace @param {Shown} shown @param {Turn | null} turn @returns {Outcome | null}
 */
export function outcomeOf(trace, shown, turn) {
  const { reference, contrast, rule, running } = shown;
  if (!reference || !contrast || (running && !contrast.finished) || !(trace.final || trace.lazy)) return null;
  if (!contrast.tokens.length && !contrast.finished) return null;
  const both = [said(reference), said(contrast)];
  const same = both[0].text === both[1].text && both[0].cut === both[1].cut && !turn;
  return { reference: both[0], contrast: both[1], same, at: isMoved(shown) ? rule : null, turn };
}

/**
 * What the model says given the second view alone, as far as the answer's logits tell: core/whatif/verdict.py.
 * The answer's tokens stand as long as the second view prefers them too, then its own token does.
 * @param {Trace} trace @param {Answer | undefined} answer @returns {Alone | null}
 */
export function aloneOf(trace, answer) {
  if (!answer?.tokens.length || answer.tokens.some(({ others }) => others.length !== 1)) return null;
  const ends = endTokens(trace), said = [];
  for (const { token, candidates, texts, others: [other], text } of answer.tokens) {
    const best = other.indexOf(Math.max(...other));
    if (candidates[best] !== token) {
      const own = ends.has(candidates[best]) ? [] : [texts[best]];
      return { text: spoken(answer, said, own[0] ?? ""), whole: !own.length, same: false };
    }
    said.push(ends.has(token) ? "" : text);
  }
  return { text: answer.text, whole: answer.finished, same: true };
}

/**
 * The answer's first tokens and another one after them. Where no token brings the space before it, the text tells it.
 * @param {Answer} answer @param {string[]} said @param {string} own
 */
function spoken({ text, tokens }, said, own) {
  if (tokens.some(({ texts }) => texts.some((one) => /^\s/.test(one)))) return [...said, own].join("").trim();
  const at = said.reduce((from, piece) => text.includes(piece, from) ? text.indexOf(piece, from) + piece.length : from, 0);
  return `${text.slice(0, at)}${["", " "].includes(text.charAt(at)) ? " " : ""}${own}`.trim();
}

/** The query loss where it did not rise under the mask; null elsewhere. @param {Trace} trace @returns {Loss | null} */
export function lossOf({ final }) {
  if (!final || final.loss === null || final.base_loss === null || final.loss > final.base_loss) return null;
  const byHand = [...final.by_hand ?? [], ...final.frame_by_hand ?? []].some(Boolean);
  return { base: final.base_loss, masked: final.loss, byHand };
}
