"""Qwen2.5-VL-3B at its true size with random weights: what MACD costs over plain decoding.

Nothing is downloaded. FLOPs are counted, exactly: a pass costs a part that depends on no depth, and
the same for every further layer of one kind, so four shallow models of the true width tell the deep
one. `bench.deep` runs the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from bench.clips import still
from bench.counted import flops as count
from bench.trace import QUESTION, read
from macd_studio.core.backbones import LocalLM, random_weights
from macd_studio.core.backbones.dimensions import DIMENSIONS
from macd_studio.core.options import AscentOptions, MaskOptions, RunOptions
from macd_studio.core.planning.plan import sample_clip
from macd_studio.core.types import LOST
from macd_studio.core.views.context import MethodContext

NAME = "Qwen/Qwen2.5-VL-3B-Instruct"
SIDE, FRAMES = 280, 8


class Depth(NamedTuple):
    """Layers: of the vision tower with windows and without, and of the decoder."""

    windowed: int
    full: int
    decoder: int


WHOLE = Depth(*random_weights.depth_of(DIMENSIONS[NAME]))
SHALLOW = (Depth(1, 1, 1), Depth(2, 1, 1), Depth(1, 2, 1), Depth(1, 1, 2))


def build(depth: Depth, device: str, dtype: torch.dtype) -> LocalLM:
    """A model of the true width; its weights are drawn on the device."""
    dimensions = random_weights.with_depth(DIMENSIONS[NAME], *depth)
    return random_weights.build(NAME, dimensions, device, dtype)


def case(lm: LocalLM, objects: int = 2, late: bool = False, **ascent: object) -> MethodContext:
    """A random clip with still objects; late: none before the last quarter, no frame mask."""
    clip, tracks = sample_clip(FRAMES, SIDE), still(objects, FRAMES)
    if late:
        early = np.arange(FRAMES) < FRAMES - FRAMES // 4
        tracks = tuple(
            replace(
                one,
                boxes=np.where(early[:, None], np.nan, one.boxes).astype(np.float32),
                state=np.where(early, LOST, one.state).astype(np.int8),
            )
            for one in tracks
        )
    options = RunOptions(
        mask=MaskOptions(frame_mask="off" if late else "outside"),
        ascent=AscentOptions(**ascent),  # type: ignore[arg-type]
    )
    return MethodContext(lm, lm.encode(clip, QUESTION), tracks, options)


CASES: dict[str, Callable[[LocalLM], MethodContext]] = {
    "base": case,
    "macd1": case,
    "macd1_low_memory": partial(case, memory="low"),
    "macd3": partial(case, steps=3),
    "macd1_k20": partial(case, objects=20),
    "macd1_base_gradient": partial(case, gradient="base"),
    "macd1_half_gradient": partial(case, gradient="half"),
    "macd1_late_object": partial(case, late=True),
}
"""Kind of run → its case; "base" is read under one view."""


def measure() -> dict[str, float]:
    """FLOPs over the base prefill, 8 frames of 280², by kind of run."""
    flops: dict[str, list[int]] = {name: [] for name in CASES}
    for depth in SHALLOW:
        lm = build(depth, "cpu", torch.float32)
        for name, make in CASES.items():
            flops[name].append(count(partial(read, make(lm), name != "base")))
    whole = {name: _extrapolated(counts) for name, counts in flops.items()}
    ratios = {f"flops_{n}_over_base_3b": whole[n] / whole["base"] for n in CASES if n != "base"}
    ratios["flops_k20_over_k1_3b"] = whole["macd1_k20"] / whole["macd1"]
    del ratios["flops_macd1_k20_over_base_3b"]
    ratios["tflops_base_prefill_3b"] = whole["base"] / 1e12
    return {k: round(v, 3) for k, v in ratios.items()}


def _extrapolated(counts: list[int]) -> float:
    """From SHALLOW to WHOLE: what one more layer of a kind costs does not depend on how many."""
    one, *more = counts
    steps = (WHOLE.windowed - 1, WHOLE.full - 1, WHOLE.decoder - 1)
    return one + sum(n * (m - one) for n, m in zip(steps, more, strict=True))
