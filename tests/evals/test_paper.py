"""The paper's tables: their data, what is impossible in them, and ours beside them."""

import json
import math
from dataclasses import replace

import pytest

from macd_studio.core.errors import BenchmarkError, OptionError
from macd_studio.core.methods import find_method
from macd_studio.core.objects.detect import check_detector
from macd_studio.core.options import options_from
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.paper.ours import (
    DIMENSIONS,
    Ours,
    Source,
    add_overheads,
    compute,
    contrast_for,
    label_queries,
    p_of,
    study_figures,
)
from macd_studio.evals.paper.show import HEADS, as_data, markdown, same_backbone
from macd_studio.evals.paper.tables import impossible, read_table, table_names

ABOUT = {"backbone": "toyworld", "detector": "toyworld", "data": "drawn"}


@pytest.mark.parametrize("name", table_names())
def test_every_table_is_whole_and_can_be_computed(name):
    table = read_table(name)
    assert table.title
    assert table.label.startswith("tab:")
    for metric in table.metrics:
        part, _, figure = metric.partition(".")
        assert part in (*table.benchmarks, "cost", "study")
        assert figure in HEADS
    for row in table.rows:
        assert len(row.paper) == len(table.metrics)
        assert all(math.isfinite(x) for x in row.paper)
        assert row.backbone
        options_from(row.options)
        if row.detector:
            check_detector(row.detector)
        if table.benchmarks:
            find_method(row.method)


def test_figures_are_as_printed():
    rows = {(r.backbone, r.name): r.paper for r in read_table("main").rows}
    assert len(rows) == 24
    assert rows["Qwen2.5-VL-3B", "MACD"] == (0.80, 0.78, 0.79, 0.71, 0.67, 0.61, 0.62)
    assert rows["Qwen2.5-VL-7B", "SID"] == (0.76, 0.18, 0.29, 0.38, 0.63, 0.35, 0.52)
    assert [r.paper for r in read_table("steps").rows][2] == (1170.89, 52.52, 49.83)


def test_printed_rows_that_no_confusion_matrix_gives():
    table = read_table("main")
    found = {(r.backbone, r.name) for r in table.rows if impossible(table, r)}
    assert 6 <= len(found) <= 9  # by how unmatched answers count, and how figures were rounded
    assert {("InternVL3-8B", "MACD"), ("Qwen3-VL-2B", "Baseline")} <= found
    assert ("Qwen2.5-VL-3B", "MACD") not in found
    assert not any(impossible(read_table("video-pope"), r) for r in read_table("video-pope").rows)


def test_ours_stand_in_columns_of_their_own():
    table = read_table("levels")
    found = [Ours({m: 0.5 for m in table.metrics}), Ours(dict.fromkeys(table.metrics), "no model")]
    text = markdown(table, table.rows, found, ABOUT)
    assert "| row | ours Acc | paper Acc | note |" in text
    assert "| Continuous | 0.50 | 0.62 | |" in text
    assert "| Three levels | – | 0.71 | no model |" in text
    data = as_data(table, table.rows, found, ABOUT)
    assert data["ours"][0]["figures"] == {"eventhallusion.accuracy": 0.5}
    assert data["paper"][0]["figures"] == {"eventhallusion.accuracy": 0.62}


def test_another_backbone_is_not_put_beside_a_published_one():
    table = read_table("main")
    rows = [r for r in table.rows if r.backbone == table.rows[0].backbone]
    found = [Ours({m: 0.25 for m in table.metrics}, n=1) for _ in rows]
    text = markdown(table, rows, found, ABOUT).splitlines()
    own = [z for z in text if z.startswith("| toyworld: ")]
    assert len(own) == 4
    assert all("0.25" in z and "0.76" not in z for z in own)
    assert not any("0.25" in z for z in text if z.startswith("| Qwen"))
    other = ABOUT | {"backbone": "Qwen/Qwen3-VL-2B-Instruct"}
    mine = markdown(table, rows, found, other).splitlines()
    assert sum("0.25" in z for z in mine if z.startswith("| Qwen3-VL-2B")) == 4
    assert same_backbone("InternVL3-8B", "OpenGVLab/InternVL3-8B-hf")


def test_alpha_and_beta_are_the_published_ones():
    table = read_table("main")
    by = {r.method: contrast_for(r, "mvbench", options_from({})) for r in table.rows[:4]}
    assert by == {"baseline": (1.0, 0.0), "sid": (0.5, 0.1), "vcd": (1.0, 0.2), "macd": (1.0, 0.5)}
    sweep = read_table("sweep").rows[0]
    assert contrast_for(sweep, "eventhallusion", options_from({})) == (2.1, 0.0036)


def test_what_cannot_be_computed_says_why(tmp_path):
    table = read_table("mask-quality")
    source = Source("toyworld", "toyworld", {}, tmp_path, 1)
    found = compute(table, table.rows[0], source, lambda done, total: None)
    assert "--study" in found.why
    assert set(found.figures.values()) == {None}


