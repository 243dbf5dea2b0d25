"""The server at work: the waiting line when it is full, health, logs, and tabs that are closed."""

import json
import logging
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.macd_ui.queues import MAX_WAITING
from macd_studio.macd_ui.serving.logs import FORMAT, WithoutContent
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.store import MAX_UNREAD
from tests.patience import PATIENCE_S
from tests.raw import Visitor, words
from tests.security.conftest import connected, serving
from tests.security.test_sessions import clip, held_run, wait_for


def listen(visitor, event, told):
    """Adds what a visitor hears of an event to a list, as it comes."""
    for message in visitor.messages(event):
        told.append(message)


@pytest.mark.long
def test_those_far_from_the_device_wait_without_their_clips():
    """They are told a place, may leave, and run in turn."""
    with serving() as server:
        server.admission_queue.capacity = 2  # the one that computes and one behind it
        first, _ = held_run(server, Visitor(server.url))
        visitors, threads = [Visitor(server.url) for _ in range(3)], []
        told = [[] for _ in visitors]
        for n, visitor in enumerate(visitors):
            event = visitor.join("run", video=clip(visitor), question="is it?").json()["event_id"]
            threads.append(threading.Thread(target=listen, args=(visitor, event, told[n])))
            threads[-1].start()
            wait_for(lambda n=n: len(server.admission_queue) == n + 2)
        wait_for(lambda: len(server.device_queue) == 2)
        assert server.as_dict()["waiting"] == 3
        assert sum(s.cache is not None for s in server.sessions._by_key.values()) == 2
        wait_for(lambda: "Waiting: 3 runs before yours" in words(told[2]))
        visitors[2].join("stop")
        wait_for(lambda: len(server.admission_queue) == 3)
        server.lm.free.set()
        for thread in (first, *threads):
            thread.join()
        assert server.as_dict()["runs"] == {
            "complete": 3, "stopped": 1, "refused": 0, "failed": 0
        }  # fmt: skip
        assert all('"stage": "done"' in words(told[n]) for n in (0, 1))


def test_a_tab_that_reads_nothing_is_sent_no_steps(store):
    """What is computed is there when it reads again, not all that led to it."""
    visitor = Visitor(store.url)
    before = store.as_dict()["runs"]["complete"]
    visitor.join("run", video=clip(visitor), question="is it?")
    wait_for(lambda: store.as_dict()["runs"]["complete"] == before + 1)
    (session,) = [s for s in store.sessions._by_key.values() if store.tab_states.unread(s.key)]
    wait_for(lambda: not session.busy.locked())
    assert store.tab_states.unread(session.key) <= MAX_UNREAD + 5
    assert '"stage": "done"' in words(list(visitor.messages()))


def test_a_line_that_is_full_is_told(store):
    tickets = [
        store.admission_queue.enter() for _ in range(MAX_WAITING + store.admission_queue.capacity)
    ]
    visitor = Visitor(store.url)
    told = words(visitor.send("run", video=clip(visitor), question="is it?"))
    assert f"{MAX_WAITING} runs wait for this server's device already" in told
    for ticket in tickets:
        ticket.leave()
    assert '"stage": "done"' in words(visitor.send("run", video=clip(visitor), question="is it?"))


def test_health_for_everybody_and_figures_for_this_machine(store):
    # a foreign page whose name leads to this machine must not read them
    foreign = httpx.get(f"{store.url}/healthz", headers={"Host": "any.example"}, trust_env=False)
    assert foreign.status_code == 421
    assert "memory_mb" not in foreign.text
    told = httpx.get(f"{store.url}/healthz", trust_env=False)
    assert told.status_code == 200
    assert {"runs", "seconds", "memory_mb", "waiting", "computing", "sessions"} <= set(told.json())
    outside = httpx.get(f"{store.url}/healthz", headers={"X-Forwarded-For": "8.8.8.8"},
                        trust_env=False)  # fmt: skip
    assert outside.json() == {"status": "ok"}


def test_a_server_that_stops_says_so_and_takes_nobody():
    with serving() as server:
        visitor = Visitor(server.url)
        thread, got = held_run(server, visitor)
        drained = threading.Thread(target=server.drain, args=(900,))
        drained.start()
        wait_for(lambda: server.closing)
        assert httpx.get(f"{server.url}/healthz", trust_env=False).status_code == 503
        late = Visitor(server.url)
        assert "about to stop" in words(late.send("change", question="why?"))
        server.lm.free.set()
        thread.join()
        drained.join()
        # who had a run is told how far it came before the server goes
        assert "The server was ended, and this run with it" in words(got)
        # their page keeps the trace, to show it after a restart; nothing else is made any more
        (session,) = server.sessions.all()
        address = f"/files/{session.token}/clip"
        assert visitor.http.get(f"{address}.macd").content[:2] == b"PK"
        assert visitor.http.get(f"{address}.html").status_code == 404


SECRET = "my grandmother's kitchen"


