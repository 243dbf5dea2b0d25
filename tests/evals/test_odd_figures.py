"""Moments of ratings that cannot be, against a search over every set of ratings; the sentences."""

import itertools
import math

import numpy as np
import pytest

from macd_studio.core.statistics import least_sd
from macd_studio.evals.paper.paper_page import tables
from macd_studio.evals.paper.published import findings, most_at_least

LEVELS = (1, 2, 3, 4, 5)


def every_set(n):
    """Counts of the five levels in n ratings."""
    for bars in itertools.combinations(range(n + 4), 4):
        edges = (-1, *bars, n + 4)
        yield np.diff(edges) - 1


@pytest.mark.parametrize("n", [8, 10])
def test_no_set_of_ratings_passes_the_bounds(n):
    tightest = {}
    for counts in every_set(n):
        ratings = np.repeat(LEVELS, counts)
        mean, spread, share = ratings.mean(), ratings.std(), (ratings >= 4).mean()
        assert share <= most_at_least(mean, spread, 4) + 1e-9
        if 0 < share < 1:
            least = least_sd(mean, share)
            assert spread >= least - 1e-6
            key = round(mean, 4), round(share, 4)
            tightest[key] = min(tightest.get(key, math.inf), spread - least)
    # and some set of ratings reaches the bound
    assert min(tightest.values()) < 1e-6
    assert np.median(list(tightest.values())) < 0.1


def test_a_threshold_at_the_mean_bounds_nothing():
    assert most_at_least(4.2, 0.1, 4) == 1
    assert math.isnan(least_sd(3.0, 0.0))
    assert math.isnan(least_sd(1.2, 0.5))


def test_the_paper_s_rating_row_cannot_be_and_the_others_can():
    told = list(findings(tables()))
    ratings = [t for t in told if t.startswith("Ratings of")]
    assert len(ratings) == 1
    assert "Ratings of MACD" in ratings[0]
    assert "at most 34.9 %" in ratings[0]
    assert "deviation of 0.80" in ratings[0]


def test_each_finding_follows_from_the_tables():
    told = " ".join(findings(tables()))
    for words in (
        "14.2 % in the table of fusions and 62.5 %", "767.69 ms", "409.11 ms",
        "0.31 to 0.38 on Perception Test", "in 10 of 12 rows", "both 0.4633 on MVBench",
        "print 0.6114 and 0.6010",
    ):  # fmt: skip
        assert words in told
    without = {k: v for k, v in tables().items() if k not in ("fusion", "mask_quality")}
    less = " ".join(findings(without))
    assert "hallucination rate" not in less
    assert "Ratings" not in less
    assert list(findings({})) == []
