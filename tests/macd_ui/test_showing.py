"""Making what the page shows of a trace: a clock, an end with the tab, a charge, and a turn."""

import threading

import pytest

from macd_studio.core.errors import Cancelled, TraceError
from macd_studio.core.traces.bundle import load
from macd_studio.macd_ui import store as module
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.store import Store
from macd_studio.macd_ui.traces import MAX_OPENING
from macd_studio.viewer import payload
from tests.opening import EXAMPLE
from tests.patience import PATIENCE_S

NO_SUCH = {"do": "edit", "edit": {"kind": "nonsense"}}


@pytest.fixture
def store(new_store):
    return new_store(public=True)


@pytest.fixture
def handlers(store):
    return make_handlers(store, [])


def opened(handlers, key="me"):
    *_, shown = handlers.form.open_trace(str(EXAMPLE), key)
    return shown["viewer"]


def refused(handlers, run, key="me"):
    *_, shown = handlers.changes.act(NO_SUCH | {"run": run}, "", "", key)
    return shown["viewer"]


def test_a_trace_that_takes_too_long_to_show_is_not_kept(handlers, store, monkeypatch):
    monkeypatch.setattr(module, "SHOWING_S", -1.0)
    shown = opened(handlers)
    assert "trace" not in shown
    assert "takes more than -1 s" in shown["status"]["error"]
    assert shown["status"]["where"] == "open"
    session = store.sessions.find("me")
    assert session.current is None
    assert session.lost
    assert len(store.opening_queue) == 0
    own = Store()
    try:
        assert "trace" in opened(make_handlers(own, []))  # it is the user's own time
    finally:
        own.close()


def test_a_closed_tab_ends_it(handlers, store):
    session = store.sessions.open("me")
    check = store.showing(session)
    check()
    session.gone = True
    with pytest.raises(Cancelled):
        handlers.view.viewer(session, load(EXAMPLE), {"running": False, "stages_done": []})


def test_the_clock_is_asked_before_each_picture_object_and_token():
    trace, asked = load(EXAMPLE), []
    payload(trace, check=lambda: asked.append(1))
    views = [z.shown for a in trace.answers.values() for z in a.second_views if z.shown is not None]
    pictures = len(trace.frames) + len(trace.model_frames.pixels) + sum(map(len, views))
    tokens = sum(len(a.tokens) for a in trace.answers.values())
    assert len(asked) == pictures + len(trace.tracks) + len(trace.steps) + tokens
    with pytest.raises(TraceError):
        payload(trace, check=lambda: (_ for _ in ()).throw(TraceError("late", "no")))


def test_showing_a_trace_again_after_an_error_is_charged(handlers, store, monkeypatch):
    run = opened(handlers)["trace"]["run"]
    charged = []
    monkeypatch.setattr(store.quota, "add_read_s", lambda visitor, s: charged.append(s))
    shown = refused(handlers, run)
    assert shown["status"]["error"]
    assert "trace" in shown
    assert len(charged) == 2  # reading the change, and showing the trace again
    assert min(charged) > 0


def test_who_has_no_time_left_is_told_the_error_and_keeps_the_page(handlers, store):
    run = opened(handlers)["trace"]["run"]
    store.quota.add_read_s("", 60 * store.settings.visitor.read_minutes)
    shown = refused(handlers, run)
    assert "Reading files" in shown["status"]["error"]
    assert "trace" not in shown
    assert store.sessions.find("me").current.run == run


def test_no_more_are_shown_at_once_than_are_opened(handlers, store, monkeypatch):
    """What is shown again after errors takes memory as opening does, so it has its bound."""
    keys = [str(n) for n in range(MAX_OPENING + 2)]
    runs = [opened(handlers, key)["trace"]["run"] for key in keys]
    inside, most, lock = [], [], threading.Lock()
    all_in, show = threading.Event(), type(handlers.view).show_trace

    def watched(view, session, state):
        with lock:
            inside.append(session)
            most.append(len(inside))
            if len(inside) > MAX_OPENING:
                all_in.set()
        all_in.wait(0.3)
        try:
            return show(view, session, state)
        finally:
            with lock:
                inside.remove(session)

    monkeypatch.setattr(type(handlers.view), "show_trace", watched)
    threads = [threading.Thread(target=refused, args=(handlers, r, k))
               for k, r in zip(keys, runs, strict=True)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(most) == len(keys)
    assert max(most) <= MAX_OPENING
