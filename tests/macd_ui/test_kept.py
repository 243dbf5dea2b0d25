"""What sessions keep: one bound for all, who gives first, and a page that works all the same."""

import gc
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from macd_studio.core.errors import DetectorError, TraceError
from macd_studio.core.media.video import MAX_SIDE
from macd_studio.core.options import VideoOptions
from macd_studio.core.run.cache import StageCache
from macd_studio.core.traces.bundle import pack, save, unpack
from macd_studio.core.types import Clip
from macd_studio.macd_ui import traces
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.queues import NEAR
from macd_studio.macd_ui.serving.identity import COOKIE, browser_key
from macd_studio.macd_ui.session import Session
from macd_studio.macd_ui.settings import KEPT_SHARED, LIMITS, ServerSettings
from macd_studio.macd_ui.store import Store
from macd_studio.macd_ui.traces import MAX_OPENING, MemoryBudget, StoredTrace, memory_of
from macd_studio.viewer import identity
from tests.fakes import BoxDetector
from tests.macd_ui.test_jobs import states, until, values
from tests.macd_ui.test_page_parts import BROWSER, get
from tests.macd_ui.test_store import SOON_S
from tests.security.test_trace_bomb import MAX_MB
from tests.small_trace import small_trace

MB = 10**6


class Clock:
    now = 0.0

    def __call__(self):
        self.now += 1
        return self.now


def clip_of(megabytes):
    """A clip of so many megabytes, which take memory only where they are touched."""
    frames = np.zeros((1, 1, round(megabytes * MB / 3), 3), np.uint8)
    times = np.zeros(1)
    return Clip(frames, times, frames[:0], times[:0], "", "", 1.0, (1, 1))


def keep(budget, session, clip=0.0, bench=0.0):
    """The session has used what it keeps: a clip and a bench of so many megabytes."""
    session.cache = StageCache()
    if clip:
        session.cache.put("clip", clip_of(clip))
    if bench:
        session.bench = SimpleNamespace(lm=None, trace=None, state=bytearray(int(bench * MB)))
    budget.rebalance(session)


def kept(session):
    """Megabytes of its clip, and of its bench."""
    found = memory_of(session.cache.frames()), memory_of(session.bench)
    return tuple(round(size / MB, 1) for size in found)


@pytest.fixture
def budget(tmp_path):
    return MemoryBudget(10 * MB, 2 * MB, tmp_path / "traces", Clock())


def test_memory_counts_each_array_and_text_once():
    array = np.zeros(1000, np.uint8)
    assert memory_of([array[:10], array[500:], array.reshape(10, 100)]) < 1000 + 300
    assert memory_of(array[:1]) == 1000
    tensor = torch.zeros(250)
    assert memory_of((tensor, tensor[:3], tensor.view(5, 50))) < 1000 + 300
    assert memory_of(tensor) == 1000
    text = "x" * 5000
    assert 5000 < memory_of({"a": [text, text], "b": text}) < 6000
    assert memory_of(array, {id(array)}) == 0
    assert memory_of(SimpleNamespace(model=torch.nn.Linear(1000, 1000))) < 1000
    trace = small_trace()
    assert (
        memory_of(trace) > trace.frames.nbytes + trace.answers["macd"].second_views[0].shown.nbytes
    )
    again = replace(trace, question="Another?")
    assert memory_of([trace, again]) < 1.2 * memory_of(trace)


def test_what_was_not_used_for_longest_goes_first(budget):
    sessions = [Session(str(i)) for i in range(4)]
    for session in sessions[:3]:
        keep(budget, session, 3)
    keep(budget, sessions[0], 3)  # used again
    keep(budget, sessions[3], 3)
    assert [kept(s)[0] for s in sessions] == [3, 0, 3, 3]
    assert not any(s.busy.locked() for s in sessions)  # who gave something can run again
    assert budget.total <= budget.memory


def test_who_keeps_more_than_an_equal_share_gives_first(budget):
    small, large = Session("small"), Session("large")
    keep(budget, small, 2)  # not used for longest
    keep(budget, large, 5, bench=2.5)
    keep(budget, large, 5, bench=4)
    assert kept(small) == (2, 0)
    assert kept(large) == (0, 4)  # its clip is read again sooner than its bench is made


