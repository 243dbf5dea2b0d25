// @ts-check
// The score rules on stored logits, as core/decoding/contrast.py has it. Pure functions, no DOM.

/** @import { Flip, Head, Rescored, StepWeights, TokenStep } from "./types" */

/**
 * Candidates of one token under both views -> rows with score, probabilities and head membership;
 * exact: whether every token of the head is stored, so that `after` is exact and not just an upper bound. A token
 * that was scored by another rule than the linear one holds its weights; α, β and head do not count.
 *
 * @param {TokenStep} step
 * @param {number} alpha
 * @param {number} beta
 * @param {Head} head
 * @returns {Rescored}
 */
export function rescore(step, alpha, beta, head = "probability") {
  const other = step.counter || step.base;
  const baseTop = Math.max(...step.base);
  const weights = step.weights || linearWeights(baseTop, alpha, beta, head);
  const cut = weights.floor === null ? -Infinity : weights.floor;
  const bias = new Map(weights.bias);
  const first = step.base.indexOf(baseTop);
  const rows = step.candidates.map((id, i) => {
    const inside = step.base[i] >= cut || i === first;
    return {
      id,
      text: step.texts[i],
      base: step.base[i],
      counter: other[i],
      further: step.further.map((row) => row[i]),
      difference: step.base[i] - other[i],
      inside,
      score: inside
        ? step.further.reduce((sum, row, k) => sum + weights.further[k] * row[i],
          weights.base * step.base[i] + weights.other * other[i] + (bias.get(id) || 0))
        : -Infinity,
      before: Math.exp(step.base[i] - step.base_log_z),
      after: 0,
    };
  });
  const top = Math.max(...rows.map((r) => r.score));
  const total = rows.reduce((sum, r) => sum + Math.exp(r.score - top), 0); // 0 outside of the head
  let chosen = 0;
  rows.forEach((r, i) => {
    r.after = Math.exp(r.score - top) / total;
    if (r.score > rows[chosen].score) chosen = i;
  });
  const hasFloor = step.floor !== null && step.floor !== undefined;
  const exact = Boolean(step.complete) || cut > baseTop || (hasFloor && cut >= Number(step.floor));
  return { rows, chosen, exact };
}

/**
 * @param {number} baseTop
 * @param {number} alpha
 * @param {number} beta
 * @param {Head} head
 * @returns {StepWeights}
 */
function linearWeights(baseTop, alpha, beta, head) {
  const floor = head === "raw" ? beta * baseTop : beta > 0 ? baseTop + Math.log(beta) : null;
  return { base: 1 + alpha, other: -alpha, further: [], floor, bias: [] };
}

/**
 * Where the choice changes with α: the upper envelope of the lines b + α(b − c) over the head, as
 * core/decoding/contrast.py flip_points has it.
 *
 * @param {TokenStep} step
 * @param {number} beta
 * @param {Head} head
 * @param {number} limit the largest α that is looked at
 * @returns {Flip[]}
 */
export function flipPoints(step, beta, head, limit) {
  const { rows } = rescore(step, 0, beta, head);
  const lines = rows.filter((r) => r.inside);
  let now = lines.reduce((best, r) =>
    (r.base > best.base || (r.base === best.base && r.difference > best.difference) ? r : best));
  let alpha = 0;
  const flips = [{ alpha: 0, row: now }];
  for (;;) {
    const { base, difference } = now;
    const steeper = lines.filter((r) => r.difference > difference);
    if (!steeper.length) return flips;
    const meets = steeper.map((r) => (base - r.base) / (r.difference - difference));
    const first = Math.min(...meets);
    if (first > limit) return flips;
    now = steeper.filter((_, i) => meets[i] <= first + 1e-12)
      .reduce((best, r) => (r.difference > best.difference ? r : best));
    alpha = Math.max(alpha, first);
    flips.push({ alpha, row: now });
  }
}

/**
 * The choice at every α of a list that ascends, for one β: read off the exact flips.
 *
 * @param {TokenStep} step
 * @param {number[]} alphas
 * @param {number} beta
 * @param {Head} head
 */
export function flipRow(step, alphas, beta, head) {
  const points = flipPoints(step, beta, head, alphas[alphas.length - 1] + 1);
  return alphas.map((a) => points.reduce((last, p) => (p.alpha <= a ? p : last)).row);
}
