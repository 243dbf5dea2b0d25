"""From nothing to the page and to a trace: a clean clone with empty caches, `make run`, the first
answer of `/`, and README's first command twice.

`make bench ARGS=start` measures it. PyPI must be reachable; nothing is taken from a cache.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from bench.server import ROOT, answers, free_port, running, wait_until

TRACE = ("-m", "core", "trace", "assets/examples/repaired.mp4", "Which vehicle is in the video?")
"""What README shows first; it runs after the page has answered, so what that loaded is cached."""
CACHES = ("XDG_CACHE_HOME", "PIP_CACHE_DIR", "UV_CACHE_DIR", "HF_HOME", "PYTHONPATH", "VIRTUAL_ENV",
          "MAKEFLAGS", "MAKELEVEL", "GRADIO_SERVER_PORT")  # fmt: skip
"""Variables by which something of another environment would be used."""


def measure(venv: Path | None = None) -> dict[str, float]:
    """Seconds of each part, and megabytes of what it leaves; venv: taken instead of a new one.

    Raises StartError where the page does not come up.
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
        command = ["make", *ready, "run", f"ARGS=--port {port}"]
        with running(command, log, cwd=clone, env=without_caches(home)) as process:
            installed = cloned if venv is not None else wait_until(
                process, lambda: (clone / ".venv" / ".ready").exists(), log
            )  # fmt: skip
            shown = wait_until(process, lambda: answers(f"http://127.0.0.1:{port}/"), log)
        traced = []
        for _ in range(2):
            begun = time.monotonic()
            subprocess.run(
                [".venv/bin/python", *TRACE], cwd=clone, env=without_caches(home), check=True,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
            traced.append(time.monotonic() - begun)
        figures = {
            "start_clone_s": cloned - began,
            "start_install_s": installed - cloned,
            "start_serve_s": shown - installed,
            "start_whole_s": shown - began,
            "start_first_trace_s": traced[0],
            "start_next_trace_s": traced[1],
            "start_clone_mb": megabytes(clone / ".git"),
        }
        if venv is None:
            figures["start_environment_mb"] = megabytes(clone / ".venv")
    return {name: round(value, 1) for name, value in figures.items()}


def without_caches(home: Path) -> dict[str, str]:
    """The environment, with nothing of another one."""
    kept = {name: value for name, value in os.environ.items() if name not in CACHES}
    return kept | {"HOME": str(home)}


def megabytes(folder: Path) -> float:
    """Of the files in a folder."""
    return sum(p.lstat().st_size for p in folder.rglob("*") if not p.is_dir()) / 1e6
