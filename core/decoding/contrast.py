"""Around the contrast of `core.macd`: which tokens to store, and where the choice changes with α.

Pure NumPy: nothing here mutates or knows a model.

Logits are 1-D over the vocabulary, or over the stored candidates of a `TokenStep` (then the base
argmax is among them, and results are exact for every token stored).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import HALF_OR_DAMAGED, NumericalError
from macd_studio.core.macd import (
    Float64Array,
    Head,
    Logits,
    contrast_weights,
    plausibility_threshold,
    plausible,
    weighted,
)
from macd_studio.core.repeats import Repeats


def plausibility_mask(base: Logits, beta: float, head: Head = "probability") -> NDArray[np.bool_]:
    """V_head as a mask over the tokens; see `plausibility_threshold`.

    The base argmax is always in, also for β > 1 (the paper sweeps β = 1.2).

    >>> plausibility_mask(np.array([2.0, 1.9, -3.0]), beta=0.5).tolist()
    [True, True, False]
    """
    return plausible(base, plausibility_threshold(base, beta, head))


def score(
    base: Logits, counter: Logits, alpha: float, beta: float, head: Head = "probability"
) -> Float64Array:
    """s(t) = (1+α)·logit(t|V) − α·logit(t|V_d) inside V_head, −inf outside.

    >>> score(np.array([2.0, 1.5]), np.array([2.0, 0.5]), alpha=1.0, beta=0.1).tolist()
    [2.0, 2.5]
    """
    return weighted(base, [counter], contrast_weights(base, alpha, beta, head))


def nucleus(scores: Logits, temperature: float, top_p: float) -> Float64Array:
    """Probabilities to sample from: tempered softmax, then the smallest set of mass ≥ top_p.

    >>> nucleus(np.log([0.6, 0.3, 0.1]), 1.0, 0.8).round(3).tolist()
    [0.667, 0.333, 0.0]
    """
    s = np.asarray(scores, np.float64) / temperature
    p = np.exp(s - s.max())
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    before = np.cumsum(p[order]) - p[order]
    p[order[before >= top_p]] = 0.0
    return np.asarray(p / p.sum())


def check_finite(logits: Logits, where: str) -> None:
    """Raises NumericalError, naming the place, if a logit is NaN or infinite."""
    if not np.isfinite(logits).all():
        raise NumericalError(
            f"the model gave logits that are not finite at {where}",
            f"{HALF_OR_DAMAGED}; or choose another fill or a smaller α",
        )


LARGEST_ALPHA = 20.0
"""The largest α that a stored token can be scored again with."""


def winners(base: Logits, counter: Logits, alpha: float = LARGEST_ALPHA) -> NDArray[np.int64]:
    """Ids of all tokens that win for some α in [0, `alpha`] and some β in [0, 1], for both heads.

    For β ≤ 1 either head is the base argmax alone or {b ≥ θ} for some θ, so a token wins somewhere
    only if it wins among those with b at least its own. If it does at some α, its slope b − c is no
    smaller than theirs, or it could not make up for its smaller b, and so it does at the largest α
    too: its score there is a running maximum in the order of falling b. Ties count as wins, and so
    do all tokens with the largest b, which tie at α = 0.

    >>> winners(np.array([3.0, 2.0, 1.0]), np.array([3.0, 2.5, 0.0])).tolist()
    [0, 2]
    """
    base, counter = np.asarray(base, np.float64), np.asarray(counter, np.float64)
    last = (1 + alpha) * base - alpha * counter
    rounding = 1e-12 * (1 + np.abs(last))
    ties = base == base.max()
    few = np.flatnonzero(ties | (last >= last[ties].max() - rounding))  # sorting all would be slow
    order = few[np.lexsort((-last[few], -base[few]))]
    won = last[order] >= np.maximum.accumulate(last[order]) - rounding[order]
    return np.asarray(order[won | ties[order]], np.int64)


def winners_penalised(
    base: Logits, counter: Logits, repeats: Repeats | None = None
) -> NDArray[np.int64]:
    """`winners` under a repetition penalty.

    It keeps the order of the scores of the tokens that came before, and that of all others: only
    the best of either can win.
    """
    if repeats is None:
        return winners(base, counter)
    parts = [np.flatnonzero(repeats.at), np.flatnonzero(~repeats.at)]
    won = [part[winners(base[part], counter[part])] for part in parts if len(part)]
    return np.sort(np.concatenate(won))


def kept_candidates(
    views: Iterable[Logits],
    keep: int,
    floor: float,
    chosen: int,
    repeats: Repeats | None = None,
) -> NDArray[np.int64]:
    """Token ids worth storing, base best first: enough to score again with any α and β.

    Each view's top `keep`, all above the cut's floor, the chosen one, and of two views all
    `winners`, so that the choice found among them is the one over the whole vocabulary. The first
    view is the base. No rule over more views has an α to be scored again with.
    """
    views = [np.asarray(v) for v in views]
    base = views[0]
    ids = {chosen}
    for v in views:
        n = min(keep, len(v))
        ids.update(np.argpartition(-v, n - 1)[:n].tolist())
    if floor > -np.inf:
        ids.update(np.flatnonzero(plausible(base, floor)).tolist())
    if len(views) == 2:
        ids.update(winners_penalised(base, views[1], repeats).tolist())
    candidates = np.array(sorted(ids), np.int64)
    return np.asarray(candidates[np.argsort(-base[candidates], kind="stable")])


def floor_of(base: Logits, candidates: NDArray[np.int64]) -> float:
    """Every token whose base logit is at least this is a candidate; −inf: all tokens are.

    >>> floor_of(np.array([3.0, 1.0, 2.0]), np.array([0, 2])) > 1.0
    True
    """
    base = np.asarray(base)
    left = np.ones(len(base), bool)
    left[candidates] = False
    if not left.any():
        return -np.inf
    return float(np.nextafter(base[left].max(), np.inf, dtype=base.dtype))


def flip_points(
    base: Logits,
    counter: Logits,
    beta: float,
    limit: float = 20.0,
    repeats: Repeats | None = None,
) -> list[tuple[float, int]]:
    """Where the greedy choice changes with α: [(α, index chosen from there on), …], α from 0.

    Scores are lines b + α(b − c), so the choice follows their upper envelope; exact, no search. A
    repetition penalty bends those of tokens that came before where they cross 0.

    >>> flip_points(np.array([1.0, 0.5]), np.array([1.0, 0.0]), beta=0)
    [(0.0, 0), (1.0, 1)]
    """
    base, counter = np.asarray(base, np.float64), np.asarray(counter, np.float64)
    inside = np.flatnonzero(plausibility_mask(base, beta))
    height, slope = base[inside], (base - counter)[inside]
    if repeats is None:
        return [(alpha, int(inside[now])) for alpha, now in _envelope(height, slope, 0.0, limit)]
    penalty, bent = repeats.penalty, np.flatnonzero(repeats.at[inside] & (slope != 0))
    zeros = -height[bent] / slope[bent]
    edges = [0.0, *np.unique(zeros[(zeros > 0) & (zeros < limit)]).tolist(), limit]
    flips: list[tuple[float, int]] = []
    for low, high in pairwise(edges):
        below = height + slope * (low + high) / 2 < 0
        factor = np.where(below, penalty, 1 / penalty)
        factor[~repeats.at[inside]] = 1.0
        for alpha, now in _envelope(height * factor, slope * factor, low, high):
            if not flips or flips[-1][1] != int(inside[now]):
                flips.append((alpha, int(inside[now])))
    return flips


def _envelope(
    height: Float64Array, slope: Float64Array, low: float, high: float
) -> list[tuple[float, int]]:
    """The upper envelope of the lines height + α·slope for α from `low` to `high`."""
    at_low = height + low * slope
    now = int(np.lexsort((-slope, -at_low))[0])
    alpha = low
    flips = [(low, now)]
    while True:
        steeper = np.flatnonzero(slope > slope[now])
        if not len(steeper):
            return flips
        meets = (height[now] - height[steeper]) / (slope[steeper] - slope[now])
        first = meets.min()
        if first > high:
            return flips
        tied = steeper[meets <= first + 1e-12]
        now = int(tied[slope[tied].argmax()])
        alpha = max(alpha, float(first))
        flips.append((alpha, now))
