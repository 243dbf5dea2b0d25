"""Jobs of several visitors: the line, stopping, failing, and what the page shows meanwhile."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import gradio as gr
import numpy as np
import pytest

from macd_studio.core.errors import DetectorError, NotAVideo
from macd_studio.core.media.video import OWN_MACHINE, PUBLIC_SERVER
from macd_studio.core.objects.formats import WRITERS
from macd_studio.core.objects.segment import Sighting
from macd_studio.core.records import Edit
from macd_studio.core.report.export import exported
from macd_studio.macd_ui.estimate import work_of_trace
from macd_studio.macd_ui.examples import examples
from macd_studio.macd_ui.files import addresses
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.layout import Page
from macd_studio.macd_ui.queues import JobQueue
from macd_studio.macd_ui.serving.identity import COOKIE, browser_key, new_cookie
from macd_studio.macd_ui.settings import ServerSettings
from tests.fakes import BoxDetector
from tests.macd_ui.test_page_parts import BROWSER, FIELDS, get
from tests.small_trace import small_trace


def values(clip, **changes):
    asked = {"video": str(clip), "example": None, "question": "is it?", "backbone": "",
             "detector": ""}  # fmt: skip
    return FIELDS | asked | changes


def states(updates):
    return [u["viewer"]["status"] for u in updates if "viewer" in u]


def until(updates, what):
    """Takes updates until one's message holds `what`; gives that one."""
    for update in updates:
        if "viewer" in update and what in update["viewer"]["status"]["message"]:
            return update
    raise AssertionError(f"never told {what!r}")


def test_who_waits_hears_the_place_and_computes_when_it_is_their_turn(handlers, store, make_video):
    video = make_video()
    first = handlers.runs.run(values(video), "one")
    until(first, "Looking")
    waiting = handlers.runs.run(values(video), "two")
    told = until(waiting, "Waiting: 1 run before yours")
    assert told["viewer"]["status"]["running"]
    assert "trace" not in told["viewer"]
    assert len(store.device_queue) == 2
    assert states(first)[-1]["stage"] == "done"
    assert states(waiting)[-1]["stage"] == "done"
    assert len(store.device_queue) == 0
    third = handlers.runs.run(values(video), "three")
    until(third, "Looking")
    # by now it is known how long a run takes
    assert (
        " s"
        in until(handlers.runs.run(values(video), "four"), "Waiting")["viewer"]["status"]["message"]
    )
    third.close()


@pytest.mark.long
def test_stop_works_while_waiting_and_others_move_up(handlers, store, make_video):
    video = make_video()
    first = handlers.runs.run(values(video), "one")
    until(first, "Looking")
    second, third = (handlers.runs.run(values(video), key) for key in ("two", "three"))
    until(second, "Waiting: 1 run")
    until(third, "Waiting: 2 runs")
    handlers.form.stop("two")
    *_, last = second
    assert "Stopped while waiting" in last["viewer"]["status"]["message"]
    assert not last["viewer"]["status"]["error"]
    assert last["run"]["interactive"] is True
    until(third, "Waiting: 1 run")
    store.sessions.leave("three")  # the tab was closed
    list(third)
    assert len(store.device_queue) == 1
    first.close()  # as when the server drops the event of a closed tab
    assert len(store.device_queue) == 0


def test_a_full_line_is_told_and_the_page_stays_usable(handlers, store, make_video):
    store.device_queue = JobQueue(max_waiting=0)
    ticket = store.device_queue.enter()
    (*_, last) = handlers.runs.run(values(make_video()), "me")
    assert "Try again" in last["viewer"]["status"]["error"]
    assert last["viewer"]["status"]["where"] == "form"
    ticket.leave()
    assert states(handlers.runs.run(values(make_video()), "me"))[-1]["stage"] == "done"


@pytest.mark.long
def test_a_change_by_hand_waits_in_the_same_line_and_can_be_stopped(handlers, store, make_video):
    video = make_video()
    *_, shown = handlers.runs.run(values(video), "me")
    other = handlers.runs.run(values(video), "other")
    until(other, "Looking")
    run = shown["viewer"]["trace"]["run"]
    level = 1 - round(shown["viewer"]["trace"]["final"]["level"][0])  # not the one it has
    edit = {"do": "edit", "run": run, "edit": {"kind": "level", "track": 1, "level": level}}
    change = handlers.changes.act(edit, "bytes", None, "me")
    until(change, "Waiting: 1 run")
    handlers.form.stop("me")
    *_, last = change
    assert "Stopped while waiting" in last["viewer"]["status"]["message"]
    assert last["viewer"]["trace"]["edits"] == []
    other.close()
    *_, last = handlers.changes.act(edit, "bytes", None, "me")
    assert [e["kind"] for e in last["viewer"]["trace"]["edits"]] == ["level"]


