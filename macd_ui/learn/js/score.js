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
