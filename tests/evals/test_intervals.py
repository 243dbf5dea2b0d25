"""The intervals against SciPy, against their own equations, and how often they hold the truth."""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm, t

from macd_studio.evals.statistics.intervals import (
    auroc_change,
    auroc_interval,
    auroc_parts,
    clustered_share,
    difference_interval,
    effective_questions,
)
from macd_studio.evals.statistics.metrics import auroc
from macd_studio.evals.statistics.stats import LEVEL, mean_difference, sign_flip
from macd_studio.evals.studies import coverage
from macd_studio.parts import ROOT


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (7, 7), (3, 7), (97, 100), (1, 40)])
def test_a_share_of_independent_questions_has_scipy_s_exact_interval(hits, n):
    exact = binomtest(hits, n).proportion_ci(0.95, method="exact")
    made = clustered_share(np.arange(n) < hits, range(n))
    assert made == pytest.approx((hits / n, exact.low, exact.high), abs=1e-12)


def test_questions_that_always_go_together_count_as_one_clip():
    """Ten clips of which seven are wholly right: no narrower than seven of ten."""
    clips = np.repeat(np.arange(10), 4)
    of_clips = clustered_share(np.arange(10) < 7, range(10))
    of_questions = clustered_share(np.repeat(np.arange(10) < 7, 4), clips)
    assert of_questions[1] <= of_clips[1] < of_clips[2] <= of_questions[2]
    assert clustered_share(np.ones(40), clips)[1] == pytest.approx(0.025 ** (1 / 10))
    # one failing clip says little of how failures go together: it counts with the half clip
    hits = np.ones(40)
    hits[0] = 0
    low = clustered_share(hits, clips)[1]
    assert low < binomtest(39, 40).proportion_ci(0.95, method="exact").low


def test_the_effective_number_of_questions_by_its_definition():
    """Two of twenty clips hold an event: half a clip of ten alike questions is added to them."""
    sizes, n, clips = np.full(20, 10.0), 200, 20
    hits = np.zeros((20, 10))
    hits[0, :3], hits[1, 0] = 1, 1
    share = hits.mean()
    influence = hits.sum(1) - 10 * share
    between = (influence**2).sum() * clips / (clips - 1)
    seen = between / (n * share * (1 - share))
    expected = (2 * seen + 0.5 * 10) / 2.5
    freedom = (t.ppf(0.975, n - 1) / t.ppf(0.975, clips - 1)) ** 2
    made = effective_questions(influence, sizes, hits.any(1), share * (1 - share))
    assert made == pytest.approx(n / expected * freedom)
    assert expected > seen > 1


def test_clips_of_other_sizes_count_by_their_sizes():
    hits, one = np.ones(12), clustered_share(np.ones(12), [0] * 9 + [1, 2, 3])
    assert one[1] == pytest.approx(0.025 ** (1 / (144 / 84)))
    assert clustered_share(hits, range(12))[1] == pytest.approx(0.025 ** (1 / 12))


@pytest.mark.parametrize(("gained", "lost", "n"), [(9, 3, 100), (1, 0, 30), (40, 40, 200)])
def test_both_ends_of_a_difference_are_where_the_score_is_at_the_quantile(gained, lost, n):
    values = np.repeat([1, -1, 0], [gained, lost, n - gained - lost])
    mean, *ends = difference_interval(values, range(n))
    for d in ends:  # Tango's equations 3 and 4
        a, b, c = 2 * n, -gained - lost + (2 * n - gained + lost) * d, -lost * d * (1 - d)
        q = (math.sqrt(b * b - 4 * a * c) - b) / (2 * a)
        score = (abs(gained - lost - n * d) - 0.5) / math.sqrt(n * (2 * q + d * (1 - d)))
        assert score == pytest.approx(norm.ppf(0.975))
    assert ends[0] < mean < ends[1]
    other = difference_interval(-values, range(n))
    assert other == pytest.approx((-mean, -ends[1], -ends[0]), abs=1e-9)


@pytest.mark.parametrize("n", [30, 100])
def test_paired_differences_cover_exactly_and_agree_with_mcnemar(n):
    """Coverage summed over every outcome that has a chance, with one question a clip."""
    ends = {}

    def interval(gained, lost):
        if (gained, lost) not in ends:
            values = np.repeat([1, -1, 0], [gained, lost, n - gained - lost])
            ends[gained, lost] = mean_difference(np.zeros(n), values, range(n))
        return ends[gained, lost]

    for gain, loss in ((0.02, 0.0), (0.3, 0.0), (0.045, 0.005)):
        held = seen = 0.0
        for m in range(n + 1):
            of_m = binom.pmf(m, n, gain + loss)
            for gained in range(m + 1):
                chance = of_m * binom.pmf(gained, m, gain / (gain + loss))
                if chance > 1e-6:
                    _, low, high = interval(gained, m - gained)
                    held += chance * (low <= gain - loss <= high)
                    seen += chance
        assert seen == pytest.approx(1, abs=1e-3)
        assert held >= 0.945
    for (gained, lost), (_, low, high) in ends.items():
        values = np.repeat([1, -1, 0], [gained, lost, n - gained - lost])
        assert (sign_flip(values, range(n)) < LEVEL) == (not low <= 0 <= high)


