"""Detection while others want the cores: threads that sleep while they wait, over OpenMP's default.

Each run is a process of its own, since OpenMP reads how threads wait once, at its start.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.server import ROOT
from macd_studio.core.system.process import WAITING

FRAMES, LIMIT_S = 8, 600.0
"""Frames of a run after the first batch, and how long one may take."""
POLICIES = {"sleeping": {WAITING: "PASSIVE"}, "default": {}}
"""How threads wait: as our programs set it, and as OpenMP does, which spins for a while."""
PROGRAM = f"""
from bench.detect import subject, timed
from macd_studio.core.options import DetectOptions

frames, detector = subject()
list(detector.detect(frames[:8], DetectOptions()))
print(timed(lambda: list(detector.detect(frames[:{FRAMES}], DetectOptions())))[0])
"""
BUSY = "while True: pass"


def measure(runs: int = 3) -> dict[str, float]:
    """Median ratios of runs taken in turn: alone, and beside as many busy processes as cores."""
    out = {}
    for name, others in (("alone", 0), ("beside", os.cpu_count() or 1)):
        seconds: dict[str, list[float]] = {how: [] for how in POLICIES}
        with busy(others):
            for _ in range(runs):
                for how, setting in POLICIES.items():
                    seconds[how].append(_run(setting))
        middle = {how: statistics.median(values) for how, values in seconds.items()}
        out[f"detect_{name}_sleeping_over_default"] = round(
            middle["sleeping"] / middle["default"], 3
        )
        if others:
            for how in POLICIES:
                key = f"detect_{how}_beside_ms"
                out[key] = round(1000 * middle[how] / FRAMES, 1)
    return out


def _run(setting: dict[str, str]) -> float:
    plain = {name: value for name, value in os.environ.items() if name != WAITING}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=plain | setting,
        capture_output=True, text=True, check=True, timeout=LIMIT_S,
    )  # fmt: skip
    return float(done.stdout.splitlines()[-1])


@contextmanager
def busy(number: int) -> Iterator[None]:
    """So many processes that do nothing else than take a core each."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(number)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
