"""Statistics of paired comparisons. Clips, not questions, are what was drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

Array = NDArray[Any]
Interval = tuple[float, float, float]
"""estimate, lower and upper end of the 95 % confidence interval"""

RESAMPLES = 4000


def wilson(hits: int, n: int) -> Interval:
    """A share in [0, 1] with Wilson's score interval; NaN for n = 0.

    >>> [round(x, 3) for x in wilson(8, 10)]
    [0.8, 0.49, 0.943]
    """
    if n == 0:
        return float("nan"), float("nan"), float("nan")
    found = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    return hits / n, float(found.low), float(found.high)


def mcnemar(a: Array, b: Array) -> float:
    """Exact two-sided p that two methods err equally often on the same questions.

    a, b: (N,) bool, right or not.

    >>> round(mcnemar(np.array([1, 1, 1, 1, 1, 0]), np.array([0, 0, 0, 0, 0, 1])), 3)
    0.219
    """
    a, b = np.asarray(a, bool), np.asarray(b, bool)
    gained, lost = int((b & ~a).sum()), int((a & ~b).sum())
    if gained + lost == 0:
        return 1.0
    return float(binomtest(gained, gained + lost, 0.5).pvalue)


def cluster_sums(cluster: Sequence[Any], *columns: Array) -> list[Array]:
    """Each column (N,) summed within its clusters: (C,) each, clusters in one order.

    cluster: N keys, such as the clip of each question.
    """
    _, index = np.unique(np.asarray(cluster), return_inverse=True)
    return [np.bincount(index, weights=np.asarray(c, float)) for c in columns]


@lru_cache(maxsize=8)
def _resamples(n: int, seed: int, resamples: int) -> Array:
    """(resamples, n): how often each cluster was drawn; the same for every method."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.float64)


def bootstrap_ratio(
    top: Array,
    bottom: Array,
    cluster: Sequence[Any],
    minus: tuple[Array, Array] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """Σ top / Σ bottom, by resampling whole clusters; with `minus`, less that pair's own ratio.

    One function for means (bottom of ones), rates over mentions, and paired differences of either:
    both pairs are resampled together. Percentile interval; NaN where every denominator is zero.
    top, bottom, and both of `minus`: (N,); cluster: N keys.

    >>> bootstrap_ratio(np.ones(4), np.ones(4), [0, 0, 1, 1])
    (1.0, 1.0, 1.0)
    """
    columns = [top, bottom, *(minus or ())]
    sums = np.stack(cluster_sums(cluster, *columns))
    weights = _resamples(sums.shape[1], seed, resamples)

    def ratio(s: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            found = s[0] / s[1]
            return np.asarray(found - s[2] / s[3] if minus else found)

    drawn = ratio(sums @ weights.T)
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn):
        return float("nan"), float("nan"), float("nan")
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(ratio(sums.sum(1))), float(low), float(high)


def mean_difference(a: Array, b: Array, cluster: Sequence[Any], seed: int = 0) -> Interval:
    """Mean of b − a over the same N questions, with its interval; a, b: (N,), cluster: N keys.

    >>> mean_difference(np.zeros(3), np.ones(3), [1, 2, 3])
    (1.0, 1.0, 1.0)
    """
    ones = np.ones(len(np.asarray(a)))
    difference = np.asarray(b, float) - np.asarray(a, float)
    return bootstrap_ratio(difference, ones, cluster, seed=seed)