def test_the_log_holds_neither_questions_nor_file_names():
    with serving() as server:
        records = []
        handler = logging.Handler()
        handler.emit = lambda record: records.append(WithoutContent(FORMAT).format(record))
        logging.getLogger().addHandler(handler)
        try:

            def fail(*_):
                raise RuntimeError(f"unforeseen: {SECRET}") from ValueError(SECRET)

            server.models.detector = fail
            visitor = Visitor(server.url)
            told = words(visitor.send("run", video=clip(visitor), question=SECRET))
        finally:
            logging.getLogger().removeHandler(handler)
    assert "unforeseen went wrong" in told
    text = "\n".join(records)
    assert "RuntimeError" in text
    assert "ValueError" in text
    assert "test_operation.py" in text  # where it happened
    assert "kitchen" not in text
    assert "clip.mp4" not in text


def test_content_is_logged_where_it_is_asked_for():
    try:
        raise OptionError(SECRET, "x")
    except OptionError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("a", logging.ERROR, "f", 1, "failed", None, info)
    assert SECRET in logging.Formatter(FORMAT).format(record)
    record.exc_text = None
    assert SECRET not in WithoutContent(FORMAT).format(record)


STAGES = ("upload", "line", "model", "done")


def close_at(server, stage):
    """A visitor whose tab is closed at some stage of a run."""
    visitor = Visitor(server.url)
    visitor.open_tab()
    file = clip(visitor)
    if stage == "upload":
        visitor.close_tab()
        return
    server.lm.free.clear()
    server.lm.reached.clear()
    if stage == "line":
        ticket = server.device_queue.enter()
    event = visitor.join("run", video=file, question="is it?").json()["event_id"]
    with visitor.stream() as lines:
        if stage == "model":
            assert server.lm.reached.wait(PATIENCE_S)
        else:
            server.lm.free.set()
            wanted = "Waiting" if stage == "line" else event
            next(z for z in lines if wanted in z and (stage == "line" or "_completed" in z))
    if stage == "line":
        ticket.leave()
    visitor.close_tab()
    server.lm.free.set()


def next_run(server):
    visitor = Visitor(server.url)
    return words(visitor.send("run", video=clip(visitor), question="is it?"))


@pytest.mark.long
@pytest.mark.parametrize("tabs", [2, pytest.param(200, marks=pytest.mark.long)])
def test_tabs_that_are_closed_leave_nothing(tabs):
    with serving() as server:
        before = count(server)
        for i in range(tabs):
            close_at(server, STAGES[i % len(STAGES)])
        assert '"stage": "done"' in next_run(server)
        assert len(server.device_queue) == 0
        wait_for(lambda: not server.sessions._connections)
        server.sessions.grace_s = server.uploads.settle_s = server.uploads.unclaimed_s = 0.0
        wait_for(lambda: server.sweep() or not server.sessions._by_key)
        wait_for(lambda: server.sweep() or count(server) == before)


def count(server):
    """Files of the server, and the threads that wait for somebody."""
    kept = sum(1 for p in server.folder.path.rglob("*") if p.is_file())
    readers = sum(t.name == "read" for t in threading.enumerate())
    return kept + readers


@pytest.mark.long
def test_the_newest_figures_are_those_of_runs():
    with serving(ServerSettings(public=True)) as server:
        next_run(server)
        told = server.as_dict()
        assert told["runs"]["complete"] == 1
        assert told["seconds"]["ascent"] > 0
        assert told["memory_mb"] > 10
        kept = next(iter(server.sessions._by_key.values()))
        for content in ("is it?", "clip.mp4", kept.token, kept.key):
            assert content not in json.dumps(told)


@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.long)])
def test_everybody_who_comes_at_once_gets_the_page(public, count):
    """The page is opened without an event, so no line can be too full for it."""
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with ExitStack() as stack:
        opened = []
        for n in range(count):  # each from an address of its own
            source = f"127.0.{1 + n // 200}.{1 + n % 200}"
            opened.append(stack.enter_context(connected(public, source)))
        for plain in opened:
            plain.sendall(request)
        answers = [stack.enter_context(plain.makefile("rb")).read() for plain in opened]
    assert {a.split(b"\r\n", 1)[0] for a in answers} == {b"HTTP/1.1 200 OK"}
    assert all(b"MACD Studio" in a and a.rstrip().endswith(b"</html>") for a in answers)


ROOT = Path(__file__).parents[2]


FIRST_ANSWER = """
import os, sys, httpx
from macd_studio.macd_ui.serving.server import Stop, serve
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.store import Store

stop, port = Stop(), int(sys.argv[1])

def warm_up(store):
    stop.requested = True
    status = httpx.get(f"http://127.0.0.1:{port}/", timeout=None, trust_env=False).status_code
    heavy = {"torch", "transformers", "ultralytics", "scipy", "matplotlib", "plotly"}
    print(status, sorted(heavy & set(sys.modules)))

Store.warm_up = warm_up
serve(ServerSettings(port=port), stop)
"""


def test_the_page_answers_before_models_and_what_only_runs_need_are_loaded():
    """With the page that would take half of the time until the first answer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", FIRST_ANSWER, str(port)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=ROOT
    )
    assert "200 []" in done.stdout, done.stdout + done.stderr[-2000:]
