"""The page answers before the models are loaded, which takes much longer than the page."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx

from macd_studio.macd_ui.serving.server import Stop, serve
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.store import Store
from tests.patience import PATIENCE_S
from tests.security.conftest import collect_quietly

ROOT = Path(__file__).parents[2]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_the_page_answers_before_the_models_are_loaded(monkeypatch):
    monkeypatch.setattr(os, "_exit", lambda status: None)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setenv("GRADIO_TEMP_DIR", "restored")  # the store sets it anew
    monkeypatch.delenv("GRADIO_TEMP_DIR")
    port = free_port()
    stop, answered = Stop(), []

    def warm_up(store):
        address = f"http://127.0.0.1:{port}/"
        stop.requested = True  # even where nothing answers
        answered.append(httpx.get(address, timeout=PATIENCE_S, trust_env=False).status_code)

    monkeypatch.setattr(Store, "warm_up", warm_up)
    try:
        serve(ServerSettings(port=port), stop)
    finally:
        collect_quietly()
    assert answered == [200]


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


def test_what_only_runs_need_is_imported_after_the_first_answer():
    """With the page it would take half of the time until that."""
    command = [sys.executable, "-c", FIRST_ANSWER, str(free_port())]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=ROOT
    )
    assert "200 []" in done.stdout, done.stdout + done.stderr[-2000:]
