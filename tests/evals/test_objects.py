"""Objects in evaluations: looked for where a method needs them, once a clip, and counted."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from macd_studio.core.types import Detections
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.running.output import count_objects, objects_note
from macd_studio.evals.running.rows import NOT_LOOKED, Row
from macd_studio.evals.running.rows import read as read_rows
from macd_studio.evals.statistics.objects import asked_objects, object_ranking
from macd_studio.toyworld.clips import TITLE, write_frames
from tests.fakes import ByteLM, tracks


class Detector:
    """The same box in clips that are bright; knows how often it was asked."""

    name, open_vocabulary = "bright", False

    def __init__(self):
        self.calls = 0

    def detect(self, frames, options):
        self.calls += 1
        for frame in frames:
            n = int(frame.mean() > 100)
            box = np.array([[0.2, 0.2, 0.6, 0.6]] * n, np.float32).reshape(-1, 4)
            yield Detections(box, np.full(n, 0.9, np.float32), ("dog",) * n)


@pytest.fixture
def detector(monkeypatch):
    found = Detector()
    monkeypatch.setattr(
        "macd_studio.evals.scoring.report.plots", lambda report: {}
    )  # they take seconds
    monkeypatch.setattr("macd_studio.evals.running.engine._backbone", lambda name, *held: ByteLM())
    monkeypatch.setattr("macd_studio.evals.running.engine._detector", lambda name, device: found)
    return found


@pytest.fixture
def data(tmp_path):
    """Two questions about a bright clip, one about a dark one."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, grey in (("bright", 200), ("dark", 40)):
        frames = np.full((12, 64, 64, 3), grey, np.uint8)
        write_frames(frames, folder / f"{name}.mp4", 12, {"title": TITLE})
    rows = [("bright", "is it light?"), ("bright", "is it dark?"), ("dark", "is it light?")]
    lines = [{"video": f"{v}.mp4", "question": q, "answer": "yes"} for v, q in rows]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "questions.jsonl").write_text(text)
    return folder


def run(data, out, methods, *more):
    words = ["run", "questions", "--data", str(data), "--out", str(out), "--methods", methods]
    assert main([*words, "--alpha", "1", "--beta", "0.1", "--frames", "4", *more]) == 0
    return json.loads((out / "report.json").read_text())


def test_nobody_looks_where_no_method_needs_objects(data, tmp_path, detector, monkeypatch):
    monkeypatch.setattr("macd_studio.evals.running.engine._detector", None)  # none is loaded
    report = run(data, tmp_path, "vcd,sid,blank")
    assert report["n"] == 3
    assert all(s["errors"] == 0 for s in report["scores"].values())
    assert report["objects"] == {"looked": 0, "none": 0}
    assert {r.objects for r in read_rows(tmp_path / "rows")} == {NOT_LOOKED}


def test_a_clip_is_looked_at_once_and_what_it_lacks_is_counted(data, tmp_path, detector):
    report = run(data, tmp_path, "macd,vcd")
    assert detector.calls == 2
    assert report["objects"] == {"looked": 3, "none": 1}
    (note,) = [n for n in report["notes"] if "objects" in n]
    assert note.startswith("No objects were found for 1 of 3 questions: MACD had no object")
    assert note in (tmp_path / "report.md").read_text()
    said = {(q["clip"], a["objects"]) for q in report["questions"] for a in q["answers"].values()}
    assert said == {("bright.mp4", 1), ("dark.mp4", 0)}
    rows = list(read_rows(tmp_path / "rows"))
    assert {(r.objects, tuple(r.tracks)) for r in rows if r.method == "baseline"} == {
        (1, ("dog",)),
        (0, ()),
    }


def test_a_method_that_is_added_later_looks(data, tmp_path, detector):
    run(data, tmp_path, "vcd")
    assert detector.calls == 0
    assert run(data, tmp_path, "macd")["objects"] == {"looked": 3, "none": 1}


def test_the_note_names_who_had_nothing_to_mask():
    rows = [Row("", "a", "macd", objects=0), Row("", "b", "macd", objects=2), Row("", "c", "macd")]
    counted = count_objects(rows)
    assert counted == {"looked": 2, "none": 1}
    assert "MACD, Every object masked had" in objects_note(counted, ["vcd", "macd", "mask-all"])
    assert objects_note(counted, ["baseline", "vcd"]) == ""
    assert objects_note({"looked": 2, "none": 0}, ["macd"]) == ""


def test_what_nobody_looked_for_is_not_missed():
    from macd_studio.evals.benchmarks import find_benchmark

    benchmark = find_benchmark("toyworld")
    items = benchmark.items("test", 6)
    item = next(i for i in items if asked_objects(benchmark, [i], []))
    for objects, detected in ((NOT_LOOKED, None), (0, False), (None, False)):
        row = Row("", item.id, "baseline", scores={"yes": 1.0}, objects=objects)
        assert asked_objects(benchmark, [item], [row])[item.id].detected is detected


def test_an_object_is_put_first_by_more_than_every_other():
    """A method that ranks nothing, all 0, puts none first."""
    benchmark = SimpleNamespace(levels=(), regimes=("r",))
    items = [Item(f"{n}", f"c{n}", "r", "", "yes-no", "?", "yes", about="dog") for n in range(4)]
    given = [(2, 1), (1, 1), (0, 0), (1, 2)]
    answers = {
        (item.id, "macd"): Row("", item.id, "macd", gradient=[("dog", asked), ("cup", other)])
        for item, (asked, other) in zip(items, given, strict=True)
    }
    found = object_ranking(benchmark, items, answers, ["macd"])["macd"]["r"]["all"]
    assert (found["clips"], found["chance"], found["agrees"]) == (4, 0.5, None)
    assert found["first"][0] == 0.25
    assert found["auc"][0] == 0.5


def test_what_is_covered_is_a_share_of_the_object_that_is_asked_about():
    """On the frame where it is largest, by the one other object that covers most."""
    small, large, beside = tracks((0.4, 0.4, 0.6, 0.6), (0.5, 0.0, 1.0, 1.0), (0.0, 0.4, 0.42, 0.6))
    all_three = [
        replace(t, label=label) for t, label in ((small, "cup"), (large, "van"), (beside, "dog"))
    ]
    benchmark = SimpleNamespace(true_tracks=lambda _: all_three)
    items = [SimpleNamespace(id=t.label, about=t.label, clip="c") for t in all_three]
    found = asked_objects(benchmark, items, [])
    covered = {name: one.covered for name, one in found.items()}
    assert covered == pytest.approx({"cup": 0.5, "van": 0.04, "dog": 0.02 / 0.42}, rel=1e-4)
    assert {one.companions for one in found.values()} == {2}
    assert found["cup"].size == pytest.approx(0.04)
