"""What a report says of few raters and few pairs: who is in a mean, and what an interval bounds."""

import numpy as np
import pytest

from macd_studio.ratings.cli import main
from macd_studio.ratings.inference import bounded, paired_difference
from macd_studio.ratings.render import markdown
from macd_studio.ratings.report import figures
from macd_studio.ratings.store import Study
from tests.ratings.studies import arms_of, copy_study, event, rate, rater_in

FEW = 100
OTHER = "random-elsewhere"
NOTHING_BOUND = "So few raters or pairs bound nothing where an interval covers all that is possible"


def give(study, likes, screens=None):
    """A new rater who gives MACD's mask so much more than the other, a screen each."""
    _, rater = rater_in(study)
    tasks = [t["id"] for t in study.tasks(rater)]
    for task, more in zip(tasks[:screens], likes, strict=False):
        at = arms_of(study, task).index("macd")
        if study.scale == "pairs":
            new = 0 if more == 0 else 1 + (at if more > 0 else 1 - at)
            study.append(rater, [event("prefer", task, new=new), event("next", task)])
        else:
            ratings = [3, 3]
            ratings[at], ratings[1 - at] = (3 + more, 3) if more > 0 else (3, 3 - more)
            rate(study, rater, task, ratings)


@pytest.mark.parametrize(("scale", "range_", "said"), [
    ("ratings", (-4, 4), "−4 to +4"), ("pairs", (0, 1), "0% to 100%")])  # fmt: skip
def test_no_interval_reaches_outside_what_is_possible(tmp_path, scale, range_, said):
    with Study(copy_study(tmp_path, 12, scale=scale)) as study:
        give(study, [2, 2, 1, 2] * 3)
        give(study, [-2, -1, -2, -2] * 3)
        report = figures(study, FEW)
    d = report["differences"][OTHER]
    printed = [d["difference"], d["these"], *d["own"].values(),
               *(t["difference"] for t in report["controls"][OTHER]["thirds"])]  # fmt: skip
    assert len(printed) > 4
    for e in printed:
        assert e["low"] is None or range_[0] <= e["low"] <= e["high"] <= range_[1]
    assert (d["difference"]["low"], d["difference"]["high"]) == range_
    assert d["half_width"] <= (range_[1] - range_[0]) / 2
    text = markdown(report)
    assert f"{NOTHING_BOUND}, {said}, or nearly all of it." in text


@pytest.mark.parametrize("scale", ["ratings", "pairs"])
def test_who_is_in_the_mean_is_named_with_how_many_pairs(tmp_path, scale):
    with Study(copy_study(tmp_path, 12, scale=scale)) as study:
        give(study, [2, 1, -1, 2] * 3)
        give(study, [1, 0, 2, 2], screens=4)
        give(study, [2])
        report = figures(study, FEW)
    d = report["differences"][OTHER]
    assert d["by_rater"] == {"R01": 12, "R02": 4, "R03": 1}
    assert sum(e["value"] for e in d["own"].values()) / 3 == pytest.approx(d["these"]["value"])
    text = markdown(report)
    assert "| R01 | 12 | " in text
    assert ("| R03 | 1 | 100% |" if scale == "pairs" else "| R03 | 1 | +2.00 |") in text
    assert "These 3 raters are in the mean, and each counts the same, as preregistered" in text


def test_raters_who_have_not_rated_yet_are_raters(tmp_path, capsys):
    path = copy_study(tmp_path, 12)
    with Study(path) as study:
        study.invite(3)
        assert "0 of 3 raters have rated, 3 planned; 0 ratings" in markdown(figures(study, FEW))
        give(study, [1], screens=1)
        assert "1 of 4 raters has rated, 3 planned; 2 ratings" in markdown(figures(study, FEW))
    assert main(["status", str(path)]) == 0
    first, *names = capsys.readouterr().out.splitlines()[:5]
    assert first == "open: 12 items, 2 ratings; 1 of 4 raters has rated"
    assert [n.split()[0] for n in names] == ["R01", "R02", "R03", "R04"]


def test_nothing_is_said_of_intervals_that_bound(tmp_path):
    with Study(copy_study(tmp_path, 12)) as study:
        for _ in range(4):
            give(study, [2, 1, 1, 2] * 3)
        assert NOTHING_BOUND not in markdown(figures(study, FEW))


def test_what_is_cut_off_is_only_the_impossible():
    e = paired_difference(np.array([[4.0, 4, 4, 3], [4, 4, 4, 4], [2, 3, 2, 2]])).primary
    assert e.high > 4
    assert bounded(e, "ratings") == {"value": e.value, "low": e.low, "high": 4}
