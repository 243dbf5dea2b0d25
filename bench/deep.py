"""Qwen2.5-VL-3B at its true size and depth, random weights in bfloat16: time and peak memory.

On a GPU where there is one, else on the CPU, where it takes a quarter of an hour and 12 GB.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import torch

from bench.counted import peak_bytes
from bench.large import CASES, WHOLE, Depth, build, case
from bench.trace import read
from macd_studio.core.views.context import MethodContext

TOKENS = 32


def measure() -> dict[str, float]:
    """Over plain decoding of the same clip, 32 tokens; `_gpu` or `_3b_cpu` ends every key."""
    if torch.cuda.is_available():
        figures = timed(WHOLE, runs=5, device="cuda")
    else:
        figures = timed(WHOLE, runs=1, device="cpu")
    return {k: round(v, 3) for k, v in figures.items()}


def timed(depth: Depth, runs: int, device: str) -> dict[str, float]:
    """Medians of runs taken in turn, and the peak memory of one more run each."""
    lm = build(depth, device, torch.bfloat16)
    seconds: dict[str, list[float]] = {n: [] for n in CASES}
    token: dict[bool, list[float]] = {False: [], True: []}
    _timed(case(lm), False)  # warms up
    for _ in range(runs):
        for name, make in CASES.items():
            spent, each = _timed(make(lm), name != "base")
            print(f"  {name} {spent:.2f} s", file=sys.stderr, flush=True)
            seconds[name].append(spent)
            token[name != "base"].append(each)
    end = "gpu" if device == "cuda" else "3b_cpu"
    median = {n: statistics.median(v) for n, v in seconds.items()}
    out = {f"e2e_{n}_over_base_{end}": median[n] / median["base"] for n in CASES if n != "base"}
    both, one = (statistics.median(token[two]) for two in (True, False))
    out |= {f"token2_over_1_{end}": both / one, f"base_ms_{end}": 1000 * median["base"]}
    weighed = ("base", "macd1", "macd1_low_memory", "macd1_base_gradient")
    peak = {n: _peak(lm, partial(CASES[n], lm), n != "base") for n in weighed}
    return out | {f"memory_{n}_over_base_{end}": peak[n] / peak["base"] for n in weighed[1:]}


def _timed(of: MethodContext, macd: bool) -> tuple[float, float]:
    """Seconds in all, and a token."""
    _wait()
    began = time.perf_counter()
    pair = read(of, macd)
    pair.video_logits()  # waits for the device
    at = time.perf_counter()
    for _ in range(TOKENS):
        pair.step([5])
    pair.video_logits()
    done = time.perf_counter()
    return done - began, (done - at) / TOKENS


def _peak(lm: object, make: Callable[[], MethodContext], macd: bool) -> int:
    if not torch.cuda.is_available():
        return peak_bytes(lm.model, lambda: read(make(), macd))  # type: ignore[attr-defined]
    torch.cuda.reset_peak_memory_stats()
    read(make(), macd)
    return int(torch.cuda.max_memory_allocated())


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
