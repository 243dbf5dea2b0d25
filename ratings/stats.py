"""What ratings say, and how surely: intervals, agreement, correlation, and what is still missing.

Intervals are over clips and raters: both are drawn with replacement, each independently. An item is
a clip with a question, and items of one clip are drawn together.

A rating belongs to a rater and to a clip, so ratings are not independent draws; drawing both ways
at once is the pigeonhole bootstrap (Owen, 2007, The Annals of Applied Statistics 1(2), 386-411),
whose intervals are a little too wide rather than too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core import statistics

Matrix = NDArray[np.float64]
LEVEL = 0.95
GOOD = 4
"""The lowest rating that counts as good, as the paper counts."""


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


def resample(raters: int, clips: Sequence[int], count: int, seed: int) -> tuple[Matrix, Matrix]:
    """How often each rater (count, raters) and each item (count, items) is drawn.

    clips: the clip of each item, by any number; items of one clip are drawn together.
    """
    names, index = np.unique(np.asarray(clips, np.int64), return_inverse=True)
    n, draw = len(names), np.random.default_rng(seed).multinomial
    by_rater = draw(raters, np.full(raters, 1 / raters), count) if raters else np.zeros((count, 0))
    by_clip = draw(n, np.full(n, 1 / n), count)[:, index] if n else np.zeros((count, 0))
    return by_rater.astype(np.float64), by_clip.astype(np.float64)


def moments(values: Matrix, by_rater: Matrix, by_clip: Matrix) -> tuple[Matrix, Matrix]:
    """Mean and standard deviation (count,) under each draw. values: (raters, items), NaN: none."""
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
    if not np.isfinite(value) or np.isfinite(draws).sum() < 2:
        return Estimate(value, float("nan"), float("nan"))
    return Estimate(*statistics.percentile_interval(value, draws))


def mean_interval(values: Matrix, clips: Sequence[int], count: int, seed: int) -> Estimate:
    """The mean of a (raters, items) matrix with its interval over raters and clips.

    clips: the clip of each item. With one rater, or one clip, that way of drawing adds nothing: the
    interval then speaks of the other alone.
    """
    mean, _ = moments(values, *_whole(values))
    draws, _ = moments(values, *resample(len(values), clips, count, seed))
    return interval(float(mean[0]), draws)


def spread_interval(values: Matrix, clips: Sequence[int], count: int, seed: int) -> Estimate:
    """The standard deviation with its interval, by resampling raters and clips."""
    _, spread = moments(values, *_whole(values))
    _, draws = moments(values, *resample(len(values), clips, count, seed))
    return interval(float(spread[0]), draws)


def _whole(values: Matrix) -> tuple[Matrix, Matrix]:
    return np.ones((1, values.shape[0])), np.ones((1, values.shape[1]))


def wilson(successes: int, trials: int) -> Estimate:
    """A share with Wilson's 95 % interval.

    >>> e = wilson(81, 263)  # Newcombe (1998), Statistics in Medicine 17, 857-872, table I
    >>> f"{e.low:.4f} {e.high:.4f}"
    '0.2553 0.3662'
    """
    return Estimate(*statistics.wilson(successes, trials))


@lru_cache(1000)
def student(freedom: float) -> float:
    """Half the width of a two-sided interval of level `LEVEL`, in standard errors."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, freedom))


MOST = 10_000


@dataclass(frozen=True)
class Components:
    """Variances of d = μ + rater + clip + rest; None of them below 0."""

    rater: float
    clip: float
    rest: float

    def half_width(self, raters: int, clips: int) -> float:
        """Half the 95 % interval of the mean, where every rater rates every clip.

        As `inference.paired_difference` takes it: t with the fewer of both less one.
        """
        freedom = min(raters, clips) - 1
        if freedom < 1:
            return float("nan")
        variance = self.rater / raters + self.clip / clips + self.rest / (raters * clips)
        return float(student(freedom) * np.sqrt(variance))


def components(values: Matrix) -> Components | None:
    """From a (raters, clips) matrix with NaN; None where there is too little to tell them apart.

    By pairs of entries: half the mean squared difference is clip + rest for entries of one rater,
    rater + rest for those of one clip, and all three for others.
    """
    rows, columns = np.nonzero(np.isfinite(values))
    entries = values[rows, columns]
    total = {"rater": [0.0, 0], "clip": [0.0, 0], "none": [0.0, 0]}
    for i in range(len(entries) - 1):
        half = (entries[i + 1 :] - entries[i]) ** 2 / 2
        same_rater, same_clip = rows[i + 1 :] == rows[i], columns[i + 1 :] == columns[i]
        for name, chosen in (
            ("rater", same_rater & ~same_clip),
            ("clip", same_clip & ~same_rater),
            ("none", ~same_rater & ~same_clip),
        ):
            total[name][0] += float(half[chosen].sum())
            total[name][1] += int(chosen.sum())
    if any(n == 0 for _, n in total.values()):
        return None
    within_rater, within_clip, across = (s / n for s, n in total.values())
    rater, clip = max(across - within_rater, 0.0), max(across - within_clip, 0.0)
    return Components(rater, clip, max(within_rater - clip, within_clip - rater, 0.0))


