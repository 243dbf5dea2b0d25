// @ts-check
// What happened, and what is said of answers, their tokens and their candidates.

import { fixed, isolated, plainNumber, signed, visible } from "../text.js";
import { confidenceText, isPicture, listed, viewName } from "./parts.js";

/** @import { Search, Trace } from "../types" */

// ---- what happened

/** @type {(base: number, masked: number, trace: Pick<Trace, "times">) => string} */
export const lossText = (base, masked, trace) =>
  `${base.toFixed(3)} given the ${isPicture(trace) ? "picture" : "video"}, ${masked.toFixed(3)} given the counterfactual (nats per token).`;

/** @type {(trace: Pick<Trace, "thresholds" | "times">) => string} */
export const confidenceNote = ({ thresholds: { starts, continues }, times }) => isPicture({ times })
  ? `Beside each name stands the confidence of its detection, at least ${confidenceText(starts)}, the detector's threshold.`
  : "Beside each name stands the mean confidence of its detections. A track needs one of at"
    + ` least ${confidenceText(starts)}, the detector's threshold, and goes on with detections of ${confidenceText(continues)} or more.`;

/** @type {(tracked: boolean, running: boolean) => string} tracked: whether objects were looked for */
export const noObjects = (tracked, running) => {
  if (tracked) return "No objects were found: only the frame mask is used.";
  return running ? "looking for objects …" : "The run ended before it had looked for objects.";
};

// ---- answers

/** @type {(rule: string) => string} */
export const notRescored = (rule) =>
  `Answers of the rule ${rule} are not scored again by α and β; each token shows the weights it was chosen with.`;

/** @param {string} why */
export const unavailableText = (why) => `Not with this model: ${why}.`;

/**
 * @param {string} title of the answer, where each has its own @param {number} tokens @param {boolean} closed
 */
export function thoughtText(title, tokens, closed) {
  const whose = title ? `Thought before the answer of ${title}` : "Thought before the answers";
  return `${whose}: ${tokens} ${tokens === 1 ? "token" : "tokens"}${closed ? "" : ", cut"}`;
}

/** @type {(places: number[], tokens: number) => string} tokens that are not the first choice given the video alone */
export const changedTokens = (places, tokens) => {
  if (!places.length) return `The contrast changed none of the ${tokens} tokens.`;
  const numbers = listed(places.slice(0, 8).map((i) => String(i + 1))), more = places.length > 8 ? ` and ${places.length - 8} more` : "";
  return `The contrast changed ${places.length} of the ${tokens} tokens: ${more ? places.slice(0, 8).map((i) => i + 1).join(", ") : numbers}${more}.`;
};

/** @type {(clip: string) => string} what must be known of a command before it is run */
export const filesNote = (clip) => `Files are named without their folders: run it where ${isolated(clip)} is, or put the folder before its name.`;

/** @type {(index: number, id: number, diverges: boolean) => string} */
export const tokenTitle = (index, id, diverges) => diverges ? "here the answers diverge" : `token ${index + 1}, id ${id}`;

/** @type {(everyToken: boolean) => string} everyToken: whether β above 1 lets nothing else through anywhere */
export const lockText = (everyToken) => everyToken ? "Locked: with β above 1 only the video's own first choice passes the cut"
  : "Locked: no other token passes the plausibility cut, so no contrast can change it, whatever α and the second view";

/** @type {Record<import("../types").Certificate, string>} what is certain of a token whose log-probabilities a server gave */
export const CERTIFICATES = {
  certified: "Certified: the same token wins for every error of the server's log-probabilities",
  close: "Not certified: another token may win within the error of the server's log-probabilities",
  head: "Not certified: tokens that pass the cut may be missing, as the server tells of the likeliest only",
  rule: "Not certified: the rule's weights follow from the log-probabilities themselves",
  search: "Not certified: the token was drawn or searched for, and more than one could be",
};

/** @type {(change: number) => string} change: of log p */
export const effectText = (change) => `hiding this object alone: ${signed(change)} to its log p`;

/** @type {(change: number, rank: number) => string} change: of the token's log p */
export const rankedEffect = (change, rank) => `hiding it alone: ${signed(change)} to this token's log p (rank ${rank})`;

