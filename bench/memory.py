"""What a run on the CPU takes of its process, beside what `core.planning` says that it takes.

`python -m bench memory` builds models at their true size with random weights, each kind of run in
a process of its own (`python -m bench.memory MODEL KIND DTYPE`), as the command line sets it up, up
to the first token's logits. The most that the process held at once (VmHWM) is counted from the
moment when its weights are there. Linux only; minutes, and 6 GB for the largest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from macd_studio.core.planning.plan import CpuDtype

SMALL, LLAVA, LARGE = (
    "HuggingFaceTB/SmolVLM2-256M-Video-Instruct",
    "llava-hf/llava-onevision-qwen2-0.5b-ov-hf",
    "Qwen/Qwen3-VL-2B-Instruct",
)
CASES: tuple[tuple[str, str, CpuDtype], ...] = (
    *((SMALL, kind, "float32") for kind in ("baseline", "macd", "macd_low_memory")),
    (SMALL, "macd", "bfloat16"),
    (LLAVA, "macd_low_memory", "float32"),
    (LARGE, "macd_low_memory", "bfloat16"),
)


def measure(cases: Sequence[tuple[str, str, CpuDtype]] = CASES) -> dict[str, float]:
    """GB by model and kind, and over what is planned; seconds of bfloat16 over float32's."""
    from macd_studio.core.planning.plan import on_cpu, plan

    out: dict[str, float] = {}
    for name, kind, dtype in cases:
        found = in_child(name, kind, dtype)
        planned = on_cpu(plan(name), dtype)[kind]
        key = key_of(name, kind, dtype)
        out |= {
            f"{key}_gb": round(found["gb"], 2),
            f"{key}_over_planned": round(found["gb"] / planned, 3),
            f"{key}_s": round(found["seconds"], 1),
        }
        whole = out.get(f"{key}_s".replace("bfloat16", "float32"))
        if dtype == "bfloat16" and whole:
            out[f"{key}_over_float32"] = round(found["seconds"] / whole, 3)
    return out


def key_of(name: str, kind: str, dtype: str) -> str:
    """How a case's figures begin."""
    return f"cpu_{name.partition('/')[2].partition('-Instruct')[0].lower()}_{kind}_{dtype}"


def in_child(name: str, kind: str, dtype: str) -> dict[str, float]:
    """One run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.memory", name, kind, dtype],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def one(name: str, kind: str, dtype: str) -> dict[str, float]:
    """In this process. gb: the most of it at once during the run; loaded_gb: before it."""
    import torch

    from macd_studio.core.backbones.dimensions import DIMENSIONS
    from macd_studio.core.backbones.random_weights import build
    from macd_studio.core.planning.plan import FRAMES, SIDE, read_once, sample_clip
    from macd_studio.core.system.process import configure_process, return_freed

    configure_process()
    lm: Any = build(name, DIMENSIONS[name], "cpu", getattr(torch, dtype))
    return_freed(lm.info.parameters)
    clip = sample_clip(FRAMES, SIDE)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    loaded, began = _held("VmRSS"), time.perf_counter()
    read_once(kind, lm, clip, 1)
    seconds = time.perf_counter() - began
    return {"gb": _held("VmHWM"), "loaded_gb": loaded, "seconds": seconds}


def _held(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024 / 1e9


if __name__ == "__main__":
    print(json.dumps(one(*sys.argv[1:])))
