"""The page answers before the models are loaded, which takes much longer than the page."""

import socket
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S

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
