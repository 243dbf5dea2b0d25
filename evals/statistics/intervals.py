"""95 % intervals that hold near 0 and 1, with several questions a clip. No resampling.

One idea for all three: an interval that is good for independent questions is taken at an effective
number of questions, n divided by the design effect that the clips show (`effective_questions`).

docs/intervals.md shows by simulation how often each holds the truth, beside the percentile
bootstrap (`python -m evals.studies.coverage`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaincinv
from scipy.stats import norm, t

from macd_studio.core.statistics import UNKNOWN, Interval

Array = NDArray[Any]
Clusters = Sequence[Any] | Array
"""N keys, such as the clip of each question."""

TAIL = 0.025

PRIOR_CLIPS = 0.5
"""Clips whose questions all go together, added to those seen: a design effect that was estimated
from a handful of clips with an event would else be 1 by luck. Half a clip was enough in every cell
of docs/intervals.md."""


def cluster_sums(cluster: Clusters, *columns: Array) -> list[Array]:
    """Each column (N,) summed within its clusters: (C,) each, clusters in one order.

    cluster: N keys, such as the clip of each question.
    """
    _, index = np.unique(np.asarray(cluster), return_inverse=True)
    return [np.bincount(index, weights=np.asarray(c, float)) for c in columns]


def effective_questions(
    influence: Array, sizes: Array, events: Array, independent: float, least: float = 1.0
) -> float:
    """With how many independent questions a mean would be known as well as with these.

    influence: (C,) Σ (value − mean) of each clip; sizes: (C,) its questions; events: (C,) bool,
    whether a value of the rarer kind is among them; independent: variance of one question, were all
    independent. The design effect is the variance over clips to that of independent questions
    (Kish), at least `least`, with `PRIOR_CLIPS`; the degrees of freedom are those of clips (Korn
    and Graubard, 1998, Survey Methodology 24, 193-201). Where no event was seen a clip counts once.
    """
    n, clips = float(sizes.sum()), len(sizes)
    together = float((sizes**2).sum()) / n
    seen = min(int(events.sum()), clips)
    if clips < 2 or not seen or independent <= 1e-12:
        return n / together
    if together == 1 and least == 1:
        return n
    between = float((influence**2).sum()) * clips / (clips - 1)
    effect = max(between / (n * independent), least)
    effect = max(effect, (seen * effect + PRIOR_CLIPS * together) / (seen + PRIOR_CLIPS))
    freedom = t.ppf(TAIL, n - 1) / t.ppf(TAIL, clips - 1)
    return float(n / effect * freedom**2)


def clustered_share(hits: Array, cluster: Clusters) -> Interval:
    """A share of N questions, (N,) bool, with Clopper and Pearson's interval; NaN for N = 0.

    With one question a clip it is exact (SciPy's `proportion_ci`); with several it is taken at
    the effective number of questions, which need not be whole (Korn and Graubard, 1998).

    >>> [round(x, 3) for x in clustered_share(np.repeat([1, 0], [8, 2]), range(10))]
    [0.8, 0.444, 0.975]
    """
    values = np.asarray(hits, float)
    if not len(values):
        return UNKNOWN
    share = float(values.mean())
    sums, sizes = cluster_sums(cluster, values, np.ones(len(values)))
    events = min(sums > 0, sums < sizes, key=lambda clips: int(clips.sum()))
    n = effective_questions(sums - sizes * share, sizes, events, share * (1 - share))
    found, missed = n * share, n * (1 - share)
    low = 0.0 if found <= 1e-9 else float(betaincinv(found, missed + 1, TAIL))
    high = 1.0 if missed <= 1e-9 else float(betaincinv(found + 1, missed, 1 - TAIL))
    return share, low, high


def difference_interval(difference: Array, cluster: Clusters, tail: float = TAIL) -> Interval:
    """Mean of a paired difference, (N,) in [−1, 1], with Tango's score interval; NaN for N = 0.

    Tango (1998, Statistics in Medicine 17, 891-908), with a continuity correction of half a
    question, at the effective number of questions. Where a difference may be a fraction, as one of
    mean outcomes, its variance may be less than that of −1, 0 and 1, and counts as it is. tail: the
    chance beyond each end, .025 for 95 %.

    >>> [round(x, 3) for x in difference_interval(np.repeat([1, 0, -1], [9, 88, 3]), range(100))]
    [0.06, -0.015, 0.144]
    """
    values = np.asarray(difference, float)
    if not len(values):
        return UNKNOWN
    n, mean = len(values), float(values.mean())
    gained, lost = float(values.clip(0).sum()), float((-values).clip(0).sum())
    effective = n / design_effect(values, cluster)
    return mean, *_tango(gained * effective / n, lost * effective / n, effective, tail)


def design_effect(difference: Array, cluster: Clusters) -> float:
    """By how much the clips enlarge the variance of a mean paired difference, (N,) in [−1, 1].

    At least 1 of whole differences; 1 with one question a clip. N / `effective_questions`.

    >>> [round(design_effect(np.repeat([1, 0, -1], [9, 88, 3]), c), 1)
    ...  for c in (range(100), np.arange(100) // 2)]
    [1.0, 1.9]
    """
    values = np.asarray(difference, float)
    n, mean = len(values), float(values.mean())
    sums, sizes, events = cluster_sums(cluster, values, np.ones(n), values != 0)
    whole = bool(np.all(values == np.rint(values)))
    independent = float(np.abs(values).sum()) / n - mean**2
    return n / effective_questions(
        sums - sizes * mean, sizes, events > 0, independent, 1.0 if whole else 0.0
    )


def _tango(gained: float, lost: float, n: float, tail: float) -> tuple[float, float]:
    """Both ends, where the score with its continuity correction is at the normal quantile."""
    z, mean = float(norm.ppf(1 - tail)), (gained - lost) / n

    def over(d: float) -> float:
        """How far the score at a true difference of d lies beyond the quantile."""
        b = (2 * n - gained + lost) * d - gained - lost
        rarer = (math.sqrt(max(0.0, b * b + 8 * n * lost * d * (1 - d))) - b) / (4 * n)
        spread = math.sqrt(max(0.0, n * (2 * rarer + d * (1 - d))))
        return abs(n * (mean - d)) - 0.5 - z * spread

    ends = [float(brentq(over, end, mean)) if over(end) > 0 else end for end in (-1.0, 1.0)]
    return ends[0], ends[1]


def auroc_parts(positive: Array, score: Array) -> tuple[float, Array]:
    """The area under the ROC curve, and each question's influence on it (N,), which sums to 0.

    positive: (N,) bool; score: (N,), any scale; ties count half. DeLong's placements (DeLong et
    al., 1988, Biometrics 44, 837-845): of a positive the share of negatives below it, less the
    area, over the number of positives; of a negative likewise. NaN without both kinds.
    """
    positive, score = np.asarray(positive, bool), np.asarray(score, float)
    up, down = np.sort(score[positive]), np.sort(score[~positive])
    influence = np.full(len(score), np.nan)
    if not len(up) or not len(down):
        return float("nan"), influence

    def below(values: Array, others: Array) -> Array:
        sides = [np.searchsorted(others, values, side) for side in ("left", "right")]
        return np.asarray(sum(sides) / (2 * len(others)))

    above = below(score[positive], down)
    area = float(above.mean())
    influence[positive] = (above - area) / len(up)
    influence[~positive] = (1 - below(score[~positive], up) - area) / len(down)
    return area, influence


def auroc_interval(positive: Array, score: Array, cluster: Clusters) -> Interval:
    """The area under the ROC curve of N scores, with its interval over clips.

    Newcombe's score interval (2006, Statistics in Medicine 25, 559-573, method 5), whose variance
    is Hanley and McNeil's at the end itself and so is not 0 where every pair is ranked right; times
    the design effect: DeLong's variance over clips (Obuchowski, 1997, Biometrics 53, 567-578)
    to Hanley and McNeil's, at least 1. With no pair ranked wrong a clip counts once. NaN without
    both kinds.

    >>> positive = np.repeat([0, 1], 50)
    >>> [round(x, 3) for x in auroc_interval(positive, np.arange(100), range(100))]
    [1.0, 0.959, 1.0]
    """
    area, influence = auroc_parts(positive, score)
    if np.isnan(area):
        return UNKNOWN
    ups = int(np.asarray(positive, bool).sum())
    downs = len(influence) - ups
    own, sizes = cluster_sums(cluster, influence, np.ones(len(influence)))
    clips = len(sizes)
    effect, quantile = float((sizes**2).sum() / sizes.sum()), float(norm.ppf(1 - TAIL))
    if clips > 1:
        quantile = float(t.ppf(1 - TAIL, clips - 1))
        if 0 < area < 1:
            between = float((own**2).sum()) * clips / (clips - 1)
            effect = max(1.0, between / _area_variance(area, ups, downs))

    def over(truth: float) -> float:
        spread = math.sqrt(max(0.0, effect * _area_variance(truth, ups, downs)))
        return abs(area - truth) - quantile * spread

    tiny = 1e-12
    low = float(brentq(over, 0.0, max(tiny, area - tiny))) if area > tiny else 0.0
    high = float(brentq(over, min(1 - tiny, area + tiny), 1.0)) if area < 1 - tiny else 1.0
    return area, low, high


def _area_variance(area: float, ups: int, downs: int) -> float:
    """Hanley and McNeil's variance, with the mean number of both kinds (Newcombe, 2006)."""
    others = (ups + downs) / 2 - 1
    pairs = 1 + others * (1 - area) / (2 - area) + others * area / (1 + area)
    return area * (1 - area) / (ups * downs) * pairs


def auroc_change(
    positive: Array, before: Array, after: Array, cluster: Clusters
) -> tuple[Interval, float]:
    """How much larger the area of `after` is, (N,) scores of the same questions, and p.

    The ends are made of both areas' own intervals and the correlation of their influences over
    clips (MOVER: Zou and Donner, 2008, Statistics in Medicine 27, 1693-1702). p is two-sided, by
    the half width towards 0: it is below .05 where the interval leaves out 0.
    """
    first, second = (auroc_interval(positive, s, cluster) for s in (before, after))
    change = second[0] - first[0]
    if np.isnan(change):
        return UNKNOWN, float("nan")
    parts = [auroc_parts(positive, s)[1] for s in (before, after)]
    a, b = cluster_sums(cluster, *parts)
    scale = float(np.sqrt((a**2).sum() * (b**2).sum()))
    together = float((a * b).sum()) / scale if scale else 0.0
    together = min(1.0, max(0.0, together))

    def width(x: float, y: float) -> float:
        return float(np.sqrt(max(0.0, x * x + y * y - 2 * together * x * y)))

    down = width(second[0] - second[1], first[2] - first[0])
    up = width(second[2] - second[0], first[0] - first[1])
    towards = down if change > 0 else up
    if change == 0 or not towards:
        return (change, change - down, change + up), 1.0
    freedom = max(1, len(a) - 1)
    quantile = float(t.ppf(1 - TAIL, freedom))
    p = float(2 * t.sf(abs(change) / towards * quantile, freedom))
    return (change, max(-1.0, change - down), min(1.0, change + up)), p
