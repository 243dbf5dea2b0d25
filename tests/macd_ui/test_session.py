"""What a session holds and how long it lives, by a clock that the test moves."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from macd_studio.core.embedded import AUTO
from macd_studio.core.errors import TraceError
from macd_studio.macd_ui import session as module
from macd_studio.macd_ui.quota import QuotaError
from macd_studio.macd_ui.session import (
    ANSWERED_S,
    ENDING_S,
    IDLE_S,
    MAX_UNDO,
    DeviceTurn,
    Form,
    Session,
    Sessions,
)
from macd_studio.macd_ui.settings import ServerSettings, VisitorLimits
from tests.small_trace import small_trace

GRACE_S = 60.0


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1e6)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


class Kept(Sessions):
    """stopped: the keys of sessions whose job was stopped. released: keys with their sessions."""

    def __init__(self, settings=None):
        self.stopped, self.released = [], []
        settings = settings or ServerSettings()
        super().__init__(settings, GRACE_S, lambda session: self.stopped.append(session.key),
                         lambda *given: self.released.append(given))  # fmt: skip


@pytest.fixture
def kept(clock):
    return Kept()


def traces(count):
    return [replace(small_trace(), question=f"question {i}?") for i in range(count)]


# what a tab shows


def test_a_new_tab_shows_nothing_and_has_its_own_secret():
    one, two = Session("a", "ada", "browser", "owner"), Session()
    assert (one.key, one.visitor, one.browser, one.owner) == ("a", "ada", "browser", "owner")
    assert (two.key, two.visitor, two.browser, two.owner, two.link) == ("", "", "", "", "")
    assert len(one.token) == 32
    assert one.token != two.token
    assert one.trace is one.models is one.pending is one.left_at is one.random_clip is None
    assert not one.gone
    assert not one.plot_open
    assert not one.answered
    assert (one.fetched, one.seen_at) == (0, 0.0)
    assert one.form == Form(None, None, "", "", AUTO, {})
    assert one != two
    assert one.stored_traces() == []


@pytest.mark.parametrize(("answered", "patience"), [(False, ENDING_S), (True, ANSWERED_S)])
def test_a_job_waits_for_the_one_before_it(answered, patience):
    asked = []
    session = Session(answered=answered)
    session.busy = SimpleNamespace(acquire=lambda timeout: asked.append(timeout) or "taken")
    assert session.begin() == "taken"
    assert asked == [patience]


def test_one_job_at_a_time(monkeypatch):
    monkeypatch.setattr(module, "ENDING_S", 0.0)
    session = Session()
    assert session.begin()
    assert not session.begin()
    session.busy.release()
    assert session.begin()


def test_changes_are_undone_and_redone_in_order():
    session, (run, *changed) = Session(), traces(4)
    session.change(run)
    assert session.undo_stack == []
    for trace in changed:
        session.bench = "bench"
        session.change(trace)
        assert session.bench == "bench"
    assert session.trace is changed[-1]
    seen = []
    for step in (session.undo, session.undo, session.undo, session.undo, session.redo):
        session.bench = "bench"
        step()
        seen.append(session.trace.question)
    assert seen == [f"question {i}?" for i in (2, 1, 0, 0, 1)]
    assert session.bench is None
    assert [s.get().question for s in session.stored_traces()] == [
        f"question {i}?" for i in (0, 3, 2, 1)
    ]
    session.change(run)  # what was undone cannot come back
    assert session.redo_stack == []
    assert len(session.undo_stack) == 2
    assert session.clear_history()
    assert not session.clear_history()
    assert [s.get() for s in session.stored_traces()] == [run]
    session.undo()
    session.redo()
    assert session.trace is run


def test_either_history_is_cleared():
    session, (run, changed) = Session(), traces(2)
    session.trace = run
    session.change(changed)
    session.undo()
    assert not session.undo_stack
    assert session.clear_history()
    assert session.redo_stack == session.undo_stack == []


def test_so_many_changes_are_undone():
    session, many = Session(), traces(MAX_UNDO + 3)
    for trace in many:
        session.change(trace)
    assert [s.get() for s in session.undo_stack] == many[2:-1]


def test_another_trace_starts_over():
    session, (run, changed, other) = Session(), traces(3)
    session.show(run, "?run=1", ("backbone", "detector"))
    assert (session.link, session.models) == ("?run=1", ("backbone", "detector"))
    session.change(changed)
    session.bench, session.pending, session.lost = "bench", "request", True
    session.show(other)
    assert session.trace is other
    assert not session.lost
    assert session.bench is session.pending is session.models is None
    assert session.link == ""
    assert session.stored_traces() == [session.current]


def test_a_dropped_trace_is_told():
    session = Session(bench="bench")
    session.drop_trace()
    assert session.bench is session.trace is None
    session.show(small_trace())
    session.bench = "bench"
    session.drop_trace()
    assert session.bench is None
    with pytest.raises(TraceError, match="no longer keeps the run"):
        session.trace  # noqa: B018


def test_time_on_the_device_is_counted_and_bounded(clock):
    session = Session()
    turn, endless = DeviceTurn(session, 10.0), DeviceTurn(session, None)
    clock.now += 10.0
    assert turn.seconds == endless.seconds == 10.0
    assert not turn.out_of_time
    assert not turn.is_over()
    clock.now += 0.5
    assert turn.out_of_time is turn.is_over() is True
    assert endless.out_of_time is endless.is_over() is False
    session.stop.set()
    assert endless.is_over()


# all tabs


def test_a_tab_keeps_its_session(kept, clock):
    first = kept.open("a", "ada", "browser")
    assert (first.key, first.visitor, first.browser) == ("a", "ada", "browser")
    assert first.seen_at == clock.now
    kept.leave("a")
    clock.now += 5
    assert kept.open("a", "eve", "another") is first
    assert (first.visitor, first.browser) == ("ada", "browser")
    assert (first.seen_at, first.left_at) == (clock.now, None)
    second = kept.open("b")
    assert (second.visitor, second.browser) == ("", "")
    assert kept.find("b") is second
    assert kept.find("c") is None
    assert len(kept) == 2
    assert kept.all() == [first, second]
    assert kept.find_by_token(second.token) is second
    assert kept.find_by_token(first.token) is first
    assert kept.find_by_token("é") is None


def test_only_a_shared_server_bounds_tabs(clock, monkeypatch):
    mine = Kept(ServerSettings(visitor=VisitorLimits(sessions=1)))
    assert len({id(mine.open(str(i), "ada")) for i in range(3)}) == 3
    theirs = Kept(ServerSettings(public=True, visitor=VisitorLimits(sessions=2)))
    for key in "ab":
        theirs.open(key, "ada")
    with pytest.raises(QuotaError, match="2 tabs from your address use"):
        theirs.open("c", "ada")
    theirs.open("a", "ada")  # which is open already
    theirs.open("d", "bob")
    monkeypatch.setattr(module, "MAX_SESSIONS", 4)
    theirs.open("e", "bob")
    with pytest.raises(QuotaError), theirs.call("program", "eve"):
        pass
    assert len(theirs) == 4


def test_a_server_that_stops_opens_nothing(kept):
    kept.open("a")
    kept.closing = True
    with pytest.raises(QuotaError, match="about to stop"):
        kept.open("b")
    assert kept.open("a").key == "a"


def test_a_call_has_a_session_of_its_own(kept, clock):
    with kept.call("program", "ada") as session, kept.call("program") as other:
        assert session.key != other.key
        assert session.key.startswith("call-")
        assert len(session.key) == len("call-") + 22
        assert (session.owner, session.visitor, other.visitor) == ("program", "ada", "")
        assert session.seen_at == clock.now
        assert session.busy.locked()
        assert kept.find(session.key) is session
        assert kept.is_live("program")
    assert kept.released == [(other.key, other), (session.key, session)]
    assert not kept.is_live("program")
    with pytest.raises(ZeroDivisionError), kept.call("program"):
        raise ZeroDivisionError
    assert len(kept) == 0


def test_a_tab_is_open_as_long_as_a_stream_is(kept, clock):
    session = kept.open("a")
    for change, connected in ((kept.connect, True), (kept.connect, True), (kept.disconnect, True),
                              (kept.disconnect, False), (kept.disconnect, False),
                              (kept.connect, True), (kept.disconnect, False)):  # fmt: skip
        clock.now += 1
        change("a")
        assert kept.is_connected("a") is connected
        if change == kept.disconnect:
            assert session.seen_at == clock.now
    kept.connect("nobody")
    assert kept.is_live("nobody")
    kept.disconnect("nobody")
    assert not kept.is_live("nobody")
    assert "nobody" not in kept._connections
    assert kept.is_live("a")


def test_a_closed_tab_stops_its_job_and_those_of_its_program(kept, clock):
    for key in "ab":
        kept.open(key)
    with kept.call("a") as called:
        kept.leave("a")
        assert kept.stopped == ["a", called.key]
        assert kept.find("a").left_at == called.left_at == clock.now
        assert kept.find("b").left_at is None
    kept.leave("nobody")
    assert kept.stopped == ["a", called.key, called.key]


def test_what_is_forgotten_is_stopped_and_released(kept):
    session = kept.open("a")
    kept.forget("a")
    assert session.gone
    assert kept.stopped == ["a"]
    kept.forget("a")
    assert kept.stopped == ["a"]
    assert kept.released == [("a", session), ("a", None)]
    assert len(kept) == 0


def test_sessions_end_after_their_time(kept, clock):
    """Closed: after the grace. Without a stream: likewise. Open and idle: half a day."""
    left, unseen, busy, idle = (kept.open(key) for key in ("left", "unseen", "busy", "idle"))
    kept.connect("idle")
    kept.connect("left")
    assert busy.begin()
    kept.leave("left")
    clock.now += GRACE_S
    assert kept.forget_expired() == 0
    clock.now += 1
    assert kept.forget_expired() == 2
    assert left.gone
    assert unseen.gone
    assert kept.all() == [busy, idle]
    clock.now += IDLE_S - GRACE_S - 1
    assert kept.forget_expired() == 0
    clock.now += 1
    assert kept.forget_expired() == 1
    assert idle.gone
    busy.busy.release()
    assert kept.forget_expired() == 1
    assert len(kept) == 0


def test_many_threads_open_one_tab_once(kept):
    got, start = [], threading.Barrier(8)

    def open_it():
        start.wait()
        got.append(kept.open("a"))

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, got))) == 1
