"""Signals: a server ends at once while it starts, in order while it serves, and never hangs."""

import faulthandler
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from macd_studio.macd_ui import layout
from macd_studio.macd_ui.serving import logs, server
from macd_studio.macd_ui.store import Store
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
WORDS = ["--port", "65000"]


class Ended(BaseException):
    """Instead of the end of this process."""


@pytest.fixture
def ends(monkeypatch):
    """What would end this process: codes of exits, and limits that were set."""
    told = SimpleNamespace(codes=[], limits=[], stores=[])

    def leave(code):
        told.codes.append(code)
        raise Ended

    def limit(seconds, exit):
        assert exit
        told.limits.append(seconds)

    def store_of(store):
        told.stores.append(store)
        assert store.folder.path.is_dir()

    told.store_of = store_of
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(faulthandler, "dump_traceback_later", limit)
    monkeypatch.setattr(logs, "set_up_logging", lambda content: None)
    former = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    yield told
    for number, handler in former.items():
        signal.signal(number, handler)
    assert not any(store.folder.path.exists() for store in told.stores)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_start_at_once(ends, monkeypatch, number):
    """Which would else go on through every import, download and model."""

    def build(store):
        ends.store_of(store)
        signal.raise_signal(number)
        raise AssertionError("the start went on")

    monkeypatch.setattr(layout, "build_page", build)
    with pytest.raises(Ended):
        server.main(WORDS)
    assert ends.codes == [0]
    assert ends.limits == [server.END_S]


def test_a_second_signal_does_not_cut_off_the_cleaning_up(ends):
    stop = server.Stop()
    with pytest.raises(server.Stopped):
        stop.request()
    stop.request()
    assert stop.requested
    assert len(ends.limits) == 1


def test_a_signal_before_there_is_anything_to_close(ends, monkeypatch):
    monkeypatch.setattr(server, "read_settings", lambda _: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(Ended):
        server.main(WORDS)
    assert ends.codes == [0]


def test_a_signal_ends_a_server_in_order(ends, monkeypatch):
    """Another one meanwhile changes nothing, and what hangs is ended within the limit."""
    done = []

    class Page:
        is_running = True
        state_holder = SimpleNamespace(session_data={})

        def queue(self, **_):
            return self

        def launch(self, **_):
            done.append("launch")

        def close(self, verbose):
            signal.raise_signal(signal.SIGTERM)
            done.append("close")

    def build(store):
        ends.store_of(store)
        return Page()

    def wait(seconds):
        done.append("wait")
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)

    def drain(store, seconds):
        signal.raise_signal(signal.SIGTERM)
        done.append("drain")

    monkeypatch.setattr(layout, "build_page", build)
    monkeypatch.setattr(layout, "launch_options", lambda store: {})
    monkeypatch.setattr(Store, "warm_up", lambda store: None)
    monkeypatch.setattr(Store, "drain", drain)
    monkeypatch.setattr(server, "time", SimpleNamespace(sleep=wait))
    with pytest.raises(Ended):
        server.main(WORDS)
    assert done == ["launch", "wait", "drain", "close"]
    assert ends.codes == [0]
    assert ends.limits == [server.END_S]
    assert server.DRAIN_S < server.END_S < 30


@pytest.mark.long
def test_a_real_server_that_imports_its_libraries_ends_without_starting(tmp_path):
    log = tmp_path / "log"
    words = [sys.executable, "-u", "app.py", *WORDS]
    with log.open("w") as out:
        process = subprocess.Popen(words, cwd=ROOT, stdout=out, stderr=out)
        until = time.monotonic() + PATIENCE_S
        while "pandas" not in Path(f"/proc/{process.pid}/maps").read_text():
            assert time.monotonic() < until
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert "Running on" not in log.read_text()
