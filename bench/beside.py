"""Detection by what our programs set: for threads that wait, beside others that want the cores, and
for freed memory.

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
from macd_studio.core.system.process import MOST_SPINS, POLICY, SPINS

CORES, LIMIT_S = os.cpu_count() or 1, 600.0
"""`LIMIT_S`: how long one run may take."""
SETTINGS = {"ours": {SPINS: MOST_SPINS}, "default": {}, "sleeping": {POLICY: "PASSIVE"}}
"""How threads wait: as our programs set it, as OpenMP does, and without spinning at all."""
PROGRAM = """
import sys
from contextlib import nullcontext
from bench.detect import subject, timed
from macd_studio.core.options import DetectOptions
from macd_studio.core.system.process import freed_kept, keep_heaps_small

number, memory = int(sys.argv[1]), sys.argv[2]
frames, detector = subject()
if memory != "glibc":
    keep_heaps_small()
with freed_kept() if memory == "kept" else nullcontext():
    list(detector.detect(frames[:8], DetectOptions()))
    print(timed(lambda: list(detector.detect(frames[:number], DetectOptions())))[0])
"""
MEMORY = ("kept", "returned", "glibc")
"""Freed blocks in a server: kept while it looks for objects, or not; and as glibc itself does."""
BUSY = "while True: pass"


def measure() -> dict[str, float]:
    """Median ratios of runs taken in turn: alone, and beside as many busy processes as cores; then
    alone, by what becomes of freed memory.
    """
    out = {}
    for name, others, frames, runs in (("alone", 0, 24, 7), ("beside", CORES, 12, 5)):
        seconds: dict[str, list[float]] = {how: [] for how in SETTINGS}
        with busy(others):
            for _ in range(runs):
                for how, setting in SETTINGS.items():
                    seconds[how].append(_run(setting, frames))
        middle = {how: statistics.median(values) for how, values in seconds.items()}
        for how in ("default", "sleeping"):
            out[f"detect_{name}_over_{how}"] = round(middle["ours"] / middle[how], 3)
    spent: dict[str, list[float]] = {how: [] for how in MEMORY}
    for _ in range(5):
        for how in MEMORY:
            spent[how].append(_run(SETTINGS["ours"], 48, how))
    kept = statistics.median(spent["kept"])
    for how in MEMORY[1:]:
        out[f"detect_kept_over_{how}"] = round(kept / statistics.median(spent[how]), 3)
    return out


def _run(setting: dict[str, str], frames: int, memory: str = "glibc") -> float:
    """Seconds of so many frames, after a first batch."""
    plain = {name: value for name, value in os.environ.items() if name not in (SPINS, POLICY)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(frames), memory], cwd=ROOT, env=plain | setting,
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
