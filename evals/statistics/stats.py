"""Statistics of paired comparisons. Clips, not questions, are what was drawn at random.

Also how many questions a comparison needs (`questions_needed` and what is beside it).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.fft import next_fast_len
from scipy.stats import binom, binomtest, norm

from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import Interval, percentile_interval
from macd_studio.evals.statistics.intervals import (
    Array,
    Clusters,
    cluster_sums,
    difference_interval,
)

RESAMPLES = 4000
LEVEL = 0.05
"""Of every test: where p is below it, 0 is refused."""


def mcnemar(a: Array, b: Array) -> float:
    """Exact two-sided p that two methods err equally often on the same questions.

    a, b: (N,) bool, right or not.

    >>> round(mcnemar(np.array([1, 1, 1, 1, 1, 0]), np.array([0, 0, 0, 0, 0, 1])), 3)
    0.219
    """
    a, b = np.asarray(a, bool), np.asarray(b, bool)
    return sign_test(b.astype(int) - a, range(len(a)))


def sign_test(difference: Array, cluster: Clusters) -> float:
    """Exact two-sided p that as many clusters gain as lose, however much each: the sign test.

    difference: (N,); cluster: N keys. With one question a cluster, −1, 0 or 1, it is `sign_flip`
    too. Of an outcome less a mean of outcomes it tests the median, which no choice need not make 0:
    where 7 of 8 placements are right, a right answer gains 1/8 and a wrong one loses 7/8.
    """
    (sums,) = cluster_sums(cluster, difference)
    gained, lost = int((sums > 1e-9).sum()), int((sums < -1e-9).sum())
    return float(binomtest(gained, gained + lost, 0.5).pvalue) if gained + lost else 1.0


@lru_cache(maxsize=8)
def resampled_clusters(n: int, seed: int, resamples: int) -> Array:
    """(resamples, n): how often each cluster was drawn; the same for every method."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.float64)


