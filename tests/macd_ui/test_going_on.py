"""Visitors who go on to another clip while their job waits or computes."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from macd_studio.macd_ui.jobs import Jobs
from macd_studio.macd_ui.runs import Runs
from macd_studio.viewer import identity
from tests.fakes import BoxDetector
from tests.macd_ui.test_form import NarrowLM
from tests.macd_ui.test_jobs import until, values
from tests.macd_ui.test_shown import SHORT


def level_edit(shown):
    """Gives the first object of what is shown a level that it does not have."""
    view = shown["viewer"]["trace"]
    level = 1 - round(view["final"]["level"][0])
    edit = {"kind": "level", "track": 1, "level": level}
    return {"do": "edit", "run": view["run"], "edit": edit}


def assert_dropped(session, chosen, last):
    """The chosen example is on show, and nothing was done to it."""
    assert "Another run was opened meanwhile" in last["viewer"]["status"]["message"]
    assert not last["viewer"]["status"]["error"]
    assert last["viewer"]["trace"]["run"] == chosen.run
    assert last["viewer"]["trace"]["edits"] == []
    assert "previous" not in last["viewer"]["trace"]
    assert last["run"]["interactive"] is True
    assert session.current is chosen
    assert not session.undo_stack


def test_a_change_that_waits_is_not_made_to_another_run(handlers, store, make_video):
    video = make_video()
    *_, shown = handlers.runs.run(values(video), "me")
    other = handlers.runs.run(values(video), "other")
    until(other, "Looking")
    change = handlers.changes.act(level_edit(shown), "bytes", None, "me")
    until(change, "Waiting: 1 run")
    handlers.form.choose(SHORT, "me")
    session = store.sessions.open("me")
    chosen = session.current
    other.close()
    *_, last = change
    assert_dropped(session, chosen, last)


def test_a_change_that_computes_takes_nobody_back_to_its_run(handlers, store, make_video):
    *_, shown = handlers.runs.run(values(make_video()), "me")
    change = handlers.changes.act(level_edit(shown), "bytes", None, "me")
    next(u for u in change if "trace" in u.get("viewer", {}))
    handlers.form.choose(SHORT, "me")
    session = store.sessions.open("me")
    chosen = session.current
    *before, last = change
    assert all("trace" not in u.get("viewer", {}) for u in before)
    assert_dropped(session, chosen, last)
    assert len(store.device_queue) == 0


def test_a_measurement_is_not_shown_in_place_of_another_run(handlers, store, monkeypatch):
    example = handlers.view.examples[SHORT]
    handlers.form.choose(0, "me")
    session = store.sessions.open("me")
    trace = session.trace
    measured = replace(trace, occlusion=())

    def measure():
        handlers.form.choose(SHORT, "me")

    bench = SimpleNamespace(trace=measured, measure_occlusion=measure)
    monkeypatch.setattr(Jobs, "bench", lambda *_: bench)
    action = {"do": "occlusion", "run": session.current.run}
    *_, last = handlers.changes.act(action, "toyworld", None, "me")
    assert_dropped(session, session.current, last)
    assert session.current.run == identity(example.load_trace())


def test_a_result_that_waits_to_be_stored_is_not_stored_in_another_run(
    handlers, store, monkeypatch
):
    handlers.form.choose(0, "me")
    session, in_turn = store.sessions.open("me"), store.open_in_turn

    def chosen_meanwhile(visitor, ended):
        monkeypatch.setattr(store, "open_in_turn", in_turn)
        handlers.form.choose(SHORT, "me")
        return in_turn(visitor, ended)

    def measure():
        monkeypatch.setattr(store, "open_in_turn", chosen_meanwhile)

    bench = SimpleNamespace(trace=replace(session.trace, occlusion=()), measure_occlusion=measure)
    monkeypatch.setattr(Jobs, "bench", lambda *_: bench)
    action = {"do": "occlusion", "run": session.current.run}
    *_, last = handlers.changes.act(action, "toyworld", None, "me")
    assert_dropped(session, session.current, last)
    assert store.open_in_turn == in_turn


def test_undo_is_not_made_to_another_run(handlers, store, make_video, monkeypatch):
    *_, shown = handlers.runs.run(values(make_video()), "me")
    *_, changed = handlers.changes.act(level_edit(shown), "bytes", None, "me")
    session = store.sessions.open("me")
    in_turn = store.open_in_turn

    def chosen_meanwhile(visitor, ended):
        monkeypatch.setattr(store, "open_in_turn", in_turn)
        handlers.form.choose(SHORT, "me")
        return in_turn(visitor, ended)

    monkeypatch.setattr(store, "open_in_turn", chosen_meanwhile)
    undo = {"do": "undo", "run": changed["viewer"]["trace"]["run"]}
    *_, last = handlers.changes.act(undo, "bytes", None, "me")
    assert_dropped(session, session.current, last)


@pytest.fixture
def used(store, monkeypatch):
    """The detectors that were loaded; the backbone knows drawings only."""
    names = []
    monkeypatch.setattr(store.models, "backbone", lambda name, *_: NarrowLM())
    monkeypatch.setattr(
        store.models, "detector", lambda name, *_: names.append(name) or BoxDetector()
    )
    monkeypatch.setattr("macd_studio.macd_ui.session_view.offered", lambda settings: None)
    return names


def while_it_is_read(monkeypatch, do):
    """The visitor does something while the clip of a run is read."""
    read = Runs._read

    def reading(*given):
        clip = read(*given)
        do()
        return clip

    monkeypatch.setattr(Runs, "_read", reading)


def test_an_example_chosen_while_a_real_clip_waits_changes_nothing_of_its_run(
    handlers, store, make_video, used
):
    clip = str(make_video())
    list(handlers.form.upload(clip, None, "me"))
    other = handlers.runs.run(values(clip), "other")
    until(other, "Looking")
    used.clear()
    run = handlers.runs.run(values(clip), "me")
    until(run, "Waiting: 1 run")
    handlers.form.choose(SHORT, "me")
    other.close()
    *_, last = run
    assert set(last["viewer"]["trace"]["answers"]) >= {"baseline", "macd"}
    assert used == ["yolo11n"]


def test_an_example_chosen_while_a_real_clip_is_read_changes_nothing_of_its_run(
    handlers, store, make_video, used, monkeypatch
):
    clip = str(make_video())
    list(handlers.form.upload(clip, None, "me"))
    while_it_is_read(monkeypatch, lambda: handlers.form.choose(SHORT, "me"))
    updates = list(handlers.runs.run(values(clip), "me"))
    assert set(updates[-1]["viewer"]["trace"]["answers"]) >= {"baseline", "macd"}
    assert used == ["yolo11n"]
    form = store.sessions.open("me").form
    assert (form.video, form.title, form.values["detector"]) == (None, "", "auto")
    assert all("detector" not in update for update in updates)  # which the page's form would take


def test_a_real_clip_uploaded_while_an_example_is_read_is_not_taken_for_drawn(
    handlers, store, make_video, used, monkeypatch
):
    clip = str(make_video())
    asked = values("", video=None, example=SHORT, methods=[])
    while_it_is_read(monkeypatch, lambda: next(handlers.form.upload(clip, None, "me")))
    *_, last = handlers.runs.run(asked, "me")
    assert set(last["viewer"]["trace"]["answers"]) >= {"baseline", "macd"}
    assert used == ["toyworld"]
    form = store.sessions.open("me").form
    assert (form.video, form.title) == (clip, "")
