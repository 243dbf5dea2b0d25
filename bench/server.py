"""Processes that are measured, checked or photographed: the page's server and others."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Playwright

ROOT = Path(__file__).parents[1]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
LIMIT_S = 1800.0
"""How long a start may take before it counts as hanging."""
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
END_S = 20.0
"""How long a process that is told to end may take before it is killed."""


class StartError(RuntimeError):
    """A server did not come up; the message holds the end of its log."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def answers(url: str) -> bool:
    """Whether a server is there."""
    try:
        with _DIRECTLY.open(url, timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_until(
    process: subprocess.Popen[bytes],
    there: Callable[[], bool],
    log: Path | None = None,
    limit_s: float = LIMIT_S,
) -> float:
    """The time at which something is there. Raises StartError where it does not come."""
    until = time.monotonic() + limit_s
    while not there():
        if process.poll() is not None or time.monotonic() > until:
            how = "did not come" if process.poll() is None else f"ended with {process.returncode}"
            told = log.read_text(errors="replace")[-2000:] if log else "it was not logged"
            raise StartError(f"the process {how}:\n{told}")
        time.sleep(0.05)
    return time.monotonic()


@contextmanager
def running(
    command: Sequence[object], log: Path | None = None, **how: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A command; it and what it started end with the block. how: for Popen."""
    with open(log or os.devnull, "wb") as out:
        process = subprocess.Popen(
            [str(word) for word in command], stdout=out, stderr=out, start_new_session=True, **how
        )
    try:
        yield process
    finally:
        for kind in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, kind)
                process.wait(END_S)
                break
        process.wait()


@contextmanager
def serving() -> Iterator[str]:
    """Address of a page on a free port, answering; it ends with the block.

    Raises StartError where the server ends by itself instead.
    """
    with serving_process() as (_, url):
        yield url


@contextmanager
def serving_process(*flags: str, **more: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A running page, as its process and its address.

    flags, more: its command line and environment.
    """
    port = free_port()
    env = os.environ | {"GRADIO_SERVER_PORT": str(port)} | more
    server = subprocess.Popen(
        [sys.executable, "app.py", *flags], cwd=ROOT, env=env, stdout=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}/"
    try:
        wait_until(server, lambda: answers(url))
        yield server, url
    finally:
        server.terminate()
        server.wait()


def children(pid: int) -> list[int]:
    """All descendants of a process."""
    below: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, listed.read_text().split()):
                below += [child, *children(child)]
    return below


def memory_mb(pid: int) -> float:
    """Resident memory of a process and of all below it, pages that they share once."""
    total = 0
    for one in (pid, *children(pid)):
        with contextlib.suppress(OSError, StopIteration):  # it has ended
            with open(f"/proc/{one}/smaps_rollup") as lines:
                total += next(int(x.split()[1]) for x in lines if x.startswith("Pss:"))
    return total * 1024 / 1e6


def chromium(playwright: Playwright, *more: str) -> Browser:
    """The system's Chromium without a window."""
    path = shutil.which("chromium")
    return playwright.chromium.launch(executable_path=path, args=[*FLAGS, *more])


def unfolded(context: BrowserContext) -> BrowserContext:
    """A context, in whose pages the parts that fold are open."""
    names = "why measure layers tried"
    context.add_init_script(f"try {{ localStorage.setItem('macd-open', '{names}'); }} catch {{}}")
    return context
