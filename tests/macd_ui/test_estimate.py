"""The estimate of a run's time, on runs whose true cost is known."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.options import AscentOptions, DecodeOptions, MaskOptions, RunOptions
from macd_studio.core.records import Thought
from macd_studio.core.run.spec import RunSpec
from macd_studio.core.types import Answer, Counterfactual, Trace
from macd_studio.macd_ui.actions import change_events, expected_s
from macd_studio.macd_ui.estimate import STAGES, Estimator, Work, work_of, work_of_trace
from tests.fakes import clip

LENGTH = 8  # tokens of every answer of the synthetic model


def seconds(work):
    """What each part truly costs: mostly in proportion, with a constant on top."""
    views = 0.05 + 0.04 * work.frames
    token = 0.03 * work.width
    per_method = {"vcd": 1.5, "tcd": 0.7}
    return {
        "detect": 0.1 + 0.02 * work.dense_frames,
        "track": 0.001 * work.dense_frames,
        "load": 0.0,
        "encode": 0.01 + 0.002 * work.frames,
        "prefill": views,
        "ascent": work.steps * (0.1 + 0.12 * work.frames),
        "views": views,
        "decode": 2 * LENGTH * token,
    } | {m: per_method[m] * (views + LENGTH * token) for m in work.methods}


def trace_of(work, cached=False, status="complete", hidden=True):
    cost = seconds(work)
    level = np.array([1.0 if hidden else 0.0])
    none = np.zeros(0)
    words = (None,) * LENGTH
    answers = {
        m: Answer(m, "", words, True, ms=1000 * cost.get(m, 0.0))
        for m in ("baseline", "macd", *work.methods)
    }
    timings = {k: 1000 * v for k, v in cost.items() if k not in work.methods}
    timings |= {"load": 90_000.0, "compare": 1000 * sum(cost[m] for m in work.methods)}
    if cached:
        del timings["detect"]
        timings["track"] = 0.01
    if not hidden:
        timings["views"] = 0.01
    return Trace(
        question="q", frames=np.zeros((1, 2, 2, 3), np.uint8), times=np.zeros(1), groups=(),
        status=status, timings_ms=timings,
        answers=answers, counterfactual=Counterfactual(level, level, level, none, none, none),
    )  # fmt: skip


SHORT = Work("b", "d", frames=8, dense_frames=40, steps=1, methods=("vcd",))
OTHERS = [
    Work("b", "d", frames=8, dense_frames=400, steps=1),
    Work("b", "d", frames=32, dense_frames=20, steps=5),
    Work("b", "d", frames=4, dense_frames=20, steps=1, methods=("vcd", "tcd")),
    Work("b", "d", frames=16, dense_frames=100, steps=20, methods=("tcd",)),
    Work("b", "d", frames=8, dense_frames=40, steps=1, search="beam", width=4),
]


@pytest.mark.parametrize("work", OTHERS)
def test_after_one_run_another_is_estimated_within_a_factor_of_two(work):
    estimator = Estimator()
    assert estimator.total(work) is None
    estimator.learn(SHORT, trace_of(SHORT))
    true = sum(seconds(work).values())
    assert 0.5 < estimator.total(work) / true < 2


def test_a_thought_is_learned_apart_from_the_answers():
    """20 tokens in 4 s: the next one's bound, and that it is past, count."""
    work, estimator = replace(SHORT, max_thought=64), Estimator()
    plain = trace_of(work)
    estimator.learn(work, plain)
    before = estimator.total(work)
    timed = plain.timings_ms | {"thought": 4000.0}
    thinking = replace(plain, thought=Thought("hm", (1,) * 20, True), timings_ms=timed)
    estimator.learn(work, thinking)
    assert estimator.total(work) == pytest.approx(before + 4)
    assert estimator.total(replace(work, max_thought=5)) == pytest.approx(before + 1)
    assert estimator.total(replace(work, max_thought=0)) == pytest.approx(before)
    ahead = estimator.left(work, "detect", 0.0, replace(plain, timings_ms={}))
    past = estimator.left(work, "detect", 0.0, replace(plain, timings_ms={"thought": 4000.0}))
    assert ahead - past == pytest.approx(4)
    assert work_of(clip(4, 16), RunSpec("", RunOptions(), (), "b", "d")).max_thought == 1024
    assert work_of_trace(thinking).max_thought == 0  # a change by hand keeps the thought
    own = RunOptions(decode=DecodeOptions(contrast_thought=True))
    assert work_of(clip(4, 16), RunSpec("", own, ("vcd",), "b", "d")).thoughts == 3


def test_unlike_runs_are_not_averaged():
    """The estimate of a short run stays its own after a long one."""
    estimator = Estimator()
    long = OTHERS[3]
    for _ in range(4):
        estimator.learn(long, trace_of(long))
    assert 0.5 < estimator.total(SHORT) / sum(seconds(SHORT).values()) < 2


