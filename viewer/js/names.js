// @ts-check
// What methods are called in few words. Pure.

/** @param {string} method */
export function titleOf(method) {
  return { macd: "MACD", baseline: "Baseline" }[method] ?? method;
}
