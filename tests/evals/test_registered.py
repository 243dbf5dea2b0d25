"""The registered rows: what is said of them, and that they follow from the draws."""

import json

import pytest
from scipy.stats import binomtest

from macd_studio.evals.running.answer import GRID
from macd_studio.evals.statistics.intervals import difference_interval
from macd_studio.evals.studies import registered
from macd_studio.evals.studies.outcomes import MACD, OBJECTS, PLACE, Outcomes
from macd_studio.evals.studies.registered import ROWS, markdown, report_of, verdict
from macd_studio.evals.studies.shared import FOLDER, plain
from tests.evals.test_experiments import close
from tests.evals.test_outcomes import planted


@pytest.mark.parametrize(
    ("wide", "narrow", "said"),
    [
        ((0.03, 0.01, 0.05), (0.03, 0.013, 0.047), "better"),
        ((-0.03, -0.05, -0.01), (-0.03, -0.047, -0.013), "worse"),
        ((0.0, -0.018, 0.018), (0.0, -0.015, 0.015), "no difference of 2 points"),
        ((0.0, -0.03, 0.03), (0.0, -0.025, 0.025), "not decided"),
        ((0.01, -0.005, 0.025), (0.01, -0.003, 0.0201), "not decided"),
        ((-0.01, -0.025, 0.005), (-0.01, -0.0201, 0.003), "not decided"),
    ],
)
def test_what_is_said_follows_the_rule(wide, narrow, said):
    assert verdict(wide, narrow) == said


def test_the_rows_are_of_the_test_split_at_the_registered_pair():
    rows, truth = planted(60)
    report = report_of(rows, truth)
    assert report["n"] == 40
    first = report["rows"][0]
    assert [r["registered"] for r in report["rows"]] == [True, True] + [False] * 7
    scores = Outcomes.of(rows[20:], truth[20:]).scores
    g = GRID.index(ROWS[0][0])
    difference = scores[MACD][g] - scores[OBJECTS][g]
    assert first["delta"] == pytest.approx(difference_interval(difference, range(40)))
    assert first["ninety"][1] > first["delta"][1]
    assert first["ninety"][2] < first["delta"][2]
    assert all(r["holm"] >= r["p"] for r in report["rows"][2:])
    up, down = int((difference > 0).sum()), int((difference < 0).sum())
    assert first["sign_p"] == pytest.approx(binomtest(up, up + down).pvalue)
    base = Outcomes.of(rows[20:], truth[20:]).base
    assert report["baseline"][0] == pytest.approx(base.mean())
    assert report["gains"][MACD][0] == pytest.approx((scores[MACD][g] - base).mean())
    single = Outcomes.of(rows[20:], truth[20:]).places[g].mean(1) - base.mean()
    assert report["gains"][PLACE][0] == pytest.approx(single.mean())
    assert report["one_placement"]["least"] == pytest.approx(single.min())
    assert report["one_placement"]["most"] == pytest.approx(single.max())
    lines = markdown(report).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:11]] == ["| registered"] * 2 + [
        "| secondary"
    ] * 7
    assert lines[2].endswith(f"| {first['verdict']} |")
    assert lines[4].endswith(f"| Holm {report['rows'][2]['holm']:.3g} |")


@pytest.mark.long
@pytest.mark.parametrize("folder", ["", "seed-124"])
def test_the_registered_rows_follow_from_the_draws_of_each_training(folder):
    place = FOLDER / folder
    draws = place / ("draws.json.xz" if folder else "draws-registered.json.xz")
    told = json.loads((place / "registered.json").read_text())
    close(plain(registered.report_of_file(draws)), told)
    assert told["n"] == 1728