def test_a_step_by_reading_alone_is_learned_by_its_readings():
    """A second of reading for 2 objects and 4 groups, so about 2.4 for 12 of them and 4."""
    options = RunOptions(ascent=AscentOptions(gradient="difference"))
    found = (SimpleNamespace(id=1),) * 2
    run = replace(trace_of(SHORT), options=options, groups=((0,),) * 4, tracks=found)
    run = replace(run, timings_ms=run.timings_ms | {"ascent": 1000.0})
    work = work_of(clip(8, 16), RunSpec("", options, (), "b", "d"))
    exact = work_of(clip(8, 16), RunSpec("", RunOptions(), (), "b", "d"))
    assert (exact.reads, work.reads) == (0, 1 + 4 + 4 * (options.track.max_tracks + 8))
    estimator = Estimator()
    estimator.learn(work, run)
    begun = replace(run, tracks=found * 6, timings_ms={"prefill": 1.0})
    few = estimator.left(work, "ascent", 0.0, replace(begun, tracks=found))
    many = estimator.left(work, "ascent", 0.0, begun)
    assert many - few == pytest.approx((5 + 4 * 16) / (5 + 4 * 6) - 1)
    unknown = estimator.left(work, "ascent", 0.0, replace(begun, groups=()))
    assert unknown == pytest.approx(few)  # as many as last time
    assert work_of_trace(begun).reads == 5 + 4 * 16
    unmasked = replace(options, mask=MaskOptions(frame_mask="off"))
    assert work_of_trace(replace(begun, options=unmasked)).reads == 5 + 4 * 12


def test_stages_from_the_cache_and_stopped_runs_teach_nothing():
    estimator = Estimator()
    estimator.learn(SHORT, trace_of(SHORT))
    before = estimator.total(SHORT)
    again = trace_of(SHORT, cached=True)
    estimator.learn(SHORT, again)
    assert estimator.total(SHORT) == pytest.approx(before)
    estimator.learn(SHORT, trace_of(replace(SHORT, steps=9), status="stopped: decode"))
    assert estimator.total(SHORT) == pytest.approx(before)
    estimator.learn(SHORT, trace_of(SHORT, hidden=False))  # no counterfactual was read
    assert estimator.total(SHORT) == pytest.approx(before)


def test_loading_is_not_counted_and_other_models_are_not_known():
    estimator = Estimator()
    estimator.learn(SHORT, trace_of(SHORT))
    assert estimator.total(SHORT) < 90
    assert estimator.total(replace(SHORT, backbone="other")) is None
    assert estimator.total(replace(SHORT, detector="other")) is None
    assert estimator.total(replace(SHORT, mode="half normal")) is None


def test_what_is_left_falls_from_stage_to_stage_and_ends_at_nothing():
    work = replace(SHORT, steps=4)
    estimator = Estimator()
    done = trace_of(work)
    estimator.learn(work, done)
    before = replace(done, timings_ms={}, answers={})
    left = [estimator.left(work, "detect", f, before) for f in (0, 0.5, 1)]
    left += [estimator.left(work, "ascent", 0, before)]
    read = replace(before, timings_ms={"prefill": 1.0})
    left += [estimator.left(work, "ascent", f, read) for f in (0, 0.5, 1)]
    left += [estimator.left(work, "views", 1, read), estimator.left(work, "decode", 0, read)]
    answers = {m: a for m, a in done.answers.items() if m != "vcd"}
    left += [estimator.left(work, "decode", 1, replace(read, answers=answers))]
    left += [estimator.left(work, "decode", 1, done)]
    assert left == sorted(left, reverse=True)
    assert left[0] == pytest.approx(estimator.total(work))
    assert left[3] - left[4] == pytest.approx(seconds(work)["prefill"])
    assert left[-2] == pytest.approx(seconds(work)["vcd"])
    assert left[-1] == 0


def test_changes_by_hand_cost_what_they_invalidate():
    estimator = Estimator()
    assert estimator.change(SHORT, "level") is None
    estimator.learn(SHORT, trace_of(SHORT))
    cost = seconds(SHORT)
    answer = cost["decode"] / 2
    expected = {
        "label": 0, "redecode": answer, "level": cost["views"] + answer,
        "drop": cost["ascent"] + cost["views"] + answer,
    }  # fmt: skip
    for kind, seconds_ in expected.items():
        assert estimator.change(SHORT, kind) == pytest.approx(seconds_), kind
    assert estimator.change(SHORT, "occlusion", 3) == pytest.approx(3 * cost["views"])


def test_decoding_another_answer_on_reads_its_view_too():
    estimator = Estimator()
    estimator.learn(SHORT, trace_of(SHORT))
    cost, action = seconds(SHORT), {"do": "redecode", "alpha": 1.0, "beta": 0.1}
    answer, trace = cost["decode"] / 2, trace_of(SHORT)
    for method, wanted in (("macd", answer), ("vcd", cost["views"] + answer)):
        expected = expected_s(estimator, SHORT, trace, action | {"method": method})
        assert expected == pytest.approx(wanted), method


def test_an_action_that_is_none_measures_nothing():
    with pytest.raises(OptionError, match="not a change"):
        list(change_events(object(), {"do": "levels"}))


def test_the_work_is_read_off_clip_and_options():
    options = RunOptions(decode=DecodeOptions(search="vote", samples=5))
    work = work_of(clip(frames=4, dense=8), RunSpec("", options, ("macd", "vcd"), "b", "d"))
    assert (work.frames, work.dense_frames, work.width, work.methods) == (4, 8, 5, ("vcd",))
    assert work_of(clip(dense=0), RunSpec("", options, (), "b", "d")).dense_frames == 4
    assert set(STAGES) >= {"detect", "ascent", "views", "decode"}
