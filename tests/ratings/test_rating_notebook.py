"""The notebook that computes a report's table from the export, with pandas alone."""

import json
from pathlib import Path

import pytest

from macd_studio.ratings.export import export
from macd_studio.ratings.report import figures
from macd_studio.ratings.simulate import simulate
from macd_studio.ratings.store import Study
from tests.ratings.studies import copy_study, known

NOTEBOOK = Path(__file__).parents[2] / "examples" / "rating.ipynb"
DRAWS = 400
"""Of each bootstrap; the notebook takes 4,000."""
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


@pytest.mark.long
def test_its_tables_are_those_of_the_report(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    arms = ("macd", "random-elsewhere", "mask-all")
    with Study(copy_study(tmp_path, 4, arms=arms, gold=(known(1),), repeat=0.25)) as study:
        simulate(study)
        result = figures(study, DRAWS)
        export(study, "csv", tmp_path / "events.csv")
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in CELLS:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            exec("".join(cell["source"]).replace("draws=4000", f"draws={DRAWS}"), names)
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
        for name, key in (("difference", "value"), ("low", "low"), ("high", "high")):
            assert row[name] == pytest.approx(wanted[key], abs=1e-9)
