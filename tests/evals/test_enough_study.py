"""The study of what is enough: which answers count, what a row holds, what is told."""

import json

import pytest

from macd_studio.evals.benchmarks.toyworld import ToyWorld
from macd_studio.evals.studies import enough, evidence


def made_row(i, **named):
    found = {"size": 1 + i % 2, "alike": 1, "certified": True, "asked": True, "background": i == 0}
    scores = {kind: 0.1 * k + 0.01 * i for k, kind in enumerate(enough.KINDS)}
    return {
        "id": f"q{i}", "clip": f"c{i}", "right": True, "hallucinated": False, "empty": False,
        "pieces": 4, "views": 10, "keep": found, "remove": found | {"asked": i != 1},
        "curves": scores | {"random": 0.05},
    } | named  # fmt: skip


def rows():
    right = [made_row(i) for i in range(40)]
    right[0]["keep"] = right[0]["keep"] | {"asked": False}
    without = [{"id": f"e{i}", "clip": f"e{i}", "right": True, "hallucinated": False, "empty": True}
               for i in range(10)]  # fmt: skip
    wrong = [{"id": f"h{i}", "clip": f"h{i}", "right": False, "hallucinated": True, "empty": i < 30}
             for i in range(40)]  # fmt: skip
    others = [{"id": "x", "clip": "x", "right": False, "hallucinated": False}]
    return right + without + wrong + others


def test_the_figures_are_of_answers_that_need_the_video():
    found = enough.figures(rows(), "key")
    assert (found["right"], found["needs_video"], found["hallucinated"]) == (50, 40, 40)
    assert found["without_video"][0] == pytest.approx(0.2)
    assert found["keep_asked"][0] == pytest.approx(39 / 40)
    assert found["keep_asked"][1] < 39 / 40 < found["keep_asked"][2]
    assert found["remove_asked"][0] == pytest.approx(39 / 40)
    assert found["keep_size"] == [1.5, 1.0, 2.0]
    assert found["hallucinated_empty"][0] == pytest.approx(0.75)
    last = enough.KINDS[-1]
    assert found["curves"][last]["best"][0] == 1.0
    assert found["curves"][last]["over_random"][0] == pytest.approx(0.1 * 3 + 0.195 - 0.05)
    lines = enough.curve_table(found).splitlines()
    assert lines[-1].endswith(" | 100.0 [91.2, 100.0] |")
    assert enough.score_text(found["random"]) == "+0.050 [0.050, 0.050]"


def test_what_is_hallucinated():
    benchmark = ToyWorld()
    for item in enough.absent_items(benchmark, 12):
        present = benchmark.present(item.clip)
        assert item.about not in present
        absent = next(n for n in benchmark.nouns if n not in present)
        assert enough.is_hallucinated(benchmark, item, present[0]) is False
        if item.truth.lower() == "no":
            assert enough.is_hallucinated(benchmark, item, "yes")
        else:
            assert enough.is_hallucinated(benchmark, item, absent)
        assert not enough.is_hallucinated(benchmark, item, "no")


def test_it_ends_with_enough_answers_and_goes_on_where_it_was(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(enough, "load_backbone", lambda *_: None)
    measured = []

    def measure(lm, benchmark, item):
        measured.append(item.id)
        there = item.about in benchmark.present(item.clip)
        return made_row(len(measured), id=item.id, right=there, hallucinated=not there)

    monkeypatch.setattr(enough, "measure_item", measure)
    first = evidence.read_rows(enough.run(4, 3, 40))
    assert len(first) == len(measured) == 7
    assert [r["hallucinated"] for r in first] == [False] * 4 + [True] * 3
    assert len(evidence.read_rows(enough.run(5, 3, 40))) == 8
    assert len(measured) == 8


@pytest.mark.long
def test_a_question_is_measured(toyworld):
    benchmark = ToyWorld()
    items = evidence.asked_items(benchmark, 12)
    found = (enough.measure_item(toyworld, benchmark, item) for item in items)
    row = next(r for r in found if enough.needs_video(r))
    assert json.loads(json.dumps(row)) == row
    assert row["keep"]["certified"]
    assert set(row["curves"]) == {*enough.KINDS, "random"}
