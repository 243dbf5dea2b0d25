"""How far raters agree: Krippendorff's alpha and the quadratic weighted kappa."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from macd_studio.ratings.stats.bootstrap import Estimate, Matrix, interval

Metric = Literal["nominal", "ordinal", "interval"]


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


def alpha(coincidence: Matrix, metric: Metric = "ordinal") -> float:
    """α = 1 − D_o / D_e from a matrix of coincidences (levels, levels); NaN without variation.

    Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: for ordinal data the squared
    difference of two levels is (the number of ratings between them, both ends halved)².
    """
    counts = coincidence.sum(1)
    n = counts.sum()
    if n < 2:
        return float("nan")
    delta = _differences(counts, metric)
    expected = float((np.outer(counts, counts) * delta).sum() / (n - 1))
    if expected <= 0:
        return float("nan")
    return float(1 - (coincidence * delta).sum() / expected)


def _differences(counts: NDArray[np.float64], metric: Metric) -> Matrix:
    levels = len(counts)
    a, b = np.meshgrid(np.arange(levels), np.arange(levels), indexing="ij")
    if metric == "nominal":
        return np.asarray(a != b, np.float64)
    if metric == "interval":
        return np.asarray((a - b) ** 2, np.float64)
    upto = np.concatenate([[0.0], np.cumsum(counts)])
    low, high = np.minimum(a, b), np.maximum(a, b)
    between = upto[high + 1] - upto[low] - (counts[a] + counts[b]) / 2
    return np.asarray(np.where(a == b, 0.0, between**2))


def alpha_interval(
    units: Sequence[Sequence[int]],
    clips: Sequence[int],
    levels: int,
    count: int,
    seed: int,
    metric: Metric = "ordinal",
) -> Estimate:
    """Alpha with a bootstrap interval over clips, whose units are drawn together.

    clips: the clip of each unit.
    """
    each = coincidences(units, levels)
    value = alpha(each.sum(0), metric)
    names, index = np.unique(np.asarray(clips), return_inverse=True)
    if not len(names):
        return Estimate(value, float("nan"), float("nan"))
    of_clip = np.zeros((len(names), levels * levels))
    np.add.at(of_clip, index, each.reshape(len(units), -1))
    drawn = np.random.default_rng(seed).multinomial(
        len(names), np.full(len(names), 1 / len(names)), count
    )
    sums = (drawn @ of_clip).reshape(count, levels, levels)
    return interval(value, np.array([alpha(s, metric) for s in sums]))


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
