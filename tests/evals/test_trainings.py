"""Reports of several trainings or fills, merged and shown side by side."""

import json

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.commands.render import with_files
from macd_studio.evals.studies.trainings import (
    aligned,
    bars_table,
    of_folder,
    registered_rows,
    spread_table,
)


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


def test_values_stand_in_a_row(folders):
    lines = spread_table(of(folders, "abc")).splitlines()
    assert lines[0] == "| regime | method | a | b | c |"
    assert lines[2] == (
        "| one two | Baseline | 80.0 [70.0, 85.0] | 90.0 [80.0, 95.0] | 85.0 [75.0, 90.0] |"
    )
    assert lines[3].startswith("| one two | Constant for each option, the likeliest | +0.0 ")
    assert lines[4].startswith("| one two | MACD | +1.0 [−1.0, 3.0] | −2.0 [−4.0, 0.0] |")


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


def test_what_other_commands_measured_of_a_training_stands_beside(folders):
    behind = {"over_redrawn": [0.084, -0.03, 0.2], "false_yes": [0.01, 0.0, 0.02]}
    (folders / "a" / "redrawn.json").write_text(json.dumps({"views": {"mean": behind}}))
    (folders / "b" / "draws.json").write_text(
        json.dumps({"shares": {"wrong": [0.45, 0.4, 0.5], "harmed": [0.04, 0.02, 0.06]}})
    )
    lines = bars_table(of(folders, "ab")).splitlines()
    assert lines[0] == "| | a | b |"
    mean = '| masked, mean, logits; false "yes", % | +0.08 [−0.03, 0.20]; 1.0 [0.0, 2.0] | – |'
    assert mean in lines
    assert "| random draws: wrong, % | – | 45.0 [40.0, 50.0] |" in lines
    assert "| random draws: spoilt by MACD, % | – | 4.0 [2.0, 6.0] |" in lines
    assert '| masked, blur, logits; false "yes", % | – | – |' in lines


def rows_of(first, second):
    """Two rows as `evals.studies.registered` writes them, the first of them registered."""
    rows = [
        {"pair": [5.0, 0.01], "over": "random-objects", "registered": True, "delta": first,
         "verdict": "not decided"},
        {"pair": [1.0, 0.1], "over": "random-place", "registered": False, "delta": second},
    ]  # fmt: skip
    return {"n": 9, "rows": rows}


def test_registered_rows_of_trainings_stand_beside_each_other():
    lines = registered_rows({
        "a": {"registered": rows_of((0.01, -0.01, 0.03), (0.0, -0.02, 0.02))},
        "b": {"registered": rows_of((-0.02, -0.04, 0.0), (0.05, 0.03, 0.07))},
    }).splitlines()  # fmt: skip
    assert lines[0] == "| MACD over | a | b |"
    assert lines[2].startswith("| mean outcome of all orders")
    assert lines[2].endswith("| +1.0 [−1.0, 3.0], not decided | −2.0 [−4.0, 0.0], not decided |")
    assert len(lines) == 3  # what was asked at another α, β is in the files


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