def test_what_is_sent_while_a_change_ends_waits_for_its_end(handlers, store, monkeypatch):
    """However long the machine takes between a job's last update and the end of its generator."""
    monkeypatch.setattr("macd_studio.macd_ui.session.ENDING_S", 0.0)
    session, trace = store.sessions.open("me"), small_trace()
    session.show(trace)
    run = session.current.run
    session.change(replace(trace, edits=(Edit("level", 1, level=0.0),)))
    first = handlers.changes.act({"do": "undo", "run": run}, "", None, "me")
    told = next(first)
    assert not told["viewer"]["status"]["running"]
    with ThreadPoolExecutor() as pool:
        second = pool.submit(list, handlers.changes.act({"do": "redo", "run": run}, "", None, "me"))
        wait([second], 0.2)
        assert list(first) == []
    (shown,) = second.result()
    assert len(shown["viewer"]["trace"]["edits"]) == 1


def test_reading_the_video_holds_no_device_and_is_stopped_at_once(
    handlers, store, make_video, monkeypatch
):
    reading, continue_decoding = threading.Event(), threading.Event()

    def slow(*_):
        reading.set()
        assert continue_decoding.wait(60)
        raise AssertionError("nobody waits for this")

    monkeypatch.setattr("macd_studio.macd_ui.clips.read_clip", slow)
    job = handlers.runs.run(values(make_video()), "me")
    next(job)
    threading.Thread(target=lambda: (reading.wait(60), handlers.form.stop("me"))).start()
    *_, last = job
    assert len(store.device_queue) == 0
    assert "Stopped while the video was read" in last["viewer"]["status"]["message"]
    continue_decoding.set()


@pytest.mark.parametrize("public", [False, True])
def test_strangers_files_are_read_within_their_limits(make_video, monkeypatch, new_store, public):
    taken = []

    def read(video, options, stopped, limits):
        taken.append(limits)
        raise NotAVideo("it is none", "Take another")

    monkeypatch.setattr("macd_studio.macd_ui.clips.read_clip", read)
    store = new_store(public=public)
    list(make_handlers(store, examples()).runs.run(values(make_video()), "me"))
    largest = ServerSettings(public=public).largest_mb
    assert taken == [replace(PUBLIC_SERVER if public else OWN_MACHINE, megabytes=largest)]


@pytest.mark.parametrize(
    "change",
    [{"question": " "}, {"question": "a\u202eb"}, {"alpha": None}, {"methods": ["magic"]},
     {"video": "/nowhere.mp4"}],
)  # fmt: skip
def test_what_is_refused_changes_nothing_on_the_page(handlers, make_video, change):
    updates = list(handlers.runs.run(values(make_video(), **change), "me"))
    (told,) = updates  # nothing was even begun
    assert told["viewer"]["status"]["error"]
    assert "plot" not in told
    assert "trace" not in told["viewer"]


@pytest.mark.long
def test_a_run_that_fails_gives_back_what_was_shown(handlers, store, make_video, monkeypatch):
    def fail(name, *_):
        raise DetectorError(f"there is no detector {name!r}", "Choose another")

    handlers.form.unfold_plot(True, "me")
    for before in (None, make_video()):
        if before is not None:
            list(handlers.runs.run(values(before, question="first?"), "me"))
        shown = store.sessions.open("me").trace
        monkeypatch.setattr(store.models, "detector", fail)
        updates = list(handlers.runs.run(values(make_video("b.mp4"), detector="x"), "me"))
        monkeypatch.setattr(store.models, "detector", lambda name, *_: BoxDetector())
        last = updates[-1]
        state = last["viewer"]["status"]
        assert "no detector 'x'" in state["error"]
        assert (state["running"], state["stage"], state["stages_done"]) == (False, "", [])
        # the page had begun to show the failed run, so trace and plot change back together
        question = "first?" if before else handlers.view.first[1].question
        assert last["viewer"]["trace"]["question"] == question
        assert last["plot"] is not None
        assert "Run would analyse b.mp4" in last["note"]["text"]
        assert store.sessions.open("me").trace is shown


def test_visitors_of_a_shared_server_are_not_sent_to_its_log(handlers, store, make_video):
    store.models.backbone = store.models.detector = None  # which fails
    *_, last = handlers.runs.run(values(make_video()), "me")
    assert "the server's log" in last["viewer"]["status"]["error"]
    store.settings = replace(store.settings, public=True)
    *_, last = handlers.runs.run(values(make_video()), "me")
    assert "tell whoever runs this server" in last["viewer"]["status"]["error"]
    page = Page.__new__(Page)  # whose calls all fail
    for page.shared, words in ((True, "whoever runs"), (False, "server's log")):
        call = page.process_api()
        with pytest.raises(gr.Error, match=words):
            call.send(None)


