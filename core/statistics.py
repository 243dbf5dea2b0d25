"""Intervals and bounds that evaluations and rating studies share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float, float]
"""An estimate, and the low and high end of its 95 % interval; NaN where there is too little."""
Z = NormalDist().inv_cdf(0.975)
UNKNOWN: Interval = (math.nan, math.nan, math.nan)


def wilson(hits: int, n: int) -> Interval:
    """A share in [0, 1] with Wilson's score interval; NaN for n = 0.

    >>> [round(x, 4) for x in wilson(81, 263)]  # Newcombe (1998), Stat. Med. 17, 857-872, table I
    [0.308, 0.2553, 0.3662]
    """
    if n == 0:
        return UNKNOWN
    share, scale = hits / n, 1 + Z**2 / n
    middle = (share + Z**2 / (2 * n)) / scale
    half = Z / scale * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return share, max(0.0, middle - half), min(1.0, middle + half)


def percentile_interval(estimate: float, drawn: NDArray[np.float64]) -> Interval:
    """The estimate with the 2.5th and 97.5th percentile of what was resampled, where finite."""
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn):
        return UNKNOWN
    low, high = np.percentile(drawn, [2.5, 97.5])
    return estimate, float(low), float(high)


def spearman(
    x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]
) -> float:
    """Spearman's correlation; NaN below three pairs, or where one side does not vary.

    >>> round(spearman([1, 2, 3, 4], [1, 3, 2, 4]), 6)
    0.8
    """
    if len(x) != len(y):
        raise ValueError(f"{len(x)} values beside {len(y)}")
    if len(x) < 3 or min(np.ptp(x), np.ptp(y)) == 0:
        return math.nan
    from scipy.stats import spearmanr  # takes half a second, and few who import this call it

    return float(spearmanr(x, y).statistic)


def least_sd(mean: float, share: float, good: int = 4, levels: int = 5) -> float:
    """The least standard deviation of whole ratings 1 to `levels` with this mean.

    share: of the ratings that are `good` or higher, strictly between 0 and 1. Of both kinds ratings
    are as close to their own mean as whole numbers can be. NaN where no ratings fit.

    >>> round(least_sd(3.10, 0.38), 2)  # all of the 38 % are 4, the others 2 and 3
    0.81
    """
    if not 0 < share < 1:
        return math.nan
    best = math.inf
    # the second moment is linear between whole means, so that its least is where one is whole
    highs = [float(z) for z in range(good, levels + 1)]
    highs += [(mean - (1 - share) * low) / share for low in range(1, good)]
    for high in highs:
        rest = (mean - share * high) / (1 - share)
        if good - 1e-9 <= high <= levels + 1e-9 and 1 - 1e-9 <= rest <= good - 1 + 1e-9:
            parts = ((share, high), (1 - share, rest))
            second = sum(w * (x * x + _rounding(x)) for w, x in parts)
            best = min(best, second - mean**2)
    return math.sqrt(max(0.0, best)) if math.isfinite(best) else math.nan


def _rounding(mean: float) -> float:
    """The smallest variance of whole numbers with that mean."""
    part = mean - math.floor(mean)
    return part * (1 - part)
