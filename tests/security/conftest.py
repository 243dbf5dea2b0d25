"""A real server in this process, with stand-ins for the models; a test can look into its store."""

import gc
import os
import re
import socket
import sys
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

from macd_studio.macd_ui.layout import QUEUE, build_page, launch_options
from macd_studio.macd_ui.serving.passwords import hash_password
from macd_studio.macd_ui.serving.states import TabStates
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.store import Store
from tests.fakes import BoxDetector, ByteLM
from tests.patience import PATIENCE_S


class HeldLM(ByteLM):
    """A model that computes its first loss when the test lets it. holds: how many do so."""

    def __init__(self):
        super().__init__()
        self.free, self.reached = threading.Event(), threading.Event()
        self.free.set()

    def query_logits(self, *given, **more):
        self.reached.set()
        assert self.free.wait(PATIENCE_S)
        return super().query_logits(*given, **more)


def pytest_collection_modifyitems(items):
    """Servers in this process leave sockets and event loops to the garbage collector."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for kind in ("pytest.PytestUnraisableExceptionWarning", "ResourceWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{kind}"))


@pytest.fixture(scope="module", autouse=True)
def _collected():
    before = len(STARTED)
    yield
    if len(STARTED) > before:
        collect_quietly()


STARTED: list[str] = []
"""Addresses of the servers that this process has started."""


@contextmanager
def serving(settings=None, grace_s=3600.0):
    """The page on a free port; gives its store, with `store.url` and the model as `store.lm`.

    Gradio takes the folder of uploads from the environment: one server at a time can be used, a
    server inside another's `with` until it ends.
    """
    former = os.environ.pop("GRADIO_TEMP_DIR", None)  # of a server that is running already
    store = Store(grace_s, settings)
    store.lm = HeldLM()
    store.models.backbone = lambda name, *_: store.lm
    store.models.detector = lambda name, *_: BoxDetector()
    page = build_page(store).queue(max_size=QUEUE, default_concurrency_limit=8)
    store.tab_states = TabStates(page)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        page.launch(server_name="127.0.0.1", server_port=port, prevent_thread_lock=True,
                    quiet=True, **launch_options(store))  # fmt: skip
        store.url = f"http://127.0.0.1:{port}"
        store.page = page
        if not STARTED:  # what was imported until now is looked through once
            gc.collect()
            gc.freeze()
        STARTED.append(store.url)
        yield store
    finally:
        store.lm.free.set()
        store.drain(PATIENCE_S)
        page.close(verbose=False)
        store.close()
        if former is not None:
            os.environ["GRADIO_TEMP_DIR"] = former


def collect_quietly():
    """Frees what the server's own libraries left open, so that no later test is blamed for it."""
    former, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()
    finally:
        sys.unraisablehook = former


@pytest.fixture(scope="module")
def store():
    """A private server with default settings."""
    with serving() as store:
        yield store


@pytest.fixture(scope="module")
def public():
    """A public server."""
    with serving(ServerSettings(public=True)) as store:
        yield store


@pytest.fixture(scope="session")
def users(tmp_path_factory):
    """A file of users: ada and bob, whose password is "correct horse"."""
    file = tmp_path_factory.mktemp("users") / "users"
    file.write_text(
        "".join(f"{user}:{hash_password('correct horse')}\n" for user in ("ada", "bob"))
    )
    return str(file)


def connected(store, source="127.0.0.1"):
    """A connection from some address of this machine."""
    host, port = store.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), PATIENCE_S, source_address=(source, 0))


def exchanged(store, text, ends=False):
    """Statuses of the answers to raw bytes, in which HOST is the server's, and all that came back.

    ends: nothing follows.
    """
    answer = b""
    with connected(store) as plain:
        try:
            plain.sendall(text.replace("HOST", store.url.removeprefix("http://")).encode("latin-1"))
            if ends:
                plain.shutdown(socket.SHUT_WR)
            while more := plain.recv(65536):
                answer += more
        except ConnectionError:  # it does not wait for the end of a head that is too long
            pass
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)], answer


def get(store, path, *lines):
    """The status of a GET whose head is written as given, and all that comes back."""
    head = (f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *lines, "", "")
    codes, answer = exchanged(store, "\r\n".join(head))
    return codes[0], answer