/**
 * How a token's score was made.
 *
 * @type {(answer: { method: string, rule: string }, step: import("../types").TokenStep, at: { alpha: number, beta: number }, search: string) => string}
 */
const scoreText = ({ method, rule }, step, { alpha, beta }, search) => {
  const text = ruleText(method, rule, step, alpha, beta, search);
  return step.repeats
    ? `${text}, then the model's repetition penalty ${step.repeats.penalty} on tokens of the prompt and the answer so far` : text;
};

/** @type {(method: string, rule: string, step: import("../types").TokenStep, alpha: number, beta: number, search: string) => string} */
const ruleText = (method, rule, step, alpha, beta, search) => {
  if (!step.others.length) {
    if (rule !== "plain" && method !== "baseline") return `the video as it is under the rule ${rule}`;
    return search === "greedy" ? "greedy on the video as it is" : "the video as it is";
  }
  if (!step.weights) return `score = (1+α)·logit(V) − α·logit(${viewName(method, 0)}), α ${plainNumber(alpha)}, β ${plainNumber(beta)}`;
  const terms = step.weights.others.map((w, k) =>
    ` ${w < 0 ? "−" : "+"} ${Math.abs(w).toFixed(3)}·logit(${viewName(method, k)})`);
  return `score = ${fixed(step.weights.base, 3)}·logit(V)${terms.join("")}, rule ${rule}`;
};

/**
 * A token in the table of its candidates.
 *
 * @type {(answer: import("../types").Answer, step: import("../types").TokenStep, at: { alpha: number, beta: number }, decode: Search) => string}
 */
export const candidatesNote = (answer, step, at, decode) => {
  const score = scoreText(answer, step, at, decode.search);
  const whose = step.others.length ? "" : answer.method === "baseline" ? " of the baseline" : ` of ${answer.method}`;
  const text = `Token ${step.index + 1}${whose}: ${score}`, search = searchNote(decode);
  return search ? `${text}. ${search}` : text;
};

/** @type {(decode: Search) => string} why a token need not be the best one, and what its probabilities are; empty for greedy answers */
export const searchNote = ({ search, temperature, top_p: mass }) => {
  if (search === "greedy") return "";
  if (search === "beam") return "The answer was found by beam search: its tokens need not be those with the highest scores.";
  const drawn = search === "vote" ? "The answer won a vote of samples" : "The answer was sampled";
  const text = `${drawn} at temperature ${temperature} with top-p ${mass}: its tokens need not be those with the highest scores.`;
  return temperature === 1 && mass === 1 ? text : `${text} The probabilities shown are at temperature 1 without top-p.`;
};

/**
 * Which token the bars are of. of: tokens that are shown, which leave out a hidden one that ends the answer.
 *
 * @type {(answer: { title: string, tokens: { text: string }[] }, index: number, of: number) => string}
 */
export const barsName = ({ title, tokens }, index, of) =>
  `${title}: token ${index + 1} of ${of}, ${visible(tokens[index].text)}`;

/** @type {(text: string, probability: string, wins: boolean) => string} a bar for a screen reader */
export const barLabel = (text, probability, wins) =>
  wins ? `${visible(text)}: ${probability}, the highest` : `${visible(text)}: ${probability}`;

/**
 * Where the choice of a token changes with α. points: from α 0 on; largest: α that was tried; greedy:
 * whether the answer takes the token with the highest score.
 *
 * @type {(index: number, beta: number, points: { alpha: number, row: { text: string } }[], largest: number, greedy: boolean) => string}
 */
export const flipText = (index, beta, [start, ...flips], largest, greedy) => {
  const what = greedy ? "" : ", the highest score";
  const head = `Token ${index + 1} with β ${plainNumber(beta)}${what}: ${visible(start.row.text)} at α 0`;
  if (!flips.length) return `${head}, and no α up to ${largest} changes it.`;
  return `${head}, ${flips.map((p) => `${visible(p.row.text)} from α ${p.alpha.toFixed(3)}`).join(", ")}.`;
};

/** @type {(rule: string) => string} */
export const noBoundary = (rule) => `Only the linear rule has a boundary over α and β, and this answer is of ${rule}.`;
