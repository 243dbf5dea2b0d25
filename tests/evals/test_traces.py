"""Which answers' traces are kept while a run goes on, and what is said where one fails."""

import pytest

from macd_studio.core.errors import OptionError, VideoError
from macd_studio.core.options import RunOptions
from macd_studio.core.traces.bundle import load
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.running.answer import PendingAnswer
from macd_studio.evals.running.rows import Row, Setting, read_setting
from macd_studio.evals.scoring import kept_traces
from macd_studio.evals.scoring.kept_traces import TraceKeeper
from tests.small_trace import small_trace

METHODS = ("baseline", "macd", "vcd")


class Benchmark:
    name = "eventhallusion"


@pytest.fixture
def computed(monkeypatch):
    """The (question, method) pairs whose trace was computed."""
    found = []

    def compute(worker, item, method, contrast):
        found.append((item.id, method))
        if item.id == "broken":
            raise VideoError("no picture can be decoded", "Encode it again")
        return small_trace()

    monkeypatch.setattr(kept_traces, "compute_trace", compute)
    monkeypatch.setattr(kept_traces, "Worker", lambda *how: None)
    return found


def keeper(which, tmp_path, methods=METHODS, notes=None):
    setting = Setting("eventhallusion", RunOptions())
    say = (lambda line: None) if notes is None else notes.append
    return TraceKeeper(which, setting, Benchmark(), methods, tmp_path, tmp_path, say=say)


def answers(keep, name, **texts):
    """Sends the rows of one question, truth yes, in the order of the methods."""
    item = Item(name, "clip", "r", "", "yes-no", "Is it?", "yes")
    for method, text in texts.items():
        key = f"{name}{method}"
        failed = {"error": "it failed"} if text is None else {"text": text}
        keep.take(PendingAnswer(item, method, (1.0, 0.1), key), Row(key, name, method, **failed))


@pytest.mark.parametrize(
    ("which", "wanted"),
    [
        ("wrong", [("b", "macd"), ("b", "vcd"), ("c", "vcd")]),
        ("changed", [("b", "vcd"), ("c", "vcd")]),
        ("all", [("a", "macd"), ("a", "vcd"), ("b", "macd"), ("b", "vcd"), ("c", "macd"),
                 ("c", "vcd")]),
    ],
)  # fmt: skip
def test_the_answers_that_are_kept(which, wanted, computed, tmp_path):
    keep = keeper(which, tmp_path)
    answers(keep, "a", baseline="Yes.", macd="yes", vcd="yes")
    answers(keep, "b", baseline="no", macd="No.", vcd="not at all")
    answers(keep, "c", baseline="yes", macd="yes", vcd="no")
    answers(keep, "d", baseline="no", macd=None)
    assert computed == wanted
    answers(keep, "d", vcd=None)
    assert computed == wanted  # an answer that failed has no trace
    assert {p.stem for p in tmp_path.glob("*.macd")} == {f"{i}{m}" for i, m in wanted}
    assert keep.saved == len(wanted)
    assert load(next(tmp_path.glob("*.macd"))).question == small_trace().question


def test_plain_decoding_is_kept_where_nothing_else_was_run(computed, tmp_path):
    keep = keeper("wrong", tmp_path, ("baseline",))
    answers(keep, "a", baseline="no")
    answers(keep, "b", baseline="yes")
    assert computed == [("a", "baseline")]


def test_a_trace_that_is_there_is_not_computed_again(computed, tmp_path):
    for _ in range(2):
        answers(keeper("all", tmp_path, ("macd",)), "a", macd="yes")
    assert computed == [("a", "macd")]


def test_a_trace_that_fails_does_not_stop_the_run(computed, tmp_path):
    notes = []
    keep = keeper("all", tmp_path, ("macd",), notes)
    answers(keep, "broken", macd="yes")
    answers(keep, "a", macd="yes")
    assert "no trace of broken by macd: no picture can be decoded" in notes[0]
    assert [p.stem for p in tmp_path.glob("*.macd")] == ["amacd"]
    assert "answers 'no' in the trace and 'yes' in the run" in notes[1]


def test_a_setting_is_read_back_and_checked():
    setting = Setting("mvbench", RunOptions(), data="x", fps=1.0, published=False)
    assert read_setting(setting.as_dict()) == setting
    changes = (
        {"fps": "1"}, {"data": 3}, {"boxes": "both"}, {"more": 1}, {"options": []},
        {"held": "nonsense"}, {"dtype": "int3"}, {"offload": "yes"}, {"published": 2},
    )  # fmt: skip
    for bad in (None, {}, *(setting.as_dict() | change for change in changes)):
        with pytest.raises(OptionError):
            read_setting(bad)
