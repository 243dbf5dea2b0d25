"""A server of one study, in a process of its own that can be killed at any moment."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx

from macd_studio.ratings.store import Study
from tests.patience import PATIENCE_S
from tests.ratings.studies import make_study

ROOT = Path(__file__).parents[2]


class Server:
    """A server that can be killed and started again on its port."""

    def __init__(self, path, limit=None):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        words = [sys.executable, "-m", "tests.ratings.serve", str(path), str(self.port)]
        self.parent = subprocess.Popen(
            words + ([str(limit)] if limit else []), cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self):
        self.parent.stdin.write("start\n")
        self.parent.stdin.flush()
        self.process = int(self.parent.stdout.readline())
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                httpx.get(f"{self.url}/rate", timeout=PATIENCE_S)
                return
            except httpx.HTTPError:
                time.sleep(0.01)
        raise AssertionError("the server does not answer")

    def kill(self):
        os.kill(self.process, signal.SIGKILL)

    def end(self):
        self.parent.stdin.write("end\n")
        self.parent.stdin.close()
        self.kill()
        self.parent.wait(PATIENCE_S)
        self.parent.stdout.close()


@contextmanager
def served(folder):
    """A study of one rater on a server that runs: its file, the server, and the rater's link."""
    path = make_study(folder, 3)
    with Study(path) as study:
        (code,) = study.invite(1)
    server = Server(path)
    try:
        server.start()
        yield path, server, f"{server.url}/rate#{code}"
    finally:
        server.end()
