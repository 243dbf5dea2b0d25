"""Statistics of evaluations and of rating studies against libraries that have the same figure."""

import krippendorff
import numpy as np
import pytest
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from macd_studio.core.statistics import wilson
from macd_studio.evals.statistics.stats import holm, mcnemar
from macd_studio.ratings.stats import alpha, coincidences, quadratic_kappa

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_alpha_is_krippendorff_s(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 5, 30)
    ratings = np.clip(truth + rng.integers(-1, 2, (4, 30)), 0, 4).astype(float)
    ratings[rng.random((4, 30)) < 0.3] = np.nan  # not rated
    units = [[int(v) + 1 for v in column if v == v] for column in ratings.T]
    wanted = krippendorff.alpha(
        reliability_data=ratings, level_of_measurement="ordinal", value_domain=list(range(5))
    )
    assert alpha(coincidences(units, 5).sum(0)) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_kappa_is_cohen_s_with_quadratic_weights(seed):
    rng = np.random.default_rng(seed)
    one = rng.integers(0, 5, 60)
    other = np.clip(one + rng.integers(-2, 3, 60), 0, 4)
    table = np.zeros((5, 5))
    np.add.at(table, (one, other), 1)
    wanted = cohens_kappa(table, weights=np.arange(5), wt="fc").kappa
    assert quadratic_kappa((one + 1).tolist(), (other + 1).tolist(), 5) == pytest.approx(
        wanted, abs=1e-12
    )


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 20), (3, 7), (50, 100), (999, 1000), (5, 5)])
def test_shares_have_wilson_s_interval(hits, n):
    low, high = wilson(hits, n)[1:]
    wanted = proportion_confint(hits, n, 0.05, "wilson")
    assert (low, high) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_have_mcnemar_s_exact_p(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, 40)) < [[0.5], [0.7]]
    table = [[(a & b).sum(), (a & ~b).sum()], [(~a & b).sum(), (~a & ~b).sum()]]
    wanted = reference_mcnemar(table, exact=True).pvalue
    assert mcnemar(a, b) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_several_p_are_adjusted_as_holm_does(seed):
    p = np.random.default_rng(seed).random(8) ** 3
    assert holm(p.tolist()) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)
