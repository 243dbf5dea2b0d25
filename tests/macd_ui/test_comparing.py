"""Controls are compared after a run, and never shown over what a visitor has gone on to."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from macd_studio.core.measurements import RANDOM_MASKS
from macd_studio.core.run.spec import RunSpec
from macd_studio.macd_ui.estimate import work_of_trace
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.jobs import Jobs
from macd_studio.macd_ui.runs import AUTOMATIC_S
from macd_studio.viewer.payload import can_compare
from tests.small_trace import small_trace

JOB, TURN = SimpleNamespace(spec=RunSpec("what?")), SimpleNamespace(is_over=lambda: False)


def compared(store, monkeypatch, trace, meanwhile=lambda session: None):
    """The updates of the comparison, and the session; meanwhile: what a visitor does."""
    handlers = make_handlers(store, [])
    session = store.sessions.open("me")
    session.show(trace)
    report = trace.controls

    def measure():
        meanwhile(session)
        return replace(trace, controls=report)

    monkeypatch.setattr(Jobs, "bench", lambda *_: SimpleNamespace(measure_controls=measure))
    session.trace = bare = replace(trace, controls=None)
    return list(handlers.runs._compare(session, JOB, TURN)), session, bare


def quick():
    trace = small_trace()
    boxes = tuple(replace(t, outlines=()) for t in trace.tracks)
    return replace(trace, tracks=boxes, timings_ms={"views": 10.0})


def test_a_quick_comparison_is_shown_by_itself(store, monkeypatch):
    trace = quick()
    (update,), session, _ = compared(store, monkeypatch, trace)
    assert session.trace.controls == trace.controls
    assert update["viewer"]["trace"]["controls"]["macd"] == trace.controls.macd


def test_what_a_visitor_has_gone_on_to_stays(store, monkeypatch):
    other = replace(quick(), question="Another?")
    updates, session, _ = compared(
        store, monkeypatch, quick(), meanwhile=lambda session: session.show(other)
    )
    assert updates == []
    assert session.trace is other


def test_a_slow_comparison_waits_for_the_button(store, monkeypatch):
    slow = replace(quick(), timings_ms={"views": 1000 * AUTOMATIC_S})
    assert can_compare(slow)
    updates, session, bare = compared(store, monkeypatch, slow)
    assert (updates, session.trace) == ([], bare)
    unknown = replace(quick(), timings_ms={})
    assert compared(store, monkeypatch, unknown)[0] == []
    frames = len(quick().frames)
    outlined = tuple(replace(t, outlines=(None,) * frames) for t in quick().tracks)
    assert compared(store, monkeypatch, replace(quick(), tracks=outlined))[0] == []


@pytest.mark.parametrize("masked", ["objects", "frames", ""])
def test_what_masks_anything_can_be_compared(masked):
    trace = quick()
    found = trace.counterfactual
    levels = {
        "level": np.where(masked == "objects", 1.0, 0.0 * found.level),
        "frame_level": np.where(masked == "frames", 1.0, 0.0 * found.frame_level),
    }
    assert can_compare(replace(trace, counterfactual=replace(found, **levels))) == bool(masked)


def test_the_time_of_a_comparison_is_what_it_took_here(store, monkeypatch):
    trace = quick()
    first = make_handlers(store, []).view.viewer(
        store.sessions.open("me"), trace, {"running": False}
    )
    assert first["trace"]["controls_ms"] is None  # nothing was timed on this server yet
    trace = replace(trace, controls=replace(trace.controls, milliseconds=1500.0))
    (update,), *_ = compared(store, monkeypatch, trace)
    assert update["viewer"]["trace"]["controls_ms"] == 1500.0
    # what was slower than the views made expect is not started again without being asked for
    slow = 2 * AUTOMATIC_S
    store.estimator.learn_action(work_of_trace(trace), "controls", RANDOM_MASKS + 3, slow + 2)
    assert compared(store, monkeypatch, trace)[0] == []
