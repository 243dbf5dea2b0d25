// @ts-check
// The score rules on stored logits, as core/decoding/contrast.py has it. Pure functions, no DOM.

/** @import { Certificate, Flip, Head, LogPErrors, Rescored, Row, StepWeights, TokenStep } from "./types" */

/**
 * Candidates of one token under both views -> rows with score, probabilities and head membership;
 * A repetition penalty is taken after the contrast. exact: whether every token of the head is stored, so that `after` is exact and not just an upper bound. A token
 * that was scored by another rule than the linear one holds its weights; α, β and head do not count.
 * @param {TokenStep} step @param {number} alpha @param {number} beta @param {Head} head @returns {Rescored}
 */
export function rescore(step, alpha, beta, head = "probability") {
  const others = step.others.length ? step.others : [step.base];
  const baseTop = Math.max(...step.base);
  const weights = step.weights || linearWeights(baseTop, alpha, beta, head);
  const cut = weights.floor === null ? -Infinity : weights.floor;
  const bias = new Map(weights.bias);
  const bend = penalty(step);
  const first = step.base.indexOf(baseTop);
  const rows = step.candidates.map((id, i) => {
    const inside = step.base[i] >= cut || i === first;
    return {
      id,
      text: step.texts[i],
      base: step.base[i],
      others: others.map((row) => row[i]),
      difference: step.base[i] - others[0][i],
      inside,
      score: inside
        ? bend(i, weights.others.reduce((sum, weight, k) => sum + weight * others[k][i],
          weights.base * step.base[i]) + (bias.get(id) || 0))
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
 * Whether one token alone passes the cut of an answer at this token, which every contrast then chooses.
 * @param {{ locks: boolean, beta: number, head: Head }} answer @param {TokenStep} step
 */
export function isLocked({ locks, beta, head }, step) {
  if (!locks) return false;
  const top = Math.max(...step.base);
  const { floor } = step.weights || linearWeights(top, 0, beta, head);
  return floor !== null && step.base.filter((logit) => logit >= floor).length <= 1;
}

/**
 * Whether the token that α and β choose would be the same for every error that its log-probabilities may have, as
 * core/decoding/certificate.py has it.
 * @param {TokenStep} step @param {{ alpha: number, beta: number, head: Head, moves: boolean }} answer
 * @param {LogPErrors} errors @param {string} search @returns {Certificate}
 */
export function certify(step, { alpha, beta, head, moves }, errors, search) {
  if (moves || head === "raw") return "rule";
  const weights = step.weights ?? linearWeights(Math.max(...step.base), alpha, beta, head);
  const floor = weights.floor ?? -Infinity;
  const two = step.others.length > 0;
  const { chosen: place } = rescore(step, two ? alpha : 0, beta, head);
  const passes = step.base.map((logit) => logit >= floor - 2 * errors.video);
  const plain = weights.others.every((weight) => weight === 0) && !weights.bias.length;
  const stored = step.complete ? -Infinity : step.floor === null || step.floor === undefined ? Infinity : Number(step.floor);
  const leftOut = stored > floor - 2 * errors.video;
  if (leftOut && (!plain || search !== "greedy")) return "head";
  if (leftOut && step.base[place] <= stored + 2 * errors.video) return "close";
  if (passes.filter(Boolean).length === 1 && passes[place] && !weights.bias.length && !step.repeats) return "certified";
  if (search !== "greedy") return "search";
  if (step.repeats) return "rule";
  return wins(step, { ...weights, floor }, place, passes, errors) ? "certified" : "close";
}

/**
 * Whether a token passes the cut and beats all that may pass it, whatever the errors are.
 * @param {TokenStep} step @param {StepWeights & { floor: number }} weights @param {number} place
 * @param {boolean[]} passes @param {LogPErrors} errors
 */
function wins(step, weights, place, passes, errors) {
  if (step.others.length < weights.others.length) return false;
  const rest = (/** @type {number[]} */ values) => Math.max(-Infinity, ...values.filter((_, i) => i !== place));
  const leads = step.base[place] > rest(step.base) + 2 * errors.video;
  if (!leads && step.base[place] < weights.floor + 2 * errors.video) return false;
  const bias = new Map(weights.bias);
  const scores = step.base.map((logit, i) => weights.base * logit + (bias.get(step.candidates[i]) || 0)
    + weights.others.reduce((sum, w, k) => sum + w * step.others[k][i], 0));
  const spread = 2 * weights.others.reduce((sum, weight) => sum + errors.second * Math.abs(weight), errors.video * Math.abs(weights.base));
  return scores[place] > rest(scores.map((score, i) => (passes[i] ? score : -Infinity))) + spread;
}

/**
 * The model's repetition penalty: (place of a candidate, its score) -> its score after it.
 * @param {TokenStep} step @returns {(i: number, score: number) => number}
 */
function penalty(step) {
  const { repeats } = step;
  if (!repeats) return (_, score) => score;
  const before = new Set(repeats.at);
  return (i, score) => (before.has(i) ? (score < 0 ? score * repeats.penalty : score / repeats.penalty) : score);
}

/** @param {number} baseTop @param {number} alpha @param {number} beta @param {Head} head @returns {StepWeights} */
function linearWeights(baseTop, alpha, beta, head) {
  const floor = head === "raw" ? beta * baseTop : beta > 0 ? baseTop + Math.log(beta) : null;
  return { base: 1 + alpha, others: [-alpha], floor, bias: [] };
}

/**
 * Where the choice changes with α: the upper envelope of the lines b + α(b − c) over the head, as
 * core/decoding/contrast.py flip_points has it. A repetition penalty bends the lines of tokens that came before
 * where they cross 0.
 * @param {TokenStep} step @param {number} beta @param {Head} head
 * @param {number} limit the largest α that is looked at @returns {Flip[]}
 */
export function flipPoints(step, beta, head, limit) {
  const { rows } = rescore(step, 0, beta, head);
  const bend = penalty(step);
  const before = new Set(step.repeats ? step.repeats.at : []);
  const inside = rows.flatMap((row, i) => (row.inside ? [{ row, i }] : []));
  const zeros = inside.filter(({ i, row }) => before.has(i) && row.difference !== 0)
    .map(({ row }) => -row.base / row.difference).filter((alpha) => alpha > 0 && alpha < limit);
  const edges = [0, ...[...new Set(zeros)].sort((a, b) => a - b), limit];
  /** @type {Flip[]} */
  const flips = [];
  for (let k = 0; k + 1 < edges.length; k++) {
    const [low, high] = [edges[k], edges[k + 1]];
    const lines = inside.map(({ row, i }) => {
      const factor = bend(i, Math.sign(row.base + row.difference * (low + high) / 2) || 1);
      return { row, height: row.base * Math.abs(factor), slope: row.difference * Math.abs(factor) };
    });
    for (const { alpha, line } of envelope(lines, low, high)) {
      if (!flips.length || flips[flips.length - 1].row !== line.row) flips.push({ alpha, row: line.row });
    }
  }
  return flips;
}

/** @typedef {{ row: Row, height: number, slope: number }} Line */

/**
 * The upper envelope of lines for α from `low` to `high`.
 * @param {Line[]} lines @param {number} low @param {number} high @returns {{ alpha: number, line: Line }[]}
 */
function envelope(lines, low, high) {
  /** @type {(line: Line) => number} */
  const start = (line) => line.height + low * line.slope;
  let now = lines.reduce((best, line) =>
    (start(line) > start(best) || (start(line) === start(best) && line.slope > best.slope) ? line : best));
  let alpha = low;
  const found = [{ alpha, line: now }];
  for (;;) {
    const { height, slope } = now;
    const steeper = lines.filter((line) => line.slope > slope);
    if (!steeper.length) return found;
    const meets = steeper.map((line) => (height - line.height) / (line.slope - slope));
    const first = Math.min(...meets);
    if (first > high) return found;
    now = steeper.filter((_, i) => meets[i] <= first + 1e-12)
      .reduce((best, line) => (line.slope > best.slope ? line : best));
    alpha = Math.max(alpha, first);
    found.push({ alpha, line: now });
  }
}

/**
 * The choice at every α of a list that ascends, for one β: read off the exact flips.
 * @param {TokenStep} step @param {number[]} alphas @param {number} beta @param {Head} head
 */
export function flipRow(step, alphas, beta, head) {
  const points = flipPoints(step, beta, head, alphas[alphas.length - 1] + 1);
  return alphas.map((a) => points.reduce((last, p) => (p.alpha <= a ? p : last)).row);
}
