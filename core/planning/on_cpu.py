"""What a plan means on this machine's CPU: memory of the process, and the least time."""

from __future__ import annotations

import time
from typing import Literal

import torch

from macd_studio.core.planning.plan import KINDS, Plan
from macd_studio.core.system.machine import free_gb

OWN_GB = 0.8
"""What the process holds besides tensors: Python, torch and transformers, once imported."""
SIDE = 1024
TRIED_S = 0.3
CpuDtype = Literal["float32", "bfloat16"]


def on_cpu(estimate: Plan, dtype: CpuDtype = "float32") -> dict[str, float]:
    """GB that a process of the command line takes at most, by kind of run.

    The bytes of all tensors that live at once, in that dtype, and OWN_GB. `python -m bench memory`
    holds it against processes with random weights.
    """
    planned = 4 if estimate["backbone"] == "toyworld" else 2
    scale = getattr(torch, dtype).itemsize / planned
    return {
        kind: round(estimate[f"{kind}_peak_gb"] * scale + OWN_GB, 3)  # type: ignore[literal-required]
        for kind in KINDS
    }


def tflops_a_second(dtype: CpuDtype = "float32") -> float:
    """What this process's threads compute in products of matrices, 10¹² operations a second.

    The best of several within TRIED_S seconds, so that another program's work counts less.
    """
    one = torch.ones(SIDE, SIDE, dtype=getattr(torch, dtype))
    best, until = float("inf"), time.perf_counter() + TRIED_S
    with torch.inference_mode():
        while best == float("inf") or time.perf_counter() < until:
            began = time.perf_counter()
            one @ one
            best = min(best, time.perf_counter() - began)
    return 2 * SIDE**3 / best / 1e12


def describe_on_cpu(estimate: Plan, rate: float, dtype: CpuDtype = "float32") -> str:
    """For people, in lines. rate: see `tflops_a_second`.

    Every operation of a run at the rate of a large product of matrices is the least that it can
    take; a run spends more.
    """
    tflops = {"baseline": estimate["prefill_tflops"], "macd": estimate["macd_tflops"]}
    free = free_gb(torch.device("cpu"))
    lines = [
        f"on this CPU, {dtype}, {torch.get_num_threads()} threads, at most {1e3 * rate:.0f}"
        f" GFLOPs a second{'' if free is None else f', {free:.1f} GB free'}",
        f"{'memory of the process':<22}{'GB':>8}   s to the first token, at least",
    ]
    for kind, held in on_cpu(estimate, dtype).items():
        least = f"{tflops[kind] / rate:.3g}" if kind in tflops else ""
        lines.append(f"{kind.replace('_', ' '):<22}{held:>8.2f}   {least}".rstrip())
    return "\n".join(lines)
