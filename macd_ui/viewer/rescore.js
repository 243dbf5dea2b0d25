// The score rules on stored logits, as core/decoding/contrast.py has it. Pure functions, no DOM.

// Candidates of one token under both views -> rows with score, probabilities and head membership;
// exact: whether every token of the head is stored, so that `after` is no mere upper bound. A token
// that was scored by another rule than the linear one holds its weights; α, β and head do not count.
function rescore(step, alpha, beta, head = "probability") {
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
      difference: step.base[i] - other[i],
      inside,
      score: inside
        ? weights.base * step.base[i] + weights.other * other[i] + (bias.get(id) || 0)
        : -Infinity,
      before: Math.exp(step.base[i] - step.base_log_z),
    };
  });
  const top = Math.max(...rows.map((r) => r.score));
  const total = rows.reduce((sum, r) => sum + (r.inside ? Math.exp(r.score - top) : 0), 0);
  let chosen = 0;
  rows.forEach((r, i) => {
    r.after = r.inside ? Math.exp(r.score - top) / total : 0;
    if (r.score > rows[chosen].score) chosen = i;
  });
  const known = step.floor !== null && step.floor !== undefined;
  const exact = Boolean(step.complete) || cut > baseTop || (known && cut >= step.floor);
  return { rows, chosen, exact };
}

function linearWeights(baseTop, alpha, beta, head) {
  const floor = head === "raw" ? beta * baseTop : beta > 0 ? baseTop + Math.log(beta) : null;
  return { base: 1 + alpha, other: -alpha, floor, bias: [] };
}
