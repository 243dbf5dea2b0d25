"""The statistics against published worked examples, and against values planted in noise."""

import math

import numpy as np
import pytest

from macd_studio.core.statistics import spearman
from macd_studio.ratings.stats import (
    alpha,
    alpha_interval,
    coincidences,
    components,
    mean_interval,
    moments,
    power,
    quadratic_kappa,
    spread_interval,
    wilson,
)

NONE = None
KRIPPENDORFF_2011 = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3],
    [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE],
]
"""Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, C: 4 observers, 12 units."""


def units(table):
    return [[r for r in column if r is not None] for column in zip(*table, strict=True)]


def test_alpha_is_the_published_one():
    assert round(alpha(coincidences(units(KRIPPENDORFF_2011), 5).sum(0)), 3) == 0.815


def test_alpha_is_one_zero_and_unknown_where_it_must_be():
    same = coincidences([[1, 1], [3, 3], [5, 5]], 5).sum(0)
    assert alpha(same) == pytest.approx(1)
    assert math.isnan(alpha(coincidences([[3, 3], [3, 3]], 5).sum(0)))
    rng = np.random.default_rng(0)
    noise = [list(rng.integers(1, 6, 6)) for _ in range(2000)]
    assert abs(alpha(coincidences(noise, 5).sum(0))) < 0.02


def test_the_interval_of_alpha_holds_it_and_knows_clips():
    rng = np.random.default_rng(1)
    truth = rng.integers(1, 6, 40)
    rated = [[int(np.clip(t + rng.integers(-1, 2), 1, 5)) for _ in range(4)] for t in truth]
    apart = alpha_interval(rated, list(range(40)), 5, 800, 0)
    assert apart.low < apart.value < apart.high
    assert apart.half_width < 0.2
    together = alpha_interval(rated, [i // 10 for i in range(40)], 5, 800, 0)
    assert together.value == apart.value
    assert together.low != apart.low


@pytest.mark.parametrize(
    ("a", "b", "published"),
    [
        ([1, 2, 3], [1, 2, 3], 1.0),
        ([1, 2, 1], [1, 2, 2], 0.4),
        ([1, 2, 3, 1, 2, 2, 3], [1, 2, 3, 1, 2, 3, 2], 0.75),
    ],
)
def test_kappa_is_that_of_the_metrics_library(a, b, published):
    """benhamner/Metrics, test_quadratic_weighted_kappa.py."""
    assert quadratic_kappa(a, b, 3) == pytest.approx(published)


def test_kappa_of_cohens_table_with_quadratic_weights():
    """Fleiss and Cohen (1973): with these weights kappa is an intraclass correlation, but for terms
    in 1 / n: 1 − Σ(a − b)² / (Σ(a − ā)² + Σ(b − b̄)² + n (ā − b̄)²)."""
    rng = np.random.default_rng(2)
    a = rng.integers(1, 6, 300)
    b = np.clip(a + rng.integers(-1, 2, 300), 1, 5)
    scale = ((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()
    wanted = 1 - ((a - b) ** 2).sum() / (scale + 300 * (a.mean() - b.mean()) ** 2)
    assert quadratic_kappa(list(a), list(b), 5) == pytest.approx(wanted)


def test_kappa_without_variation_is_unknown():
    assert math.isnan(quadratic_kappa([3, 3], [3, 3], 5))
    assert math.isnan(quadratic_kappa([], [], 5))
    with pytest.raises(ValueError, match="beside"):
        quadratic_kappa([1], [], 5)


def crossed(rater, clip, rest, raters=12, clips=40, mean=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return (
        mean
        + rater * rng.standard_normal((raters, 1))
        + clip * rng.standard_normal((1, clips))
        + rest * rng.standard_normal((raters, clips))
    )


def test_moments_are_numpys():
    values = crossed(1, 1, 1)
    values[0, :5] = np.nan
    whole = np.ones((1, 12)), np.ones((1, 40))
    mean, spread = moments(values, *whole)
    assert mean[0] == pytest.approx(np.nanmean(values))
    assert spread[0] == pytest.approx(np.nanstd(values, ddof=1))
    assert spread_interval(values, range(40), 200, 0).value == pytest.approx(
        np.nanstd(values, ddof=1)
    )


def test_the_interval_knows_that_raters_and_clips_differ():
    """Its width is that of the variance of a crossed design, not of 480 independent ratings."""
    values = crossed(0.5, 0.5, 0.5)
    wanted = 1.96 * math.sqrt(0.25 / 12 + 0.25 / 40 + 0.25 / 480)
    estimate = mean_interval(values, range(40), 4000, 0)
    assert 0.7 * wanted < estimate.half_width < 1.5 * wanted
    assert estimate.half_width > 3 * 1.96 * np.std(values) / math.sqrt(values.size)


def test_items_of_one_clip_are_drawn_together():
    values, clips = crossed(0.5, 0.5, 0.5), np.repeat(range(40), 3)
    thrice = np.repeat(values, 3, axis=1)
    for of in (mean_interval, spread_interval):
        one, three = of(values, range(40), 500, 0), of(thrice, clips, 500, 0)
        assert (three.low, three.high) == pytest.approx((one.low, one.high), rel=0.01)
    apart = mean_interval(thrice, range(120), 500, 0)
    assert apart.half_width < 0.95 * mean_interval(thrice, clips, 500, 0).half_width
    assert power(thrice, 0.1, clips) == power(values, 0.1)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    hits = [
        (lambda e: e.low <= 0.5 <= e.high)(
            mean_interval(crossed(0.4, 0.4, 0.8, seed=s), range(40), 300, s)
        )
        for s in range(200)
    ]
    assert 0.88 <= np.mean(hits) <= 1.0


def test_wilson_without_trials_is_unknown():
    assert math.isnan(wilson(0, 0).value)
    assert wilson(5, 10).low < 0.5 < wilson(5, 10).high


def test_components_are_recovered_and_power_follows():
    parts = components(crossed(0.6, 0.3, 0.5, raters=40, clips=60))
    assert parts.rater == pytest.approx(0.36, abs=0.15)
    assert parts.clip == pytest.approx(0.09, abs=0.05)
    assert parts.rest == pytest.approx(0.25, abs=0.03)
    meter = power(crossed(0.6, 0.1, 0.5, raters=5, clips=40), 0.15)
    assert meter.raters > 5
    assert power(crossed(0.01, 0.01, 0.1), 0.15).raters == 0


def test_who_has_rated_nothing_and_what_nobody_rated_count_for_nothing():
    values = crossed(0.6, 0.3, 0.5, raters=5, clips=12)
    more = np.pad(values, ((0, 3), (0, 4)), constant_values=np.nan)
    assert power(more, 0.15) == power(values, 0.15)


def test_clips_that_differ_too_much_cannot_be_mended_by_raters():
    meter = power(crossed(0.05, 1.0, 0.1, raters=8, clips=10), 0.15)
    assert meter.raters is None
    assert meter.clips > 50


def test_power_says_nothing_where_nothing_can_be_said():
    assert power(np.full((3, 3), np.nan), 0.15) is None
    assert power(crossed(1, 1, 1, raters=1), 0.15) is None


def test_spearman_says_nothing_where_nothing_can_be_said():
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]))
    assert math.isnan(spearman([1, 2], [1, 2]))
