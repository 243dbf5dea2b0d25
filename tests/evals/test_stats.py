"""The statistics against slow computations of the same thing, written from their definitions."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import percentile_interval, wilson
from macd_studio.evals.statistics import intervals, stats
from macd_studio.evals.statistics.intervals import clustered_share
from macd_studio.evals.statistics.stats import (
    check_difference,
    choice_test,
    enough_differ,
    power_of,
    questions_needed,
    smallest_difference,
    sum_of_draws,
)

CLUSTERS = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4, 5])
N = len(CLUSTERS)


def is_nan(numbers):
    return all(math.isnan(x) for x in numbers)


@cache
def resampled(seed, resamples):
    """The rows of every resample: those of a cluster repeated as often as it was drawn."""
    names = np.unique(CLUSTERS)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(names), [1 / len(names)] * len(names), size=resamples)
    rows = [np.flatnonzero(CLUSTERS == name).tolist() for name in names]
    return [
        np.array([i for own, count in zip(rows, counts, strict=True) for i in own * count], int)
        for counts in drawn.tolist()
    ]


def draws(statistic, seed=0, resamples=stats.RESAMPLES):
    """The statistic of every resample."""
    return np.array([statistic(i) for i in resampled(seed, resamples)])


def interval(values):
    """The 2.5th and 97.5th percentile, by interpolation between the sorted values."""
    ordered = sorted(values)

    def at(share):
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    return at(0.025), at(0.975)


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (7, 7), (3, 7), (1, 1), (40, 100)])
def test_wilson_is_the_score_interval(hits, n):
    z, share = 1.959963984540054, hits / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    assert wilson(hits, n) == pytest.approx((share, middle - half, middle + half), abs=1e-9)
    assert is_nan(wilson(0, 0))


@given(some.arrays(bool, 12), some.arrays(bool, 12))
def test_mcnemar_is_a_coin_toss_over_the_discordant(a, b):
    gained, lost = int((b & ~a).sum()), int((a & ~b).sum())
    n = gained + lost
    tail = sum(math.comb(n, k) for k in range(max(gained, lost), n + 1)) / 2**n
    assert stats.mcnemar(a, b) == pytest.approx(min(1.0, 2 * tail))
    assert stats.mcnemar(a.astype(float), b.astype(int)) == stats.mcnemar(a, b)
    assert stats.sign_flip(b.astype(int) - a, range(12)) == pytest.approx(stats.mcnemar(a, b))


@pytest.mark.parametrize("seed", [0, 5])
def test_a_ratio_is_resampled_by_whole_clusters(seed):
    rng = np.random.default_rng(1)
    top, bottom = rng.random(N), rng.random(N)
    expected = draws(lambda i: top[i].sum() / bottom[i].sum(), seed)
    made = stats.bootstrap_ratio(top, bottom, CLUSTERS, seed=seed)
    assert made == pytest.approx((top.sum() / bottom.sum(), *interval(expected)))


def test_a_difference_of_ratios_is_resampled_together():
    rng = np.random.default_rng(2)
    a, b, c, d = rng.random((4, N))

    def difference(i):
        return a[i].sum() / b[i].sum() - c[i].sum() / d[i].sum()

    made = stats.bootstrap_ratio(a, b, CLUSTERS, (c, d))
    assert made == pytest.approx((difference(np.arange(N)), *interval(draws(difference))))


def test_the_number_of_resamples_is_as_asked():
    top = np.random.default_rng(3).random(N)
    expected = draws(lambda i: top[i].sum() / len(i), resamples=40)
    made = stats.bootstrap_ratio(top, np.ones(N), CLUSTERS, resamples=40)
    assert made == pytest.approx((top.mean(), *interval(expected)))


def test_resamples_without_a_denominator_are_left_out():
    bottom = (CLUSTERS == 0).astype(float)
    top = bottom * np.array([1, 0] + [0] * (N - 2))
    assert stats.bootstrap_ratio(top, bottom, CLUSTERS) == (0.5, 0.5, 0.5)
    assert is_nan(stats.bootstrap_ratio(top, np.zeros(N), CLUSTERS))


def test_percentiles_of_what_is_finite():
    drawn = np.array([np.nan, 4.0, 1.0, np.inf, 3.0, 2.0, -np.inf])
    assert percentile_interval(9.0, drawn) == pytest.approx((9.0, *interval([1, 2, 3, 4])))
    assert is_nan(percentile_interval(9.0, np.array([np.nan])))


def test_a_paired_difference_keeps_0_where_the_exact_test_does_not_refuse_it():
    """Five gains without a loss: the score interval leaves 0 out, the exact test has p = .0625."""
    a, b = np.zeros(100), np.repeat([1.0, 0.0], [5, 95])
    assert intervals.difference_interval(b - a, range(100))[1] > 0
    assert stats.sign_flip(b - a, range(100)) == pytest.approx(0.0625)
    assert stats.mean_difference(a, b, range(100))[1] == 0
    assert stats.mean_difference(b, a, range(100))[2] == 0
    six = np.repeat([1.0, 0.0], [6, 94])
    assert stats.mean_difference(a, six, range(100))[1] > 0
    assert stats.mean_difference(a, six / 2, range(100))[1] == pytest.approx(
        intervals.difference_interval(six / 2, range(100))[1]
    )


def test_nothing_has_no_mean():
    assert is_nan(clustered_share(np.zeros(0), []))
    assert is_nan(stats.mean_difference(np.zeros(0), np.zeros(0), []))


@given(some.arrays(int, N, elements=st.integers(-1, 1)))
def test_sign_flips_are_counted_one_by_one(difference):
    sums = [difference[CLUSTERS == c].sum() for c in np.unique(CLUSTERS)]
    flipped = [
        abs(sum(s * z for s, z in zip(signs, sums, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(sums))
    ]
    expected = np.mean([f >= abs(sum(sums)) for f in flipped])
    assert stats.sign_flip(difference, CLUSTERS) == pytest.approx(expected)


def test_the_sign_test_counts_signs_and_the_sign_flip_test_weighs_them():
    """Fifteen gains of 1/8 and three losses of 7/8 of a question."""
    difference, tails = np.repeat([1, -7], [15, 3]), 2 * (1 + 18 + 153 + 816) / 2**18
    assert stats.sign_test(difference, range(18)) == pytest.approx(tails)
    assert stats.sign_flip(difference, range(18)) > 0.3
    in_pairs = 2 * (1 + 15 + 105 + 455) / 2**15  # each loss with a gain
    assert stats.sign_test(difference, np.arange(18) % 15) == pytest.approx(in_pairs)
    assert stats.sign_test(np.zeros(4), range(4)) == 1.0


@pytest.mark.parametrize("ups", [35, 42, 50, 111])
def test_the_chance_of_any_sum_is_1_and_no_more(ups):
    """Of an odd number of ±1 every sum is at least 1 from 0; what is added up rounds above 1."""
    difference = np.array([1] * ups + [-1] * (ups - 1))
    assert stats.sign_flip(difference, range(len(difference))) == 1.0


@given(st.lists(st.floats(0, 1) | st.just(math.nan), max_size=8))
def test_holm_by_its_definition(p):
    known = sorted((x, i) for i, x in enumerate(p) if not math.isnan(x))
    expected, worst = [math.nan] * len(p), 0.0
    for place, (x, i) in enumerate(known):
        worst = max(worst, min(1.0, (len(known) - place) * x))
        expected[i] = worst
    assert stats.holm(p) == pytest.approx(expected, nan_ok=True)


def power_by_definition(n, difference, discordance, level=0.05, design_effect=1.0):
    """Every number of discordant questions, and every way in which they can fall."""
    n, better = int(n / design_effect), (discordance + difference) / (2 * discordance)
    total = 0.0
    for m in range(n + 1):
        those = math.comb(n, m) * discordance**m * (1 - discordance) ** (n - m)
        for k in range(m + 1):
            tail = sum(math.comb(m, i) for i in range(min(k, m - k) + 1)) / 2**m
            if tail <= level / 2:
                total += those * math.comb(m, k) * better**k * (1 - better) ** (m - k)
    return total


@pytest.mark.parametrize("n", [1, 23, 41])
@pytest.mark.parametrize(("difference", "discordance"), [(0.2, 0.5), (0.3, 0.3), (0.6, 1.0)])
@pytest.mark.parametrize(("level", "design_effect"), [(0.05, 1.0), (0.0625, 1.0), (0.2, 1.7)])
def test_power_by_its_definition(n, difference, discordance, level, design_effect):
    made = power_of(n, difference, discordance, level, design_effect)
    expected = power_by_definition(n, difference, discordance, level, design_effect)
    assert made == pytest.approx(expected, abs=1e-10)
    worse = power_of(n, -difference, discordance, level, design_effect)
    assert worse == pytest.approx(expected, abs=1e-10)


def test_power_of_many_questions_leaves_nothing_out():
    """Although not every number of discordant questions is summed over."""
    for level in (0.05, 0.2):
        expected = power_by_definition(150, 0.1, 0.4, level)
        assert power_of(150, 0.1, 0.4, level) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("power", "level", "design_effect"), [(0.8, 0.05, 1.0), (0.6, 0.01, 1.5)])
def test_so_many_questions_are_needed_and_not_one_fewer(power, level, design_effect):
    asked = (0.3, 0.5, power, level, design_effect)
    n = questions_needed(*asked)
    assert power_by_definition(n, 0.3, 0.5, level, design_effect) >= power
    assert power_by_definition(n - 1, 0.3, 0.5, level, design_effect) < power
    assert questions_needed(-0.3, *asked[1:]) == n


@pytest.mark.parametrize("design_effect", [1.0, 2.0])
def test_the_smallest_difference_just_has_the_power(design_effect):
    found = smallest_difference(60, 0.4, 0.7, design_effect)
    assert power_by_definition(60, found, 0.4, 0.05, design_effect) == pytest.approx(0.7, abs=1e-9)
    most = power_of(30, 0.2, 0.2)
    assert smallest_difference(30, 0.2, most) == pytest.approx(0.2)
    assert smallest_difference(60, 0.2, most) is not None
    assert smallest_difference(60, 0.2, most + 1e-9, design_effect=2.0) is None


def test_what_two_methods_can_differ_by():
    check_difference(1.0, 1.0)
    check_difference(-0.2, 0.2)
    for difference, discordance in ((0.0, 0.2), (0.3, 0.2), (0.5, 1.2)):
        with pytest.raises(OptionError, match="only one method"):
            check_difference(difference, discordance)


def test_the_least_and_the_most_that_draws_can_give():
    classes = [[0, 1, 1, 1]] * 2
    assert choice_test([0, 0], classes) == pytest.approx(2 / 16)
    assert choice_test([1, 0], classes) == pytest.approx(14 / 16)
    assert choice_test([1, 1], classes) == 1.0
    for sum_ in ([-1, 0], [3, 0]):
        with pytest.raises(ValueError, match="no draws"):
            choice_test(sum_, classes)


def test_the_distribution_is_that_of_all_combinations():
    classes = [[0, 1, 1], [0, 0, 3], [2, 2, 2], [1, 0, 4]]
    sums = [sum(one) for one in itertools.product(*classes)]
    assert sum_of_draws(classes) == pytest.approx(np.bincount(sums) / len(sums), abs=1e-12)
    upper = np.mean([s >= 10 for s in sums])
    assert choice_test([1, 3, 2, 4], classes) == pytest.approx(min(1, 2 * upper))


def test_clips_without_a_difference_are_no_evidence():
    assert enough_differ([1, -1, 1, 1, -1, 1, 0, 0], range(8))
    assert not enough_differ([1, -1, 1, 1, -1, 0, 0, 0], range(8))