def test_a_trace_always_comes_with_its_plot(handlers, make_video):
    """While a run goes on, the plot is that of the trace on the page, never a former one."""
    handlers.form.unfold_plot(True, "me")
    plot, plotted = "former", False
    for update in handlers.runs.run(values(make_video(), steps=2), "me"):
        plot = update.get("plot", plot)
        if "trace" in update.get("viewer", {}):
            steps = update["viewer"]["trace"]["steps"]
            assert plot != "former"
            assert (plot is not None) == bool(steps)
            plotted = plotted or bool(steps)
    assert plotted


def test_a_run_stopped_before_tracking_does_not_say_that_nothing_was_found(handlers, make_video):
    job = handlers.runs.run(values(make_video()), "me")
    until(job, "Looking")
    handlers.form.stop("me")
    *_, last = job
    assert "stopped while objects were looked for" in last["viewer"]["status"]["message"]
    assert last["viewer"]["trace"]["tracked"] is False
    *_, last = handlers.runs.run(values(make_video()), "me")
    assert last["viewer"]["trace"]["tracked"] is True


def test_a_tab_closed_during_a_run_is_no_error(handlers, store, make_video, caplog, monkeypatch):
    job = handlers.runs.run(values(make_video()), "me")
    until(job, "Looking")
    store.sessions.forget("me")

    def fail(*_):
        raise FileNotFoundError("what the run needs went with its tab")

    monkeypatch.setattr(store.estimator, "learn", fail)
    list(job)
    assert not caplog.records
    assert len(store.device_queue) == 0


def test_downloads_need_the_secret_of_the_session(handlers, store, make_video):
    first, found = handlers.view.first_paint()["files"], handlers.view.examples
    answer = get(store, first["trace"], found)
    assert answer.content[:2] == b"PK"
    assert get(store, first["page"], found).status_code == 200
    store.sessions.open("me", browser=browser_key(BROWSER[COOKIE]))
    *_, last = handlers.runs.run(values(make_video()), "me")
    address = last["viewer"]["files"]["trace"]
    token = store.sessions.open("me").token
    assert token in address
    assert len(token) >= 32
    assert get(store, address).content[:2] == b"PK"
    for wrong in (
        address.replace("?run=", "?run=0"),  # one that the session has replaced
        address.replace(token, "guess"),
        address.replace(token, "example"),
        f"files/{store.sessions.open('other').token}/v.macd",
        "files/example/nothing.macd",
    ):
        refused = get(store, wrong, found)
        assert refused.status_code == 404, wrong
        assert "no longer keeps" in refused.text
    for cookies in ({}, {COOKIE: new_cookie()}, {COOKIE: ""}):  # another visitor
        assert get(store, address, found, cookies).status_code == 404
    assert "no such file" in get(store, address.replace(".macd", ".exe")).text


def test_a_file_counts_as_fetched_once_the_page_asks_for_the_newest_state(
    handlers, store, make_video
):
    """Else the next of several questions takes away what a busy page has yet to hear of."""
    session = store.sessions.open("me", browser=browser_key(BROWSER[COOKIE]))
    store.sessions.connect("me")
    *_, last = handlers.runs.run(values(make_video()), "me")
    before = last["viewer"]["files"]["trace"]
    session.trace = session.trace  # the same run, with what was measured since
    assert get(store, before).status_code == 200
    assert store.is_unfetched(session)
    now = addresses(session, None)["trace"]
    for odd in (now.replace("state=", "state=x"), now.replace("state=", f"state={'9' * 99}")):
        assert get(store, odd).status_code == 200
    session.fetched = 0
    assert get(store, now).status_code == 200
    assert not store.is_unfetched(session)


def test_objects_are_downloaded_in_every_format(handlers, store):
    page, found = handlers.view.first_paint()["files"]["page"], handlers.view.examples
    trace = handlers.view.first[1]
    for what in ("tracks", "levels"):
        for format in WRITERS if what == "tracks" else ["coco"]:
            answer = get(store, page.replace(".html", f".{what}-{format}"), found)
            assert answer.status_code == 200, format
            assert answer.content == exported(trace, format, what)
            name = answer.headers["content-disposition"].split('"')[1]
            assert f"-{what}-{format}." in name
    endings = {"cvat": "xml", "png": "zip", "yolo": "zip"}
    assert {f: one.ending[1:] for f, one in WRITERS.items()} == dict.fromkeys(
        WRITERS, "json"
    ) | endings
    assert "no such file" in get(store, page.replace(".html", ".tracks-avi"), found).text
    session = store.sessions.open("me", browser=browser_key(BROWSER[COOKIE]))
    session.show(replace(trace, tracks=()))
    address = addresses(session, None)["page"].replace(".html", ".tracks-coco")
    refused = get(store, address, found)
    assert refused.status_code == 409
    assert "objects" in refused.text


