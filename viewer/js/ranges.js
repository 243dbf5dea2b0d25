// @ts-check
// Where α and β can be set: places of the sliders, and the axes of the map. Pure functions, no DOM.

/** @import { Constants, Rule, Slider } from "./types" */

/** The ends of both sliders: the usual ones, or the largest value of these rules. @param {Constants} constants @param {Rule[]} rules @returns {Rule} */
export function endsOf({ alpha, beta }, ...rules) {
  return {
    alpha: Math.max(alpha.max, ...rules.map((rule) => rule.alpha)),
    beta: Math.max(beta.max, ...rules.map((rule) => rule.beta)),
  };
}

/**
 * The values that a slider takes, ascending: its steps up to its end, and further ones between.
 * @param {Slider} slider @param {number} end @param {number[]} further
 */
export function placesOf({ step }, end, further) {
  const steps = Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => Number((i * step).toFixed(6)));
  return [...new Set([...steps, ...further.filter((value) => value >= 0 && value <= end), end])].sort((a, b) => a - b);
}

/** The place of the value that is nearest. @param {number[]} values @param {number} x */
export function nearest(values, x) {
  return values.reduce((best, value, i) => (Math.abs(value - x) < Math.abs(values[best] - x) ? i : best), 0);
}

/**
 * Where a key leads on a slider; null: it is none of a slider's.
 * @param {number[]} places ascending @param {number} value @param {string} key
 */
export function keyed(places, value, key) {
  const last = places.length - 1, by = STEPS[key];
  if (key === "Home") return places[0];
  if (key === "End") return places[last];
  return by ? places[Math.max(0, Math.min(last, nearest(places, value) + by))] : null;
}

/** @type {Record<string, number>} keys of a slider and the places that they move by */
const STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };

/** The axes of the map, with coarser α and one more β where the ends lie beyond the usual ones. @param {Constants} constants @param {Rule} ends */
export function axesOf({ flips: { alphas, betas } }, ends) {
  const times = Math.ceil(ends.alpha / alphas[alphas.length - 1]);
  return {
    alphas: alphas.map((alpha) => Number((alpha * times).toFixed(6))),
    betas: ends.beta > betas[betas.length - 1] ? [...betas, ends.beta] : betas,
  };
}
