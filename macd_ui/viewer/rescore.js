// The contrastive rule on stored logits, as core/decoding/contrast.py has it. Pure functions, no DOM.

// Candidates of one token under both views -> rows with score, probabilities and head membership;
// exact: whether every token of the head is stored, so that `after` is no mere upper bound.
function rescore(step, alpha, beta, head = "probability") {
  const other = step.counter || step.base;
  const baseTop = Math.max(...step.base);
  const cut = head === "raw" ? beta * baseTop : beta > 0 ? baseTop + Math.log(beta) : -Infinity;
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
      score: inside ? (1 + alpha) * step.base[i] - alpha * other[i] : -Infinity,
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
