"""Reports of several trainings or fills, merged and shown side by side."""

import json

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.commands.render import with_files
from macd_studio.evals.studies.trainings import aligned, of_folder


def report(right, gain, n=300):
    figures = {
        "baseline": {"right": [right, right - 0.1, right + 0.05]},
        "constant": {"delta": [0.0, -0.01, 0.01]},
        "macd": {"delta": [gain, gain - 0.02, gain + 0.02]},
    }
    return {
        "benchmark": "toyworld",
        "backbone": "/home/me/runs/seed",
        "boxes": "detector",
        "fill": "mean",
        "methods": ["macd"],
        "regimes": {"one two": {"n": n, "tuned_on": 200, "methods": figures}},
    }


@pytest.fixture
def folders(tmp_path):
    for name, figures in {"a": (0.8, 0.01), "b": (0.9, -0.02), "c": (0.85, 0.04)}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(json.dumps(report(*figures)))
    return tmp_path


def of(folders, names):
    return aligned({n: of_folder(folders / n) for n in names})


def test_other_questions_are_not_set_beside(folders):
    (folders / "c" / "report.json").write_text(json.dumps(report(0.8, 0.0, n=200)))
    with pytest.raises(OptionError, match="other questions"):
        of(folders, "ac")


def test_regimes_that_a_report_lacks_are_left_out_of_all(folders):
    more = report(0.8, 0.01)
    more["regimes"]["another"] = more["regimes"]["one two"]
    (folders / "a" / "report.json").write_text(json.dumps(more))
    merged = of(folders, "ab")
    assert [[*one["regimes"]] for one in merged.values()] == [["one two"], ["one two"]]
    more["regimes"].pop("one two")
    (folders / "a" / "report.json").write_text(json.dumps(more))
    with pytest.raises(OptionError, match="no regime in common"):
        of(folders, "ab")


def rows_of(first, second):
    """Two rows as `evals.studies.registered` writes them, the first of them registered."""
    rows = [
        {"pair": [5.0, 0.01], "over": "random-objects", "registered": True, "delta": first,
         "verdict": "not decided"},
        {"pair": [1.0, 0.1], "over": "random-place", "registered": False, "delta": second},
    ]  # fmt: skip
    return {"n": 9, "rows": rows}


def test_a_folder_of_another_training_stands_beside_the_shipped_one(tmp_path):
    (tmp_path / "crossed.json").write_text(json.dumps(report(0.8, 0.01)))
    (tmp_path / "registered.json").write_text(json.dumps(rows_of((0, 0, 0), (0, 0, 0))))
    assert "seeds" not in with_files({}, tmp_path)
    other = tmp_path / "seed-7"
    other.mkdir()
    (other / "report.json").write_text(json.dumps(report(0.7, 0.03)))
    seeds = with_files({}, tmp_path)["seeds"]
    assert [*seeds] == ["123", "7"]
    assert "registered" in seeds["123"]
    assert seeds["7"]["regimes"]["one two"]["methods"]["macd"]["delta"][0] == 0.03
