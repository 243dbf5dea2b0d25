// @ts-check
// How good predictions were. Pure functions, no DOM.

/** @import { Locked } from "./types" */

/**
 * Mean squared distance between confidence and outcome (Brier 1950); null without predictions.
 *
 * @param {Pick<Locked, "confidence" | "right">[]} locked
 */
export function brier(locked) {
  if (!locked.length) return null;
  return mean(locked.map(({ confidence, right }) => (confidence - Number(right)) ** 2));
}

/**
 * For each confidence that was chosen, how often it was right, in ascending order.
 *
 * @param {Pick<Locked, "confidence" | "right">[]} locked
 */
export function reliability(locked) {
  const values = [...new Set(locked.map((l) => l.confidence))].sort((a, b) => a - b);
  return values.map((confidence) => {
    const group = locked.filter((l) => l.confidence === confidence);
    return { confidence, n: group.length, right: group.filter((l) => l.right).length };
  });
}

/**
 * What guessing gets: the mean of right answers, and the share of guessers with as many or more.
 *
 * @param {number[]} options how many answers each question offers
 * @param {number} right
 */
export function guessing(options, right) {
  let shares = [1]; // at n: the share of guessers with n right answers so far
  for (const k of options) {
    shares = [...shares, 0].map((share, n) => share * (1 - 1 / k) + (n ? shares[n - 1] / k : 0));
  }
  return { mean: options.reduce((sum, k) => sum + 1 / k, 0), share: shares.slice(right).reduce((sum, x) => sum + x, 0) };
}

/** @param {number[]} values */
export function mean(values) {
  return values.reduce((sum, x) => sum + x, 0) / values.length;
}

/**
 * Softmax; a token at −∞ has probability 0.
 *
 * @param {number[]} logits
 */
export function softmax(logits) {
  const top = Math.max(...logits);
  const powers = logits.map((z) => Math.exp(z - top));
  const total = powers.reduce((sum, x) => sum + x, 0);
  return powers.map((x) => x / total);
}

/** @param {number[]} values */
export function argmax(values) {
  return values.reduce((best, x, i) => (x > values[best] ? i : best), 0);
}