def test_of_what_was_used_at_the_same_time_the_cheapest_to_make_again_goes_first(budget):
    session = Session("a")
    keep(budget, session, 6, bench=6)
    assert kept(session) == (0, 6)
    session.show(small_trace())
    budget.memory = 1
    budget.rebalance(session)
    assert kept(session) == (0, 0)
    assert session.current.in_memory is None


def test_only_so_many_traces_are_read_back_at_once(tmp_path, monkeypatch):
    now, most, reading, free = 0, 0, threading.Semaphore(0), threading.Event()

    def slow(content):
        nonlocal now, most
        now += 1
        most = max(most, now)
        reading.release()
        free.wait()
        now -= 1
        return unpack(content)

    monkeypatch.setattr(traces, "unpack", slow)
    stored = [StoredTrace(small_trace()) for _ in range(MAX_OPENING + 2)]
    for one in stored:
        one.move_to_file(tmp_path)
    threads = [threading.Thread(target=one.get) for one in stored]
    for thread in threads:
        thread.start()
    for _ in range(MAX_OPENING):
        reading.acquire()
    threads[-1].join(SOON_S)  # the others wait, however long
    free.set()
    for thread in threads:
        thread.join()
    assert most == MAX_OPENING
    assert all(one.in_memory is not None for one in stored)


def test_what_a_job_uses_stays_until_it_ends(budget):
    busy, other = Session("busy"), Session("other")
    keep(budget, busy, 8)
    with busy.busy:
        keep(budget, other, 4)
        assert (kept(busy)[0], kept(other)[0]) == (8, 0)
        keep(budget, other, 1)
        assert (kept(busy)[0], kept(other)[0]) == (8, 1)
    keep(budget, other, 4)
    assert (kept(busy)[0], kept(other)[0]) == (0, 4)


def test_a_session_that_is_over_counts_no_more(budget):
    session = Session("a")
    keep(budget, session, 5)
    assert budget.total > 5 * MB
    budget.forget(session)
    assert budget.total == 0
    keep(budget, session, 5)
    del session
    gc.collect()
    assert budget.total == 0


def test_a_trace_goes_into_a_file_and_comes_back(tmp_path):
    trace = small_trace()
    one = StoredTrace(trace)
    one.move_to_file(tmp_path / "traces")
    (file,) = (tmp_path / "traces").iterdir()
    assert one.in_memory is None
    assert file.stat().st_size == one.file_bytes
    assert (tmp_path / "traces").stat().st_mode & 0o77 == 0
    assert (one.request.spec.question, one.status) == (trace.question, "complete")
    assert one.run == identity(one.read())
    assert one.in_memory is None
    assert one.content() == pack(trace) == file.read_bytes()
    assert one.get() is one.get() is one.in_memory
    file.unlink()
    one.move_to_file(tmp_path / "traces")  # what was written once is not written again
    with pytest.raises(TraceError, match="no longer keeps the run"):
        one.get()