def test_mean_outcomes_are_known_better_than_single_ones():
    """A difference of an eighth in every other clip is no difference of 1 in every sixteenth."""
    eighths, ones = np.tile([0.125, 0.0], 80), np.repeat([1.0, 0.0], [10, 150])
    small, large = (difference_interval(v, range(160)) for v in (eighths, ones))
    assert small[0] == large[0]
    assert small[2] - small[1] < 0.6 * (large[2] - large[1])


def test_an_area_and_its_influence_are_those_of_the_pairs():
    rng = np.random.default_rng(0)
    positive, score = rng.random(60) < 0.4, rng.normal(size=60).round(1)
    area, influence = auroc_parts(positive, score)
    assert area == pytest.approx(auroc(positive, score))
    assert influence.sum() == pytest.approx(0, abs=1e-12)
    pairs = [[1.0 * (a > b) + 0.5 * (a == b) for b in score[~positive]] for a in score[positive]]
    expected = (np.mean(pairs, 1) - area) / positive.sum()
    np.testing.assert_allclose(influence[positive], expected, atol=1e-12)
    expected = (np.mean(pairs, 0) - area) / (~positive).sum()
    np.testing.assert_allclose(influence[~positive], expected, atol=1e-12)
    for kind in (True, False):
        assert np.isnan(auroc_interval(np.full(5, kind), np.arange(5), range(5))).all()


def test_an_area_of_1_is_no_certainty_and_clips_widen_it():
    positive, score = np.repeat([False, True], 40), np.arange(80)
    area, low, high = auroc_interval(positive, score, range(80))
    assert (area, high) == (1, 1)
    assert 0.9 < low < 0.97
    assert auroc_interval(positive, score, np.arange(80) // 4)[1] < low
    assert auroc_interval(~positive, score, range(80)) == pytest.approx((0, 0, 1 - low))


def test_an_area_s_ends_are_where_newcombe_s_score_is_at_the_quantile():
    rng = np.random.default_rng(2)
    positive = np.arange(90) < 40
    score = rng.exponential(1 + positive)
    area, *ends = auroc_interval(positive, score, range(90))
    _, influence = auroc_parts(positive, score)

    def variance(x):
        return x * (1 - x) / (40 * 50) * (1 + 44 * (1 - x) / (2 - x) + 44 * x / (1 + x))

    effect = max(1, (influence**2).sum() * 90 / 89 / variance(area))
    for end in ends:
        z = abs(area - end) / math.sqrt(effect * variance(end))
        assert z == pytest.approx(t.ppf(0.975, 89))


def test_a_change_of_the_area_excludes_0_where_p_is_below_the_level():
    rng = np.random.default_rng(3)
    found = set()
    for _ in range(60):
        positive = rng.random(60) < 0.5
        noise = rng.normal(size=60)
        before = noise + positive
        after = noise + positive * rng.uniform(0.5, 3) + 0.3 * rng.normal(size=60)
        (change, low, high), p = auroc_change(positive, before, after, np.arange(60) // 2)
        assert low <= change <= high
        assert (p < 0.05) == (not low <= 0 <= high)
        found.add(p < 0.05)
    assert found == {True, False}
    (change, low, high), p = auroc_change(positive, before, before, range(60))
    assert (change, p) == (0, 1)
    assert low <= 0 <= high


def told():
    return json.loads((ROOT / "docs" / "intervals.json").read_text())


def test_every_line_of_the_table_holds_what_it_says():
    cells = told()["cells"]
    assert len(cells) == len(list(coverage.cells()))
    for cell in cells:
        assert cell["now"]["held"] >= coverage.REACHED, cell
        assert cell["now"]["error"] <= 0.003
    assert sum(c["former"]["held"] < coverage.REACHED for c in cells) > 20
    page = (ROOT / "docs" / "intervals.md").read_text()
    assert page == coverage.markdown(told())


@pytest.mark.parametrize("kind", coverage.KINDS)
def test_a_line_of_the_table_is_what_its_command_simulates(kind):
    """The first draws of a line, again: the same seed, fewer of them."""
    cell = next(c for c in coverage.cells() if c.kind == kind and c.clips == 100)
    again = coverage.measure(cell, draws=300, former=20)
    names = ("kind", "clips", "questions", "together", "rates")
    line = next(c for c in told()["cells"] if [c[n] for n in names] == [again[n] for n in names])
    assert again["now"]["held"] == pytest.approx(line["now"]["held"], abs=0.045)
    assert again["now"]["width"] == pytest.approx(line["now"]["width"], rel=0.05)
    assert again["former"]["width"] == pytest.approx(line["former"]["width"], rel=0.3)


def test_the_simulation_writes_both_files(tmp_path, monkeypatch, capsys):
    few = [next(c for c in coverage.cells() if c.kind == k) for k in coverage.KINDS]
    monkeypatch.setattr(coverage, "cells", lambda: few)
    assert coverage.main(["--draws", "100", "--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "intervals.json").read_text())
    assert [c["kind"] for c in report["cells"]] == list(coverage.KINDS)
    lines = (tmp_path / "intervals.md").read_text().splitlines()
    shown = next(line for line in lines if line.startswith("| Shares | 1 | "))
    assert f"| {report['cells'][0]['now']['held']:.3f} ± " in shown
    assert "| 0.5 | 30 | 1 | 0 |" in shown
    assert coverage.main(["--draws", "3"]) == 2
    assert "draws" in capsys.readouterr().err
