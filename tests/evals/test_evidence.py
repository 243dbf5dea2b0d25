"""The study of evidence maps: which questions, what a row holds, and what is told of rows."""

import json

import numpy as np
import pytest

from macd_studio.evals.benchmarks.toyworld import ToyWorld
from macd_studio.evals.studies import evidence


def test_questions_are_about_what_is_there_one_a_clip():
    benchmark = ToyWorld()
    items = evidence.asked_items(benchmark, 30)
    assert len({i.clip for i in items}) == len(items) == 30
    assert all(i.about in benchmark.present(i.clip) for i in items)
    assert {i.regime for i in items} >= {"consistent", "background", "co-occurrence", "motion"}
    assert items[:5] == evidence.asked_items(benchmark, 5)


def made_row(i, right=True, area=0.1, lead=0.2):
    name = [f"{k} {v}" for k in evidence.KINDS for v in evidence.VIEWS]
    return {
        "id": f"q{i}", "clip": f"c{i}", "right": right, "area": area,
        "shares": dict.fromkeys(name, area + lead), "peaks": dict.fromkeys(name, i % 2 == 0),
        "sanity": dict.fromkeys(name, 0.5),
    }  # fmt: skip


def test_figures_keep_right_and_wrong_apart():
    rows = [made_row(i) for i in range(6)] + [made_row(9, right=False, lead=-0.05)]
    found = evidence.figures([*rows, {"id": "q10", "right": True}], "key", 6)
    assert found["asked"] == 8
    assert (found["questions"], found["right"], found["wrong"]) == (7, 6, 1)
    first = next(r for r in found["table"] if r["right"])
    wrong = next(r for r in found["table"] if not r["right"])
    assert first["share"] == pytest.approx([0.3] * 3)
    assert first["lead"] == pytest.approx([0.2] * 3)
    assert first["peak"][0] == pytest.approx(0.5)
    assert wrong["lead"][0] == pytest.approx(-0.05)
    shown = evidence.map_table(found)
    assert "**+20.0** [20.0, 20.0]" in shown
    assert "**−5.0**" in shown
    assert "0.50 [0.50, 0.50]" in evidence.token_table(found)
    assert "| – |" in evidence.map_table(evidence.figures(rows[:6], "key", 6))


def test_the_published_figures_are_of_right_and_wrong_answers():
    found = json.loads(evidence.FIGURES.read_text())
    assert found["questions"] == found["right"] + found["wrong"]


def test_further_questions_are_measured_only_where_the_answer_is_wrong(monkeypatch, tmp_path):
    monkeypatch.setattr(evidence, "ROWS", tmp_path)
    monkeypatch.setattr(evidence, "load_backbone", lambda *_: None)
    asked = [item.id for item in evidence.asked_items(ToyWorld(), 12)]
    wrong = {asked[7], asked[9], asked[11]}
    monkeypatch.setattr(evidence, "answers_right", lambda lm, b, item: item.id not in wrong)
    monkeypatch.setattr(
        evidence,
        "measure_item",
        lambda lm, b, i: made_row(0) | {"id": i.id, "right": i.id not in wrong},
    )
    rows = evidence.read_rows(evidence.run(4, wrong=2, screen=8))
    assert [r["id"] for r in rows] == asked[:10]  # the second wrong one ends it
    assert [r["id"] for r in rows if "shares" in r] == [*asked[:4], asked[7], asked[9]]
    again = evidence.read_rows(evidence.run(4, wrong=2, screen=8))
    assert again == rows
    found = evidence.figures(rows, "key", 4)
    assert (found["right"], found["wrong"]) == (4, 2)


@pytest.mark.long
def test_a_question_is_measured(toyworld):
    benchmark = ToyWorld()
    (item,) = evidence.asked_items(benchmark, 1)
    row = evidence.measure_item(toyworld, benchmark, item)
    assert json.loads(json.dumps(row)) == row
    assert 0 < row["area"] < 0.5
    track = next(t for t in benchmark.true_tracks(item.clip) if t.label == item.about)
    seen = np.isfinite(track.boxes).all(1)
    sides = (track.boxes[seen, 2:] - track.boxes[seen, :2]).prod(1).sum() / len(seen)
    assert row["area"] == pytest.approx(sides, rel=0.1)
    assert row["sanity"]["attention video"] == pytest.approx(1)
    assert all(0 <= s <= 1 for s in row["shares"].values())