def test_files_go_with_their_traces(tmp_path):
    first, second = StoredTrace(small_trace()), StoredTrace(small_trace())
    first.move_to_file(tmp_path)
    second.move_to_file(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    del first
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 1
    second.drop()
    assert not list(tmp_path.iterdir())
    with pytest.raises(TraceError, match="no longer keeps the run"):
        second.content()


def test_a_full_disk_leaves_traces_in_memory(tmp_path):
    session = Session("a")
    session.show(small_trace())
    (tmp_path / "file").write_bytes(b"")
    budget = MemoryBudget(0, MB, tmp_path / "file")  # no folder
    budget.rebalance(session)
    assert session.current.in_memory is not None
    assert session.trace.question


def test_files_are_bounded_too_and_history_goes_first(tmp_path):
    trace = small_trace()
    size = len(pack(trace))
    one, two = Session("one"), Session("two")
    budget = MemoryBudget(0, round(3.5 * size), tmp_path / "traces", Clock())
    two.show(trace)
    budget.rebalance(two)
    one.show(trace)
    one.change(trace)
    one.change(trace)
    budget.rebalance(one)  # four traces: two of `one` are history
    assert (len(one.stored_traces()), len(two.stored_traces())) == (1, 1)
    assert one.trace.question == two.trace.question
    gc.collect()
    assert sum(f.stat().st_size for f in (tmp_path / "traces").iterdir()) <= budget.files
    budget.files = round(1.5 * size)
    budget.rebalance(one)
    assert one.trace.question
    with pytest.raises(TraceError, match="no longer keeps the run"):  # the one not used for longest
        _ = two.trace


def test_files_of_who_is_at_work_are_not_taken(tmp_path):
    trace = small_trace()
    size = len(pack(trace))
    busy, idle = Session("busy"), Session("idle")
    budget = MemoryBudget(0, 9 * size, tmp_path / "traces", Clock())
    for session in (busy, busy, idle):
        session.change(trace) if session.stored_traces() else session.show(trace)
        budget.rebalance(session)
    budget.files = round(2.5 * size)
    with busy.busy:
        budget.rebalance(idle)
        assert len(busy.stored_traces()) == 2
    budget.rebalance(idle)
    assert len(busy.stored_traces()) == 1


def test_fifty_tabs_of_hd_clips_stay_within_two_gigabytes():
    """The largest clips of 16:9 that the page can ask for, and whatever is read beside."""
    options = VideoOptions(frames=int(LIMITS["video.frames"]))
    side = MAX_SIDE, MAX_SIDE * 9 // 16
    small = side[0] // 2 * (side[1] // 2) * 3
    clip = options.frames * side[0] * side[1] * 3 + (options.dense_limit + options.frames) * small
    waiting = (NEAR + 1) * clip
    assert KEPT_SHARED.memory + waiting + MAX_OPENING * MAX_MB * MB < 1.8e9  # and room for a run
    store = Store(settings=ServerSettings(public=True))
    try:
        for i in range(50):
            session = store.sessions.open(f"tab {i}", f"visitor {i}")
            session.cache = StageCache()
            session.cache.put("clip", clip_of(clip / MB))
            store.rebalance(session)
            assert store.budget.total <= KEPT_SHARED.memory
        assert store.budget.total > KEPT_SHARED.memory / 2
    finally:
        store.close()


@pytest.fixture
def store(new_store):
    """A server that keeps nothing in memory between clicks."""
    return new_store(kept_mb=0)


def test_the_page_works_when_nothing_stays_in_memory(store, make_video):
    handlers = make_handlers(store, [])
    clip = make_video()
    session = store.sessions.open("me", browser=browser_key(BROWSER[COOKIE]))

    def put_away():
        assert session.current.in_memory is None
        assert session.bench is None
        assert session.cache.frames() == []
        assert store.budget.total == 0

    short = {"methods": [], "frames": 3}
    *_, shown = handlers.runs.run(values(clip, **short), "me")
    put_away()
    run = shown["viewer"]["trace"]["run"]
    answers = shown["viewer"]["trace"]["answers"]
    for name, level in (("first", 0.0), ("second", 1.0)):
        edit = {"kind": "level", "track": 1, "level": level}
        action = {"do": "edit", "run": run, "edit": edit}
        *_, changed = handlers.changes.act(action, "bytes", None, "me")
        assert not changed["viewer"]["status"]["error"], name
        put_away()
    edits = len(changed["viewer"]["trace"]["edits"])
    assert edits >= 1
    *_, undone = handlers.changes.act({"do": "undo", "run": run}, "bytes", None, "me")
    assert len(undone["viewer"]["trace"]["edits"]) == edits - 1
    put_away()
    *_, again = handlers.changes.act({"do": "redo", "run": run}, "bytes", None, "me")
    assert again["viewer"]["trace"]["edits"] == changed["viewer"]["trace"]["edits"]
    put_away()
    assert handlers.form.unfold_plot(True, "me")["plot"] is not None
    assert (
        "Run would analyse"
        in handlers.form.edit_form(values(clip, question="and?"), "me")["note"]["text"]
    )
    put_away()
    saved, page = (get(store, again["viewer"]["files"][kind]) for kind in ("trace", "page"))
    assert saved.content.startswith(b"PK")
    assert page.text.startswith("<!doctype html>")
    put_away()
    *_, shown = handlers.runs.run(values(clip, **short), "me")  # the clip is read again
    assert shown["viewer"]["trace"]["answers"].keys() == answers.keys()
    *_, measured = handlers.changes.act({"do": "occlusion", "run": run}, "bytes", None, "me")
    assert measured["viewer"]["trace"]["occlusion"]
    put_away()
    store.sessions.forget("me")
    session.clear_history()
    session.current = None
    gc.collect()
    assert not list(store.budget.folder.iterdir())


def test_a_run_that_the_server_no_longer_keeps_is_told(store, make_video):
    handlers = make_handlers(store, [])
    session = store.sessions.open("me", browser=browser_key(BROWSER[COOKIE]))
    session.show(small_trace())
    files = handlers.view.show_trace(session, {})["viewer"]["files"]
    session.drop_trace()
    action = {"do": "undo", "run": session.current.run}
    for told in (
        *handlers.changes.act(action, "bytes", None, "me"),
        *handlers.changes.act(action | {"do": "occlusion"}, "bytes", None, "me"),
    ):
        assert "trace" not in told["viewer"]  # what is on the page stays
    assert told["viewer"]["lost"]
    assert "no longer keeps the run" in told["viewer"]["status"]["error"]
    assert handlers.form.unfold_plot(True, "me") == {}
    gone = get(store, files["trace"])
    assert (gone.status_code, "no longer keeps" in gone.text) == (404, True)
    run = handlers.runs.run(values(make_video(), methods=[], frames=2), "me")
    assert states(run)[-1]["stage"] == "done"


@pytest.mark.parametrize("how", ["stopped", "failed"])
def test_a_run_that_does_not_end_keeps_no_frames(new_store, make_video, how):
    detector = BoxDetector()
    store = new_store(detector=lambda: detector)
    assert store.budget.memory > 10**9
    handlers = make_handlers(store, [])
    session = store.sessions.open("me")
    if how == "failed":

        def fail(*_):
            raise DetectorError("the detector failed", "Choose another")

        detector.detect = fail
        *_, last = handlers.runs.run(values(make_video()), "me")
        assert last["viewer"]["status"]["error"]
    else:
        run = handlers.runs.run(values(make_video(), methods=[]), "me")
        until(run, "step 1")
        assert session.cache.frames()
        handlers.form.stop("me")
        *_, last = run
        assert session.current.status.startswith("stopped")
        assert session.current.in_memory is None
        assert session.trace.frames.any()
    assert session.cache.frames() == []


def test_another_clip_takes_the_place_of_the_last(new_store, make_video):
    store = new_store()
    handlers = make_handlers(store, [])
    for frames in (2, 3):
        *_, last = handlers.runs.run(values(make_video(), frames=frames, methods=[]), "me")
        assert last["viewer"]["status"]["stage"] == "done"
    (clip,) = store.sessions.open("me").cache.frames()
    assert len(clip.frames) == 3


def test_who_waits_to_open_a_file_hears_the_place(store, tmp_path):
    handlers = make_handlers(store, [])
    path = save(small_trace(), tmp_path / "x.macd")
    before = [store.opening_queue.enter(4.0) for _ in range(MAX_OPENING)]
    opening = handlers.form.open_trace(str(path), "me")
    told = next(opening)["viewer"]["status"]
    assert (told["message"], told["running"]) == ("Waiting: 1 file before yours, about 4 s", True)
    before[0].leave()
    *_, last = opening
    assert last["viewer"]["trace"]["run"]
    before[1].leave()
    assert len(store.opening_queue) == 0
    waiting = [store.opening_queue.enter() for _ in range(MAX_OPENING)]
    left = handlers.form.open_trace(str(path), "gone")
    next(left)
    store.sessions.forget("gone")
    assert list(left) == []
    assert len(store.opening_queue) == len(waiting)
