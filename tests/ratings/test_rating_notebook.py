"""The notebook that computes a report's table from the export, with pandas alone."""

import json
from pathlib import Path

import pytest

from macd_studio.ratings.answers import read_screens
from macd_studio.ratings.export import export
from macd_studio.ratings.plan import MAIN
from macd_studio.ratings.report import figures
from macd_studio.ratings.simulate import simulate
from macd_studio.ratings.store import Study
from tests.ratings.studies import (
    copy_study,
    event,
    give_more,
    known,
    make_study,
    rater_in,
    without_chance,
)

NOTEBOOK = Path(__file__).parents[2] / "examples" / "rating.ipynb"
DRAWS = 400
"""Of each bootstrap; the notebook takes 4,000."""
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


def run(tmp_path, monkeypatch):
    """What the notebook's cells name, run beside `events.csv`."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in CELLS:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            source = "".join(cell["source"])
            for usual in (4000, 1000):
                source = source.replace(f"draws={usual}", f"draws={DRAWS}")
            exec(source, names)
    return names


@pytest.mark.long
@pytest.mark.parametrize("arms", [("macd", "mask-all"), ("macd", "random-elsewhere", "mask-all")])
def test_its_table_of_preferences_is_that_of_the_report(tmp_path, monkeypatch, arms):
    pytest.importorskip("pandas")
    plan = {"arms": arms, "gold": (known(1),), "repeat": 0.25, "scale": "pairs"}
    with without_chance():
        path = make_study(tmp_path, 6, **plan)
    with Study(path) as study:
        simulate(study)
        _, rater = rater_in(study)
        tasks = [s.task for s in read_screens(study) if (s.rater, s.part) == (rater.id, MAIN)]
        study.append(rater, [event("prefer", tasks[0], new=0), event("skip", tasks[0])])
        study.append(rater, [event("skip", tasks[1]), event("prefer", tasks[1], new=1)])
        study.append(rater, [event("next", tasks[1])])
        result = figures(study, DRAWS)
        export(study, "csv", tmp_path / "events.csv")
    names = run(tmp_path, monkeypatch)
    table, counts = names["preferences"], result["preferences"]["counts"]
    assert sorted(table.index) == sorted(arms[1:])
    assert len(names["by_arm"]) == len(names["differences"]) == 0
    for other, told in result["differences"].items():
        row, c = table.loc[other], counts[other]
        given = [row["macd preferred"], row["no difference"], row["the other preferred"]]
        assert given == [c["first"], c["same"], c["other"]]
        assert min(given) > 0
        assert row["pairs"] == told["pairs"]
        for name in ("value", "low", "high"):
            assert row[name] == pytest.approx(told["difference"][name], abs=1e-9)
        assert names["cannot"] == c["cannot"] == 1
    scale = result["preferences"]["scale"]
    assert (names["scale"] is None) is (len(arms) == 2) is (scale == {})
    for arm, told in scale.items():
        wanted = [told[name] for name in ("value", "low", "high")]
        assert list(names["scale"].loc[arm]) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.long
def test_its_tables_are_those_of_the_report(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    arms = ("macd", "random-elsewhere", "mask-all")
    with Study(copy_study(tmp_path, 4, arms=arms, gold=(known(1),), repeat=0.25)) as study:
        simulate(study)
        result = figures(study, DRAWS)
        export(study, "csv", tmp_path / "events.csv")
    names = run(tmp_path, monkeypatch)
    by_arm, differences = names["by_arm"], names["differences"]
    assert sorted(by_arm.index) == sorted(arms)
    for arm, told in result["arms"].items():
        row = by_arm.loc[arm]
        assert row["ratings"] == told["ratings"] > 0
        assert [row[str(v)] for v in range(1, 6)] == told["counts"]
        for name, share, column in (("mean", "mean 95 %", "mean"), ("sd", "SD 95 %", "SD"),
                                    ("at_least_4", "P 95 %", "P(rating ≥ 4)")):  # fmt: skip
            assert row[column] == pytest.approx(told[name]["value"], abs=1e-9)
            bounds = (told[name]["low"], told[name]["high"])
            assert row[share] == pytest.approx(bounds, abs=1e-9)
    for other, told in result["differences"].items():
        row, wanted = differences.loc[other], told["difference"]
        assert row["pairs"] == told["pairs"]
        for name in ("value", "low", "high"):
            assert row[name] == pytest.approx(wanted[name], abs=1e-9)


@pytest.mark.long
@pytest.mark.parametrize(("scale", "name"), [("ratings", "differences"), ("pairs", "preferences")])
def test_its_intervals_end_where_the_possible_does(tmp_path, monkeypatch, scale, name):
    pytest.importorskip("pandas")
    with Study(copy_study(tmp_path, 12, scale=scale)) as study:
        give_more(study, [2, 2, 1, 2] * 3)
        give_more(study, [-2, -1, -2, -2] * 3)
        told = figures(study, DRAWS)["differences"]["random-elsewhere"]["difference"]
        export(study, "csv", tmp_path / "events.csv")
    row = run(tmp_path, monkeypatch)[name].loc["random-elsewhere"]
    assert (row["low"], row["high"]) == (told["low"], told["high"])
    assert (told["low"], told["high"]) == ((0, 1) if scale == "pairs" else (-4, 4))
