// @ts-check
// Two answers token by token. Pure functions, no DOM.

/**
 * Pairs of indices so that equal texts stand together where they can, as in the longest common
 * subsequence; null where one answer has no token. Tokens between two common ones face each other.
 * @param {string[]} first @param {string[]} second @returns {[number | null, number | null][]}
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