def bootstrap_ratio(
    top: Array,
    bottom: Array,
    cluster: Clusters,
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
    weights = resampled_clusters(sums.shape[1], seed, resamples)

    def ratio(s: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            found = s[0] / s[1]
            return np.asarray(found - s[2] / s[3] if minus else found)

    return percentile_interval(float(ratio(sums.sum(1))), ratio(sums @ weights.T))


def mean_difference(a: Array, b: Array, cluster: Clusters) -> Interval:
    """Mean of b − a over the same N questions, with its interval; a, b: (N,) in [0, 1].

    cluster: N keys. `difference_interval`; where the exact test over clips, `sign_flip`, does not
    refuse 0 at 5 %, the interval holds it, so that with one question a clip both say the same.

    >>> low, high = mean_difference(np.zeros(100), np.zeros(100), range(100))[1:]
    >>> round(low, 3), round(high, 3)
    (-0.046, 0.046)
    """
    difference = np.asarray(b, float) - np.asarray(a, float)
    mean, low, high = difference_interval(difference, cluster)
    if low <= 0 <= high or not len(difference) or np.any(difference != np.rint(difference)):
        return mean, low, high
    if sign_flip(difference, cluster) < LEVEL:
        return mean, low, high
    return mean, min(low, 0.0), max(high, 0.0)


def sign_flip(difference: Array, cluster: Clusters) -> float:
    """Exact two-sided p of the sign-flip test: that each cluster's sum is symmetric about 0.

    difference: (N,) whole numbers; cluster: N keys. The distribution of Σ ±|cluster sum| under
    random signs is computed whole (Fisher and Pitman's randomisation test of paired differences),
    so sizes count, as they do not in `sign_test`. With one question a cluster, −1, 0 or 1, it is
    McNemar's exact test.

    >>> round(sign_flip(np.array([1, 1, 1, 1, 1, -1]), range(6)), 3)
    0.219
    """
    (sums,) = cluster_sums(cluster, difference)
    sizes = np.abs(np.rint(sums)).astype(int)
    sizes = sizes[sizes > 0]
    total = int(sizes.sum())
    if not total:
        return 1.0
    chance = np.zeros(2 * total + 1)
    chance[total] = 1.0
    for size in sizes:  # index total + s: the chance of the sum s
        up, down = np.zeros_like(chance), np.zeros_like(chance)
        up[size:], down[: len(chance) - size] = chance[: len(chance) - size], chance[size:]
        chance = (up + down) / 2
    far = abs(int(np.rint(sums.sum())))
    at_least = chance[total + far :].sum() + chance[: total - far + 1].sum()
    return float(min(1.0, at_least)) if far else 1.0


EXACT_TO = 1e-12
"""Of `choice_test`."""


def choice_test(chosen: Sequence[int], among: Sequence[Sequence[int]]) -> float:
    """Two-sided p that each choice was drawn evenly from its own class, exact to 1e-12.

    The statistic is the sum of what was chosen; its distribution under independent draws is
    computed whole, so no permutation is left to luck. Twice the smaller tail.

    chosen: (N,) whole numbers ≥ 0, an outcome (0 or 1) or a place; among: for each the outcomes of
    all members of its class, the chosen one among them. A class of equal outcomes says nothing.
    Raises ValueError where no draws give the sum.

    >>> round(choice_test([1, 1, 1, 1], [[1, 0, 0, 0]] * 4), 4)
    0.0078
    """
    found, at = sum_of_draws(among), int(sum(chosen))
    if not 0 <= at < len(found):
        raise ValueError(f"no draws give {at}")
    return float(min(1.0, 2 * min(found[: at + 1].sum(), found[at:].sum())))


def sum_of_draws(among: Sequence[Sequence[int]]) -> Array:
    """(most + 1,) chance of each sum of one even draw from every class, to 1e-12.

    The product of the classes' Fourier transforms; see `choice_test`.

    >>> sum_of_draws([[0, 1], [0, 1]]).round(9).tolist()
    [0.25, 0.5, 0.25]
    """
    alike = Counter(tuple(sorted(outcomes)) for outcomes in among)
    length = 1 + sum(times * outcomes[-1] for outcomes, times in alike.items())
    size = next_fast_len(length, real=True)  # a large prime factor costs twenty times the time
    product = np.ones(size // 2 + 1, complex)
    for outcomes, times in alike.items():
        product *= np.fft.rfft(np.bincount(outcomes) / len(outcomes), size) ** times
    return np.asarray(np.maximum(np.fft.irfft(product, size)[:length], 0.0))


MIN_DIFFERING = 6
"""Clusters with another outcome from which the exact sign-flip test can reach .05 at all."""


def enough_differ(difference: Array, cluster: Clusters) -> bool:
    """Whether enough clusters differ for `sign_flip` to find anything; else it is no test.

    >>> enough_differ(np.array([1, 1, 1, -1, 1, 1]), range(6)), enough_differ(np.ones(9), [0] * 9)
    (True, False)
    """
    (sums,) = cluster_sums(cluster, difference)
    return int((np.abs(np.rint(sums)) > 0).sum()) >= MIN_DIFFERING


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given (Holm 1979); NaN stays and is not counted.

    >>> [round(x, 3) for x in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, float)
    adjusted = np.full(len(values), np.nan)
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(values[known], kind="stable")]
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(x) for x in adjusted]


def check_difference(difference: float, discordance: float) -> None:
    """Raises OptionError where no two methods can differ so."""
    if not 0 < abs(difference) <= discordance <= 1:
        raise OptionError(
            f"a difference of {100 * difference:g} points needs at least as many questions that"
            f" only one method answers right, and {100 * discordance:g} % are",
            "Give a discordance from the difference to 100",
        )


def questions_needed(
    difference: float,
    discordance: float,
    power: float = 0.8,
    level: float = 0.05,
    design_effect: float = 1.0,
) -> int:
    """Questions with which the exact two-sided McNemar test finds the difference with that power.

    difference, discordance: shares in (0, 1], see `power_of`. design_effect: by how much clusters
    enlarge the variance, 1 + (questions a clip − 1)·correlation within a clip. Raises OptionError.

    >>> questions_needed(0.05, 0.20), questions_needed(0.05, 0.20, design_effect=1.5)
    (658, 987)
    """
    check_difference(difference, discordance)
    d, q = abs(difference), discordance
    # of the normal test, Connor (1987): the exact one needs somewhat more
    root = norm.ppf(1 - level / 2) * math.sqrt(q) + norm.ppf(power) * math.sqrt(max(0, q - d * d))
    low, high = 0, max(2, math.ceil(design_effect * (float(root) / d) ** 2))
    while power_of(high, d, q, level, design_effect) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        enough = power_of(middle, d, q, level, design_effect) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def power_of(
    n: int, difference: float, discordance: float, level: float = 0.05, design_effect: float = 1.0
) -> float:
    """The power of the exact two-sided McNemar test with n questions.

    Of n questions a binomial number m is answered right by one method alone, each with the chance
    `discordance`; of these the better method has its part. The test refuses where the binomial tail
    of the rarer kind is at most level / 2. Summed over all m that matter, in closed form.

    >>> round(power_of(658, 0.05, 0.20), 2)
    0.8
    """
    check_difference(difference, discordance)
    better = (discordance + abs(difference)) / (2 * discordance)
    effective = int(n / design_effect)
    spread = 10 * math.sqrt(effective * discordance) + 10
    middle = effective * discordance
    m = np.arange(max(0, int(middle - spread)), min(effective, int(middle + spread)) + 1)
    most = binom.ppf(level / 2, m, 0.5)
    most = most - (binom.cdf(most, m, 0.5) > level / 2)  # the most of the rarer kind that refuse
    refused = binom.cdf(most, m, better) + binom.cdf(most, m, 1 - better)
    return float((binom.pmf(m, effective, discordance) * refused).sum())


def smallest_difference(
    n: int, discordance: float, power: float = 0.8, design_effect: float = 1.0
) -> float | None:
    """The smallest difference that n questions show with that power; None where none does.

    >>> round(smallest_difference(193, 0.3), 3)
    0.113
    """
    low, high = 0.0, discordance
    if power_of(n, high, discordance, design_effect=design_effect) < power:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        enough = power_of(n, middle, discordance, design_effect=design_effect) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high