def test_ratings_of_a_file_by_hand(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("condition,score\nmacd,5\nrandom,2\nmacd,3\nmacd,4\nrandom,4\n")
    found = study_figures(path, "macd")
    assert found == {"study.mean": 4.0, "study.sd": 1.0, "study.high": pytest.approx(200 / 3)}
    path.write_text("condition,score\nmacd,6\n")
    with pytest.raises(BenchmarkError, match="1 to 5"):
        study_figures(path, "macd")
    path.write_text("condition,score\nmacd,5\n")
    with pytest.raises(BenchmarkError, match="fewer than two"):
        study_figures(path, "macd")


def test_overheads_are_against_the_first_row():
    table = read_table("latency")
    found = [Ours({"cost.latency_ms": 200.0, "cost.memory_gb": 2.0}),
             Ours({"cost.latency_ms": 300.0, "cost.memory_gb": None})]  # fmt: skip
    add_overheads(table, found)
    assert found[0].figures["cost.latency_overhead"] == 0.0
    assert found[1].figures["cost.latency_overhead"] == pytest.approx(50.0)
    assert found[1].figures["cost.memory_overhead"] is None


def test_every_question_gets_a_label_of_each_dimension():
    asked = ["Is there a dog in the video?", "Which comes first, the dog or the ball?",
             "Does the dog move left?"]  # fmt: skip
    items = [Item(str(i), "v", "r", "", "yes-no", q, "yes") for i, q in enumerate(asked)]
    labels = label_queries(items)
    assert all(tuple(labels[i.id]) == DIMENSIONS for i in items)
    assert [labels[i.id]["reasoning depth"] for i in items] == [
        "descriptive", "reasoning-heavy", "descriptive",
    ]  # fmt: skip
    assert [labels[i.id]["content focus"] for i in items] == [
        "attribute-centric", "event-centric", "event-centric",
    ]  # fmt: skip


def test_the_command_lists_tables_and_refuses_wrong_flags(capsys, tmp_path):
    with pytest.raises(OptionError, match="no table"):
        read_table("mine")
    assert main(["paper", "list"]) == 0
    assert "mask-quality" in capsys.readouterr().out
    assert main(["paper", "levels", "--alpha", "1", "--out", str(tmp_path)]) == 2
    assert "only one of α and β" in capsys.readouterr().err
    assert main(["paper", "levels", "--data", str(tmp_path / "x"), "--out", str(tmp_path)]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_study_is_printed_beside_the_published_one(tmp_path, capsys):
    path = tmp_path / "ratings.csv"
    path.write_text("condition,score\nmacd,5\nrandom,2\nmacd,4\nrandom,3\n")
    command = ["paper", "mask-quality", "--study", str(path), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert "| MACD mask | 4.50 | 0.71 | 100.00 | 3.10 | 0.65 | 38.00 |" in capsys.readouterr().out
    data = json.loads((tmp_path / "out" / "mask-quality.json").read_text())
    assert data["ours"][1]["figures"]["study.mean"] == 4.5


@pytest.mark.long
@pytest.mark.parametrize("name", ["levels", "steps", "video-pope", "query-types", "thresholds"])
def test_tables_run_on_the_drawn_world(name, tmp_path):
    assert main(["paper", name, "--n", "1", "--cost-questions", "1", "--out", str(tmp_path)]) == 0
    data = json.loads((tmp_path / f"{name}.json").read_text())
    known = [o for o in data["ours"] if not o["why"]]
    assert len(known) == len(data["ours"])
    assert any(v is not None for o in known for v in o["figures"].values())


def test_false_yes_is_tested_beside_right_answers():
    """Eight more right answers, of which only the questions answered no are false yes."""
    items = [Item(f"{i}", f"{i}", "r", "", "yes-no", "?", "no" if i < 10 else "yes")
             for i in range(20)]  # fmt: skip
    clips = tuple(str(i) for i in range(20))

    def row(right, false_yes):
        return Ours({}, n=20, items=items, right=right, false_yes=false_yes, clusters=clips)

    before = row((False,) * 16 + (True,) * 4, (True,) * 10 + (False,) * 10)
    after = row((True,) * 20, (True,) * 3 + (False,) * 17)
    assert p_of(before, after) == pytest.approx(2 / 2**16)
    assert p_of(before, after, "false_yes") == pytest.approx(2 / 2**7)
    assert p_of(before, row((True,) * 20, (True,) * 8 + (False,) * 12), "false_yes") is None
    assert p_of(row((True,) * 20, ()), row((True,) * 20, ()), "false_yes") is None
    table = read_table("video-pope")
    rows = [r for r in table.rows if r.method in ("baseline", "macd")]
    computed = [replace(before, interval=(0, 1)), replace(after, interval=(0, 1))]
    text = markdown(table, rows, computed, ABOUT)
    assert "p against Baseline: MACD 3.1e-05" in text
    assert "of false yes, p against Baseline: MACD 0.016" in text
