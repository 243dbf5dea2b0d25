"""Intervals over clips and raters: both are drawn with replacement, each independently.

A rating belongs to a rater and to a clip, so ratings are not independent draws; drawing both ways
at once is the pigeonhole bootstrap (Owen, 2007, The Annals of Applied Statistics 1(2), 386-411),
whose intervals are a little too wide rather than too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; NaN where there is too little to say."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2


def resample(raters: int, clips: int, count: int, seed: int) -> tuple[Matrix, Matrix]:
    """How often each rater (count, raters) and each clip (count, clips) is drawn."""
    rng = np.random.default_rng(seed)
    draw = rng.multinomial
    by_rater = draw(raters, np.full(raters, 1 / raters), count) if raters else np.zeros((count, 0))
    by_clip = draw(clips, np.full(clips, 1 / clips), count) if clips else np.zeros((count, 0))
    return by_rater.astype(np.float64), by_clip.astype(np.float64)


def moments(values: Matrix, by_rater: Matrix, by_clip: Matrix) -> tuple[Matrix, Matrix]:
    """Mean and standard deviation (count,) under each draw. values: (raters, clips), NaN: none."""
    there = np.isfinite(values)
    filled = np.where(there, values, 0.0)

    def total(of: Matrix) -> Matrix:
        return np.asarray(((by_rater @ of) * by_clip).sum(1))

    with np.errstate(invalid="ignore", divide="ignore"):
        n = total(there.astype(np.float64))
        mean = total(filled) / n
        spread = np.maximum(total(filled**2) / n - mean**2, 0) * n / np.maximum(n - 1, 1)
    return mean, np.where(n > 1, np.sqrt(spread), np.nan)


def interval(value: float, draws: Matrix) -> Estimate:
    """The value with the percentile interval of its draws."""
    draws = draws[np.isfinite(draws)]
    if not np.isfinite(value) or len(draws) < 2:
        return Estimate(value, float("nan"), float("nan"))
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))


def mean_interval(values: Matrix, count: int, seed: int) -> Estimate:
    """The mean of a (raters, clips) matrix with its interval over both.

    With one rater, or one clip, that way of drawing adds nothing: the interval then speaks of the
    other alone.
    """
    mean, _ = moments(values, *_whole(values))
    draws, _ = moments(values, *resample(len(values), values.shape[1], count, seed))
    return interval(float(mean[0]), draws)


def spread_interval(values: Matrix, count: int, seed: int) -> Estimate:
    """The same of the standard deviation."""
    _, spread = moments(values, *_whole(values))
    _, draws = moments(values, *resample(len(values), values.shape[1], count, seed))
    return interval(float(spread[0]), draws)


def _whole(values: Matrix) -> tuple[Matrix, Matrix]:
    return np.ones((1, values.shape[0])), np.ones((1, values.shape[1]))


def wilson(successes: int, trials: int) -> Estimate:
    """A share with Wilson's 95 % interval.

    >>> e = wilson(81, 263)  # Newcombe (1998), Statistics in Medicine 17, 857-872, table I
    >>> f"{e.low:.4f} {e.high:.4f}"
    '0.2553 0.3662'
    """
    if not trials:
        return Estimate(float("nan"), float("nan"), float("nan"))
    z = 1.959963984540054
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = (
        z * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2)) / (1 + z * z / trials)
    )
    return Estimate(share, float(centre - half), float(centre + half))
