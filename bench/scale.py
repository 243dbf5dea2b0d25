"""How the cost grows: steps, rivals, objects, frames, memory; on the embedded backbone, on the CPU.

Every ratio is of medians of runs taken in turn, so that a slow moment hits both sides.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from bench.trace import QUESTION, _tracks
from core.ascent import ascend
from core.backbones import VideoLM, load_backbone
from core.masks import draw_masks
from core.methods import METHODS
from core.methods.base import Case
from core.methods.run import run_method
from core.objective import query_loss
from core.options import AscentOptions, MaskOptions, RunOptions
from core.types import Clip
from core.views import masked_view
from toyworld.clips import drawn_clip
from toyworld.world import frame_times, render, sample

Timed = Callable[[], object]


def measure(runs: int = 9) -> dict[str, float]:
    """Ratios over the baseline at 8 frames and two objects unless the key says otherwise."""
    lm = load_backbone("toyworld", "cpu")
    spec = sample(np.random.default_rng(11), "beach", ["cat", "cup"], fog=0.0)
    clip = drawn_clip(spec, "bench", "0" * 64)
    base = _method(lm, clip, "baseline")
    calls: dict[str, tuple[Timed, Timed]] = {
        "e2e_macd3_over_base_cpu": (_method(lm, clip, "macd", steps=3), base),
        "e2e_vcd_over_base_cpu": (_method(lm, clip, "vcd"), base),
        "e2e_sid_over_base_cpu": (_method(lm, clip, "sid"), base),
        "e2e_tcd_over_base_cpu": (_method(lm, clip, "tcd"), base),
        "ascent_low_over_normal_memory_time_cpu": (
            _ascent(lm, clip, 2, "low"),
            _ascent(lm, clip, 2),
        ),
    }
    for k in (5, 20):
        calls[f"ascent_k{k}_over_k1_cpu"] = _ascent(lm, clip, k), _ascent(lm, clip, 1)
    for frames in (8, 16, 32):
        longer = _clip(spec, frames)
        pair = _method(lm, longer, "macd"), _method(lm, longer, "baseline")
        calls[f"e2e_macd1_over_base_t{frames}_cpu"] = pair
    out = {key: _ratio(*pair, runs) for key, pair in calls.items()}
    out["ascent_low_over_normal_memory_activations"] = _activations(
        lm, clip, low=True
    ) / _activations(lm, clip, low=False)
    return {k: round(v, 3) for k, v in out.items()}


def _clip(spec: object, frames: int) -> Clip:
    times = frame_times(frames)
    few = drawn_clip(spec, "bench", "0" * 64)  # type: ignore[arg-type]
    return replace(few, frames=render(spec, times, 192), times=times * 4.0)  # type: ignore[arg-type]


def _method(lm: VideoLM, clip: Clip, name: str, steps: int = 1) -> Timed:
    encoded = lm.encode(clip, QUESTION)
    tracks = tuple(_tracks(2, len(clip.frames)))
    options = RunOptions(ascent=AscentOptions(steps=steps))

    def call() -> object:
        return run_method(Case(lm, clip, encoded, tracks, options), METHODS[name])

    return call


def _ascent(lm: VideoLM, clip: Clip, objects: int, memory: str = "normal") -> Timed:
    encoded = lm.encode(clip, QUESTION)
    found = _tracks(objects, len(encoded.frames))
    masks = draw_masks(found, len(encoded.frames), encoded.frames.shape[1:3])
    view = masked_view(encoded, masks, found, MaskOptions())
    options = AscentOptions(memory=memory)  # type: ignore[arg-type]
    return lambda: list(ascend(lm, view, options))


def _ratio(one: Timed, other: Timed, runs: int) -> float:
    pairs = []
    for _ in range(runs):
        spent = []
        for call in (one, other):
            began = time.perf_counter()
            call()
            spent.append(time.perf_counter() - began)
        pairs.append(spent)
    a, b = (statistics.median(z) for z in zip(*pairs, strict=True))
    return a / b


def _activations(lm: VideoLM, clip: Clip, low: bool) -> int:
    """Bytes that one ascent step keeps for its way back, weights left out."""
    encoded = lm.encode(clip, QUESTION)
    weights = {p.untyped_storage().data_ptr() for p in lm.model.parameters()}  # type: ignore[attr-defined]
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    video = encoded.video.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = query_loss(lm, encoded, video, low)
    size = sum(kept.values())
    del loss
    return size
