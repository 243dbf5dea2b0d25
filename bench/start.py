"""From nothing to the page: a clean clone with empty caches, `make run`, the first answer of `/`.

`make bench ARGS=start` measures it; `python -m bench.start --venv .venv` takes the same way without
the installation, prints and keeps nothing. PyPI must be reachable; nothing is taken from a cache.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.server import ROOT
from bench.space import free_port

LIMIT_S = 1800.0
"""How long the installation and the start may take before they count as hanging."""
CACHES = ("XDG_CACHE_HOME", "PIP_CACHE_DIR", "UV_CACHE_DIR", "HF_HOME", "PYTHONPATH", "VIRTUAL_ENV",
          "MAKEFLAGS", "MAKELEVEL", "GRADIO_SERVER_PORT")  # fmt: skip
"""Variables by which something of another environment would be used."""


def measure(venv: Path | None = None) -> dict[str, float]:
    """Seconds of each part, and megabytes of what it leaves; venv: taken instead of a new one.

    Raises RuntimeError where the page does not come up.
    """
    with tempfile.TemporaryDirectory(prefix="macd-start-") as folder:
        clone, home = Path(folder) / "clone", Path(folder) / "home"
        home.mkdir()
        began = time.monotonic()
        # the last commit with its whole history, as somebody downloads it; no hard links
        subprocess.run(
            ["git", "clone", "--quiet", "--no-local", "--single-branch", str(ROOT), str(clone)],
            check=True,
        )
        cloned = time.monotonic()
        if venv is not None:
            (clone / ".venv").symlink_to(venv.resolve())
        ready = [] if venv is None else ["-o", ".venv/.ready"]
        port = free_port()
        log = Path(folder) / "log"
        with running(["make", *ready, "run", f"ARGS=--port {port}"], clone, home, log) as process:
            installed = cloned if venv is not None else wait_for(
                process, log, lambda: (clone / ".venv" / ".ready").exists()
            )  # fmt: skip
            shown = wait_for(process, log, lambda: answers(f"http://127.0.0.1:{port}/"))
        figures = {
            "start_clone_s": cloned - began,
            "start_install_s": installed - cloned,
            "start_serve_s": shown - installed,
            "start_whole_s": shown - began,
            "start_clone_mb": megabytes(clone / ".git"),
        }
        if venv is None:
            figures["start_environment_mb"] = megabytes(clone / ".venv")
    return {name: round(value, 1) for name, value in figures.items()}


@contextlib.contextmanager
def running(
    command: Sequence[str], where: Path, home: Path, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A command with empty caches; it and what it started end with the block."""
    kept = {name: value for name, value in os.environ.items() if name not in CACHES}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=where, env=kept | {"HOME": str(home)}, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def wait_for(process: subprocess.Popen[bytes], log: Path, there: Callable[[], bool]) -> float:
    """The time at which something is there. Raises RuntimeError where it does not come."""
    until = time.monotonic() + LIMIT_S
    while not there():
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"`make run` did not come up:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)
    return time.monotonic()


def answers(url: str) -> bool:
    """Whether the page is there."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def megabytes(folder: Path) -> float:
    """Of the files in a folder."""
    return sum(p.lstat().st_size for p in folder.rglob("*") if not p.is_dir()) / 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures once and prints the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.start", description=__doc__)
    parser.add_argument("--venv", type=Path, metavar="FOLDER", help="without the installation")
    for name, value in measure(parser.parse_args(arguments).venv).items():
        print(f"{name:<24}{value:>10}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
