"""The page answers before the models are loaded, which takes much longer than the page."""

import os
import signal
import socket

import httpx

from macd_studio.macd_ui.serving.server import Stop, serve
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.store import Store
from tests.patience import PATIENCE_S
from tests.security.conftest import collect_quietly


def test_the_page_answers_before_the_models_are_loaded(monkeypatch):
    monkeypatch.setattr(os, "_exit", lambda status: None)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setenv("GRADIO_TEMP_DIR", "restored")  # the store sets it anew
    monkeypatch.delenv("GRADIO_TEMP_DIR")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
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