@pytest.mark.parametrize(
    ("action", "where"),
    [({"do": "edit", "edit": 3}, "whatif"), ({"do": "redecode", "alpha": "x"}, "tokens"),
     ({"do": "redecode", "alpha": 1, "beta": 0.1, "method": "bus"}, "tokens"),
     ({"do": "redecode", "alpha": 1, "beta": 0.1, "method": 3}, "tokens"),
     ({"do": "undo", "run": "other"}, "whatif"),
     ({"do": "occlusion", "run": "other"}, "occlusion")],
)  # fmt: skip
def test_an_error_says_where_it_belongs(handlers, make_video, action, where):
    *_, last = handlers.runs.run(values(make_video()), "me")
    action = {"run": last["viewer"]["trace"]["run"]} | action
    *_, told = handlers.changes.act(action, "", None, "me")
    assert told["viewer"]["status"]["error"]
    assert told["viewer"]["status"]["where"] == where


class Corner:
    """Sees the upper left of each frame under whatever point."""

    name = "corner"

    def segment(self, frames, at, points):
        for i in [at, *(i for i in range(len(frames)) if i != at)]:
            mask = np.zeros(frames.shape[1:3], bool)
            mask[: len(mask) // 2, : len(mask[0]) // 2] = True
            yield Sighting(i, mask, 0.9)


def test_a_click_adds_an_object_by_the_segmenter_of_the_form(
    handlers, store, make_video, monkeypatch
):
    asked = []
    monkeypatch.setattr(
        store.models, "segmenter", lambda *what, **_: asked.append(what) or Corner()
    )
    *_, last = handlers.runs.run(values(make_video()), "me")
    view = last["viewer"]["trace"]
    click = {"do": "point", "run": view["run"], "frame": 1, "points": [[0.3, 0.3]],
             "label": "kite", "segmenter": "not this"}  # fmt: skip
    updates = list(handlers.changes.act(click, "bytes", "edgetam", "me"))
    said = [state["message"] for state in states(updates)]
    assert any("Following kite: frame 2 of" in message for message in said)
    shown = updates[-1]["viewer"]["trace"]
    assert asked == [("edgetam", len(view["times"]))]
    assert [t["label"] for t in shown["tracks"]] == [*(t["label"] for t in view["tracks"]), "kite"]
    (edit,) = shown["edits"]
    assert (edit["kind"], edit["segmenter"], edit["points"]) == ("point", "edgetam", [[0.3, 0.3]])
    trace = store.sessions.open("me").trace
    assert store.estimator.measured(work_of_trace(trace), "point edgetam", 1) is not None

    click["run"] = shown["run"]
    for wrong, said in (({"points": [[2, 0]]}, "The point lies outside of the picture"),
                        ({"points": "x"}, "outside of the picture"), ({"frame": 99}, "Frame is 99"),
                        ({"label": "\n"}, "not a name for an object")):  # fmt: skip
        *_, told = handlers.changes.act(click | wrong, "bytes", "grabcut", "me")
        assert said in told["viewer"]["status"]["error"], wrong
        assert told["viewer"]["status"]["where"] == "whatif"
    *_, told = handlers.changes.act(click, "bytes", "yolo11n", "me")
    assert "'yolo11n' is not a known segmenter" in told["viewer"]["status"]["error"]
    assert store.sessions.open("me").trace is trace

    store.settings = ServerSettings(public=True, segmenters=("grabcut", "sam2-tiny"))
    handlers = make_handlers(store, examples())
    edit = {"kind": "point", "frame": 0, "points": [[0, 0]], "segmenter": "edgetam"}
    by_edit = {"do": "edit", "run": shown["run"], "edit": edit}
    for action, name in ((click, "edgetam"), (click, "/tmp"), (by_edit, "grabcut")):
        *_, told = handlers.changes.act(action, "bytes", name, "me")
        error = told["viewer"]["status"]["error"]
        assert "does not offer the segmenter" in error
        assert "Choose grabcut or sam2-tiny" in error
    assert len(asked) == 1


def test_every_update_is_json(handlers, make_video):
    for update in handlers.runs.run(values(make_video()), "me"):
        json.dumps(update.get("viewer", {}), allow_nan=False)