@dataclass(frozen=True)
class Power:
    """half_width: expected now. raters, clips: how many more of the one would reach the target.

    None where no number of raters (clips) alone reaches it.
    """

    half_width: float
    raters: int | None
    clips: int | None


def power(values: Matrix, target: float, clips_of: Sequence[int] | None = None) -> Power | None:
    """What is missing until the half width is `target`; None where nothing can be said yet.

    values: (raters, items); clips_of: the clip of each item, of which a rater's mean then counts.
    """
    if clips_of is not None:
        values = _by_clip(values, clips_of)
    parts = components(values)
    if parts is None:
        return None
    there = np.isfinite(values)
    raters, clips = int(there.any(1).sum()), int(there.any(0).sum())

    def first(at: list[float]) -> int | None:
        return next((n for n, width in enumerate(at) if width <= target), None)

    return Power(
        parts.half_width(raters, clips),
        first([parts.half_width(raters + n, clips) for n in range(MOST)]),
        first([parts.half_width(raters, clips + n) for n in range(MOST)]),
    )


def _by_clip(values: Matrix, clips: Sequence[int]) -> Matrix:
    """(raters, clips) means of a rater's items of a clip, NaN without one."""
    there = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return sum_by_clip(np.where(there, values, 0.0), clips) / sum_by_clip(there, clips)


def sum_by_clip(values: NDArray[Any], clips: Sequence[int] | NDArray[np.int64]) -> Matrix:
    """(rows, clips) sums of (rows, items) over the items of each clip, by rising number of clip."""
    names, index = np.unique(np.asarray(clips, np.int64), return_inverse=True)
    return np.asarray(values @ np.eye(len(names))[index])


def coincidences(units: Sequence[Sequence[int]], levels: int) -> Matrix:
    """Each unit's coincidences (units, levels, levels); a unit with one rating adds nothing.

    units: the ratings 1 to `levels` that each unit got, in any order.
    """
    out = np.zeros((len(units), levels, levels))
    for u, ratings in enumerate(units):
        if len(ratings) < 2:
            continue
        counts = np.bincount(np.asarray(ratings) - 1, minlength=levels).astype(np.float64)
        out[u] = (np.outer(counts, counts) - np.diag(counts)) / (len(ratings) - 1)
    return out


def alpha(coincidence: Matrix) -> float:
    """Ordinal α = 1 − D_o / D_e from coincidences (levels, levels); NaN without variation.

    Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: the squared difference of two
    levels is (the number of ratings between them, both ends halved)².
    """
    counts = coincidence.sum(1)
    n = counts.sum()
    if n < 2:
        return float("nan")
    delta = _differences(counts)
    expected = float((np.outer(counts, counts) * delta).sum() / (n - 1))
    if expected <= 0:
        return float("nan")
    return float(1 - (coincidence * delta).sum() / expected)


def _differences(counts: NDArray[np.float64]) -> Matrix:
    levels = np.arange(len(counts))
    a, b = np.meshgrid(levels, levels, indexing="ij")
    upto = np.concatenate([[0.0], np.cumsum(counts)])
    low, high = np.minimum(a, b), np.maximum(a, b)
    between = upto[high + 1] - upto[low] - (counts[a] + counts[b]) / 2
    return np.asarray(np.where(a == b, 0.0, between**2))


def alpha_interval(
    units: Sequence[Sequence[int]], clips: Sequence[int], levels: int, count: int, seed: int
) -> Estimate:
    """Alpha with a bootstrap interval over clips, whose units are drawn together.

    clips: the clip of each unit.
    """
    each = coincidences(units, levels)
    value = alpha(each.sum(0))
    names, index = np.unique(np.asarray(clips), return_inverse=True)
    if not len(names):
        return Estimate(value, float("nan"), float("nan"))
    of_clip = np.zeros((len(names), levels * levels))
    np.add.at(of_clip, index, each.reshape(len(units), -1))
    drawn = np.random.default_rng(seed).multinomial(
        len(names), np.full(len(names), 1 / len(names)), count
    )
    sums = (drawn @ of_clip).reshape(count, levels, levels)
    return interval(value, np.array([alpha(s) for s in sums]))


def quadratic_kappa(a: Sequence[int], b: Sequence[int], levels: int) -> float:
    """Cohen's kappa with weights (i − j)² of two raters' ratings 1 to `levels` of the same units.

    Cohen (1968), Psychological Bulletin 70(4), 213-220. NaN where neither varies.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} ratings beside {len(b)}")
    if not len(a):
        return float("nan")
    table = np.zeros((levels, levels))
    np.add.at(table, (np.asarray(a) - 1, np.asarray(b) - 1), 1.0)
    index = np.arange(levels)
    weights = (index[:, None] - index[None]) ** 2
    expected = np.outer(table.sum(1), table.sum(0)) / len(a)
    disagreement = float((weights * expected).sum())
    if disagreement <= 0:
        return float("nan")
    return float(1 - (weights * table).sum() / disagreement)
