"""The page in a process of its own, to be measured or photographed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Playwright

ROOT = Path(__file__).parents[1]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]


@contextmanager
def serving() -> Iterator[str]:
    """Address of a page on a free port, answering; it ends with the block.

    Raises RuntimeError where the server ends by itself instead.
    """
    with serving_process() as (_, url):
        yield url


@contextmanager
def serving_process(*flags: str, **more: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The same with the server's process; flags, more: its command line and environment."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = os.environ | {"GRADIO_SERVER_PORT": str(port)} | more
    server = subprocess.Popen(
        [sys.executable, "app.py", *flags], cwd=ROOT, env=env, stdout=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}/"
    try:
        while True:
            try:
                urllib.request.urlopen(url).close()
                break
            except OSError:
                if server.poll() is not None:
                    raise RuntimeError("the page's server ended; start app.py by hand") from None
                time.sleep(0.05)
        yield server, url
    finally:
        server.terminate()
        server.wait()


def chromium(playwright: Playwright) -> Browser:
    """The system's Chromium without a window."""
    return playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
