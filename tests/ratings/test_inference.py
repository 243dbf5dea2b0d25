"""Intervals of a difference: of the raters who rated, and of others like them."""

from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as statsmodels
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from macd_studio.ratings.coverage import STUDIES, held
from macd_studio.ratings.inference import paired_difference

ROOT = Path(__file__).parents[2]
NAN = np.nan


def crossed(raters, clips, rater=0.4, clip=0.5, rest=0.8, seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(0.3, rater, raters)[:, None]
        + rng.normal(0, clip, clips)
        + rng.normal(0, rest, (raters, clips))
    )


def test_of_one_rater_it_is_the_t_interval_over_clips():
    values = crossed(1, 30)
    found = paired_difference(values)
    low, high = ttest_1samp(values[0], 0).confidence_interval()
    assert (found.these.low, found.these.high) == pytest.approx((low, high))
    assert np.isnan(found.others.low)
    assert found.primary == found.these


def test_of_these_raters_it_is_the_t_interval_over_the_means_of_clips():
    values = crossed(4, 30)
    found = paired_difference(values)
    low, high = ttest_1samp(values.mean(0), 0).confidence_interval()
    assert (found.these.low, found.these.high) == pytest.approx((low, high))
    for row in range(4):
        low, high = ttest_1samp(values[row], 0).confidence_interval()
        assert (found.own[row].low, found.own[row].high) == pytest.approx((low, high))


def test_items_about_one_clip_count_as_one_draw_of_it():
    values = crossed(4, 10)
    values[1, 3] = NAN
    one = paired_difference(values)
    thrice = paired_difference(np.repeat(values, 3, axis=1), np.repeat(range(10), 3))
    for a, b in ((thrice.these, one.these), (thrice.others, one.others)):
        assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high))
    assert thrice.own[1].half_width == pytest.approx(one.own[1].half_width)


def test_of_unequal_clips_it_is_the_interval_that_is_robust_to_clusters():
    values, clips = crossed(1, 12), np.repeat([5, 7, 2, 1], [4, 1, 5, 2])
    fit = statsmodels.OLS(values[0], np.ones(12)).fit(
        cov_type="cluster", cov_kwds={"groups": clips}, use_t=True
    )
    found = paired_difference(values, clips)
    assert (found.these.low, found.these.high) == pytest.approx(tuple(fit.conf_int()[0]))
    assert found.own[0] == pytest.approx(found.these)


def test_of_one_clip_with_several_questions_there_is_no_interval():
    found = paired_difference(crossed(1, 5), [3] * 5)
    assert np.isnan(found.these.low)
    assert np.isnan(found.own[0].low)


def test_of_other_raters_the_variance_is_that_of_both_ways_less_what_both_count():
    values = crossed(6, 25, rater=0.6)
    raters, clips = values.shape
    by_rater = values.mean(1).var(ddof=1) / raters
    by_clip = values.mean(0).var(ddof=1) / clips
    each = (values - values.mean()).ravel()
    both = (each**2).sum() / (each.size * (each.size - 1))
    half = student.ppf(0.975, raters - 1) * np.sqrt(by_rater + by_clip - both)
    found = paired_difference(values)
    assert found.others.half_width == pytest.approx(half)
    assert found.others.value == pytest.approx(values.mean())
    assert found.primary == found.others


def test_the_variance_is_never_below_that_of_clips_or_of_raters_alone():
    values = crossed(3, 40, rater=0.0, clip=0.0)
    values -= values.mean(1, keepdims=True)  # as if raters were all alike
    found = paired_difference(values)
    least = student.ppf(0.975, 2) * np.sqrt(values.mean(0).var(ddof=1) / 40)
    assert found.others.half_width >= least * (1 - 1e-9)


def test_every_rater_counts_the_same_however_many_pairs_are_missing():
    values = np.array([[1.0, 1.0, 1.0, 1.0], [3.0, NAN, NAN, 5.0], [NAN] * 4])
    found = paired_difference(values)
    assert found.others.value == pytest.approx((1 + 4) / 2)
    assert set(found.own) == {0, 1}
    assert np.isnan(found.own[0].low)  # who gives one difference only has no interval


@pytest.mark.parametrize("values", [np.zeros((3, 20)), np.full((1, 1), 2.0)])
def test_without_spread_there_is_no_interval(values):
    found = paired_difference(values)
    assert not found.spread
    assert found.primary.value == values[0, 0]
    assert np.isnan(found.primary.low)


def test_without_ratings_nothing_is_said():
    for values in (np.full((2, 3), NAN), np.zeros((0, 0))):
        found = paired_difference(values)
        assert np.isnan(found.primary.value)
        assert found.own == {}


@pytest.mark.parametrize("raters", [2, pytest.param(20, marks=pytest.mark.long)])
def test_intervals_hold_the_truth_as_often_as_they_say(raters):
    """4 standard errors of the simulation below 95 % at most."""
    shares = held(raters, 20, 0.6, "dropout", studies=300)
    assert shares.others > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 300)
    assert 0.90 < shares.these
    assert shares.others_width > shares.these_width


@pytest.mark.long
def test_the_table_of_the_guide_is_what_the_simulation_gives():
    shares = held(3, 20, 0.6, "nothing", STUDIES)
    row = f"| 3 | 20 | {shares.others:.3f} | {shares.others_width:.2f} |"
    assert row in (ROOT / "docs" / "rating.md").read_text()
