// @ts-check
// Two answers token by token. Pure functions, no DOM.

/** @import { Answer } from "./types" */

/**
 * Pairs of indices so that equal texts stand together where they can, as in the longest common
 * subsequence; null where one answer has no token. Tokens between two common ones face each other.
 *
 * @param {string[]} first
 * @param {string[]} second
 * @returns {[number | null, number | null][]}
 */
export function alignTokens(first, second) {
  const [n, m] = [first.length, second.length];
  const longest = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      longest[i][j] = first[i] === second[j] ? 1 + longest[i + 1][j + 1] : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  /** @type {[number | null, number | null][]} */
  const pairs = [];
  let i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && first[i] === second[j]) {
      pairs.push([i++, j++]);
      continue;
    }
    const start = [i, j];
    while (i < n || j < m) { // up to the next common token
      if (i < n && j < m && first[i] === second[j]) break;
      if (j >= m || (i < n && longest[i + 1][j] >= longest[i][j + 1])) i += 1;
      else j += 1;
    }
    for (let k = 0; k < Math.max(i - start[0], j - start[1]); k++) {
      pairs.push([start[0] + k < i ? start[0] + k : null, start[1] + k < j ? start[1] + k : null]);
    }
  }
  return pairs;
}

/**
 * The sampled frame of a trace that is nearest to a time.
 *
 * @param {number[]} times
 * @param {number} time seconds
 */
export function nearestFrame(times, time) {
  return times.reduce((best, t, i) => (Math.abs(t - time) < Math.abs(times[best] - time) ? i : best), 0);
}

/**
 * Probability of the chosen token given the video; null where it is not among those stored.
 *
 * @param {Answer} answer
 * @param {number} index
 */
export function probabilityOf(answer, index) {
  const step = answer.tokens[index];
  const at = step.candidates.indexOf(step.token);
  return at < 0 ? null : Math.exp(step.base[at] - step.base_log_z);
}
